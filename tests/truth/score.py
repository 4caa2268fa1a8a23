"""Compares what ``kproxy report`` says about captures with what their workloads wrote down.

A statement is a row of an analysis. Right: a Truth of the workload covers it. Wrong: none does, or one denies it. Missed: a
Truth with *must* that no statement covers. Rows of severity info describe what was seen, as much of it as there was: they are
wrong only where the workload denies them.
"""

import datetime
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.command import report_json
from tests.truth.manifest import Manifest, Truth, read_manifests

SEVERITIES = ("critical", "warning", "notice", "info", "none")  # none: of an analysis that does not exist
_WHEN = ("first_at", "began_at", "at")
_PLANNED = {"readiness"}  # what would happen after an upgrade: nothing that is wrong now
_DESCRIBED = {"map", "lag", "inventory", "latency", "topics", "diff"}  # they list what was seen
Report = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One statement, or one that is missing. *kind*: right or wrong for a statement, found or missed for a Truth."""

    kind: str
    workload: str
    analysis: str
    severity: str
    what: str


@dataclass
class Result:
    """All answers about some workloads."""

    answers: list[Answer] = field(default_factory=list)
    unhealthy: list[str] = field(default_factory=list)  # what was said too much of a healthy workload
    workloads: int = 0

    def wrong(self) -> str:
        """Each answer that is not right, a line each."""
        lines = [
            f"{a.kind:6} {a.severity:8} {a.workload}: {a.analysis} {a.what}"
            for a in self.answers
            if a.kind in {"wrong", "missed"}
        ]
        return "\n".join(lines + self.unhealthy)

    def table(self) -> str:
        """Recall and precision of each analysis and severity."""
        kinds = [kind for kind in SEVERITIES if any(a.severity == kind for a in self.answers)]
        lines = [
            f"{self.workloads} workloads",
            f"{'':28}{'right':>7}{'wrong':>7}{'missed':>7}{'recall':>9}{'precision':>11}",
        ]
        for kind in kinds:
            of_kind = [answer for answer in self.answers if answer.severity == kind]
            lines.append(_line(kind.upper(), of_kind))
            for analysis in sorted({answer.analysis for answer in of_kind}):
                lines.append(_line(f"  {analysis}", [answer for answer in of_kind if answer.analysis == analysis]))
        return "\n".join(lines)


def _line(name: str, answers: Sequence[Answer]) -> str:
    count = Counter(answer.kind for answer in answers)
    named = count["found"]
    recall = f"{named / (named + count['missed']):9.1%}" if named + count["missed"] else f"{'':9}"
    said = count["right"] + count["wrong"]
    precision = f"{count['right'] / said:11.1%}" if said else ""
    return f"{name:28}{count['right']:7}{count['wrong']:7}{count['missed']:7}{recall}{precision}"


def score(folder: Path, names: Sequence[str] = ()) -> Result:
    """Score the workloads of a folder, each capture by itself."""
    result = Result()
    for capture, manifest in read_manifests(folder).items():
        if not names or manifest.name in names:
            judge(manifest, report(manifest, capture), result)
    return result


def report(manifest: Manifest, capture: Path) -> Report:
    """All analyses of a capture; of the contents of its records, too, where the workload wants it."""
    if not manifest.records:
        return report_json("--all", capture)
    with TemporaryDirectory() as folder:
        for name, text in manifest.schemas.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return report_json("--all", "--records", *(("--schemas", folder) if manifest.schemas else ()), capture)


def judge(manifest: Manifest, made: Report, result: Result) -> None:
    """Add the answers that a report gives about a workload."""
    result.workloads += 1
    said: Counter[str] = Counter()
    for analysis, found in made["analyses"].items():
        truths = [truth for truth in manifest.truths if truth.analysis == analysis]
        answers = list(_answers(manifest, analysis, found, truths))
        result.answers += answers
        if analysis not in _PLANNED and any(_belongs(row, manifest) for row in found["rows"]):
            said[_severity(made, analysis)] += 1
    for truth in manifest.truths:
        if truth.must and not truth.never and truth.analysis not in made["analyses"]:
            result.answers.append(Answer("missed", manifest.name, truth.analysis, "none", "there is no such analysis"))
    if manifest.healthy and (said["critical"] or said["warning"] > 1):
        result.unhealthy.append(f"healthy {manifest.name}: {said['critical']} critical, {said['warning']} warnings")


def _severity(made: Report, analysis: str) -> str:
    verdicts = [verdict["severity"] for verdict in made["verdicts"] if verdict["id"] == analysis]
    return verdicts[0] if verdicts else str(made["analyses"][analysis]["severity"])


def _answers(manifest: Manifest, analysis: str, found: Report, truths: Sequence[Truth]) -> Iterator[Answer]:
    rows: list[Row] = [row for row in found["rows"] if _belongs(row, manifest)]
    for row in rows:
        severity = row.get("severity") or found["severity"]
        covering = [truth for truth in truths if covers(truth, row)]
        denied = any(truth.never for truth in covering)
        if denied or not (covering or severity == "info" or analysis in _DESCRIBED):
            yield Answer("wrong", manifest.name, analysis, severity, _short(row))
        elif covering:
            yield Answer("right", manifest.name, analysis, severity, _short(row))
    for truth in truths:
        if truth.must and not truth.never:
            matching = sum(covers(truth, row) for row in rows)
            kind = "found" if matching >= truth.times else "missed"
            yield Answer(kind, manifest.name, analysis, found["severity"], f"{truth.row} {_moment(truth.at)}")


def covers(truth: Truth, row: Row) -> bool:
    """Whether a row is what a truth says."""
    began = _began(row)
    in_time = truth.at is None or (began is not None and abs(began - truth.at) <= truth.within)
    return in_time and all(_is(row.get(column), value) for column, value in truth.row.items())


def _belongs(row: Row, manifest: Manifest) -> bool:
    """Whether a row is about a workload, in a report about several."""
    if manifest.cluster and row.get("cluster"):
        return bool(row["cluster"] == manifest.cluster)
    began = _began(row)
    return began is None or manifest.started_at <= began <= manifest.ended_at


def _began(row: Row) -> float | None:
    return next((_seconds(row[name]) for name in _WHEN if row.get(name)), None)


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_is(value, each) for each in wanted)
    if isinstance(wanted, str) and wanted.startswith("~"):
        return re.search(wanted[1:], str(value)) is not None
    return bool(value == wanted)


def _seconds(value: Any) -> float:
    return datetime.datetime.fromisoformat(str(value)).timestamp()


def _moment(at: float | None) -> str:
    return f"at {datetime.datetime.fromtimestamp(at, datetime.UTC):%T.%f}"[:15] if at else ""


def _short(row: Row) -> str:
    columns = ("first_at", "began_at", "client_id", "group_id", "topic", "partition", "cause", "error_name", "evidence")
    return " ".join(f"{name}={row[name]}" for name in columns if row.get(name) is not None)


def explained(manifest: Manifest, rows: Sequence[Row]) -> Iterator[tuple[bool, str]]:
    """For each setting that a client was given and ``explain`` tells: whether that is true, and both."""
    for client in manifest.clients:
        given = {name.replace("_", "."): str(value) for name, value in client.settings.items()}
        for row in rows:
            names = set(re.findall(r"[a-z.]+[a-z]", row["setting"]))
            value = next((given[name] for name in names if name in given), None)
            if row["client_id"] == client.client_id and row["value"] is not None and value is not None:
                yield (
                    _holds(row, value),
                    f"{client.client_id} {row['setting']}: {value}, {row['certainty']} {row['value']}",
                )


def _holds(row: Row, value: str) -> bool:
    low, between, high = row["value"].partition(" to ")
    if between:
        return int(low) <= int(value) <= int(high) <= 2 * int(low)
    if row["certainty"] in {"at least", "at most"}:
        return bool(int(low) <= int(value) if row["certainty"] == "at least" else int(low) >= int(value))
    low = low.replace(", ", ",")
    written = {"-1": "all"}.get(value, value).lower().split(".")[-1].removesuffix("assignor")
    return low.lower().replace("cooperative-", "cooperative") == written


NEAR = 10.0  # seconds within which two statements are about the same
# An analysis and another one, with the rows of it that say the contrary, and the columns by which both are about the same.
CONTRARY: tuple[tuple[str, str, Row, tuple[str, ...]], ...] = (
    ("max_poll_exceeded", "rebalances", {"cause": "session timeout"}, ("client_id", "group_id", "member_id")),
    ("session_expired", "rebalances", {"cause": ["poll timeout", "left"]}, ("client_id", "group_id", "member_id")),
    ("static_member_flapping", "rebalances", {"cause": "deployment"}, ("cluster", "group_id")),
    ("rebalance_storm", "rebalances", {"cause": "deployment"}, ("cluster", "group_id")),
    *(
        ("group_without_commits", name, {}, ("client_id", "group_id", "cluster"))
        for name in ("commit_storm", "refused_commits")
    ),
    ("falling_behind", "empty_fetch_loop", {}, ("client_id", "client_address")),
    *(
        ("clock_jump", name, {}, ("cluster",))
        for name in ("broker_away", "slow_broker", "noisy_neighbour", "lost_records")
    ),
    ("throttled", "falling_behind", {"cause": "consumer"}, ("client_id", "cluster")),
    ("broker_away", "reconnect_loop", {"cause": "unknown"}, ("client_id", "client_address")),
    ("auto_created_topic", "unknown_topic_loop", {}, ("client_id", "topic", "cluster")),
    ("lost_records", "sequence_errors", {"severity": "info"}, ("cluster", "topic", "partition")),
    ("empty_fetch_loop", "small_fetches", {}, ("client_id", "client_address")),
)


def contradictions(made: Report) -> Iterator[str]:
    """Pairs of statements of a report that cannot both be true."""
    rows = {name: found["rows"] for name, found in made["analyses"].items()}
    for one, other, contrary, same in CONTRARY:
        denying = [row for row in rows.get(other, []) if all(_is(row.get(name), contrary[name]) for name in contrary)]
        for row, each in itertools.product(rows.get(one, []), denying):
            times = [began for began in (_began(row), _began(each)) if began is not None]
            is_near = len(times) < 2 or abs(times[0] - times[1]) <= NEAR
            if is_near and all(row[name] == each[name] for name in same if name in row and name in each):
                yield f"{one}: {_short(row)}; {other}: {_short(each)}"
