"""The plan and the result as lines of text, and as objects for JSON."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from kproxy.output.escaping import printable
from kproxy.output.times import counted, render_duration, render_size
from kproxy.replay.effects import Verb
from kproxy.replay.plan import Plan
from kproxy.replay.result import MOST_EXAMPLES, LeftOpen, Open, Outcome, Result

LONGEST = 400  # characters of a line: names come from captures
LONGEST_OF_APIS = 4_000  # where a line only has the names of APIs
MOST_LINES = 50  # of a section
MOST_OF_A_REASON = 6  # lines of differences that are explained
PLURAL = re.compile(r"^((?:more |new )?\w+?)s\b")
WIDTH = 12  # of a title
MARGIN = WIDTH + 3  # column at which the text after a title begins
UNEXPLAINED = "no reason is known for these, so look at both answers:"
UNANSWERED = "perhaps, as a request was not answered: "


def plan_lines(plan: Plan, *, dry: bool) -> Iterator[str]:
    """Yield what will be done; with *dry*, what would be done."""
    recording = plan.recording
    selected = "" if recording.seen == len(recording.requests) else f" of {recording.seen:,} in the capture"
    yield (
        f"{counted(len(recording.requests), 'request')}{selected} on {counted(recording.connections, 'connection')},"
        f" recorded over {render_duration(recording.span_ns)}"
    )
    if not recording.requests:
        yield from _section("nothing", ["no request is selected" if recording.seen else "no request was recorded"])
    would = "would " if dry else "will "
    for verb in Verb:
        rows = [(what, counts) for (other, what), counts in plan.effects.found.items() if other is verb]
        yield from _section(would + verb, (_effect(what, counts) for what, counts in rows))
    reads = ", ".join(f"{count:,} {what}" for what, count in plan.effects.reads.items())
    yield from _section("only read", [reads] if reads else [], longest=LONGEST_OF_APIS)
    yield from _missing_lines(plan)
    if plan.foreign_producers:
        yield from _section(
            "first",
            [
                f"{counted(len(plan.foreign_producers), 'producer id')}, handed out before the capture: others are asked for"
            ],
        )
    changed = (f"{n:,} {api}: version {old} as {new}" for (api, old, new), n in sorted(plan.other_versions.items()))
    yield from _section("other version", changed)
    yield from _section("not sent", _reasons(plan.unsent))
    yield from _section("left out", (f"{count:,} × {kind}" for kind, count in recording.unframed.items()))


def result_lines(result: Result, seconds: float) -> Iterator[str]:
    ended = "interrupted after" if result.interrupted else "ended after" if result.ended else "sent"
    yield (
        f"{ended} {counted(result.sent, 'request')} ({render_size(result.sent_bytes)}) on"
        f" {counted(result.connections, 'connection')} in {seconds:.1f} s"
    )
    if result.ended:
        yield from _section("ended", [f"{result.ended}: the cluster seems to be away, so the rest was not sent"])
    counts = {outcome.value: result.count(outcome) for outcome in Outcome} | {"still awaited": result.awaited}
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items() if count)
    yield from _section("answers", [outcomes or "none"])
    yield from _section("left open", left_open_lines(result.left_open))
    yield from _differences(result)
    for (api, why), kind in result.troubles.items():
        yield from _section("no answer", [f"{api}: {why} ({_times(kind.count)})"])
        yield from _section("", kind.examples)
    not_reached = f"{counted(result.not_reached, 'request')}, whose turn had not come"
    yield from _section("not sent", [not_reached] if result.not_reached else [])
    yield from _section("not sent", _reasons(result.unsent))
    lost = (
        f"{api}: {name}, which the version sent does not have ({_times(n)})" for (api, name), n in result.lost.items()
    )
    yield from _section("left away", lost)
    if result.repeated:
        yield from _section(
            "sent again", [f"{_times(result.repeated)}, as the cluster was not ready yet, or members joined anew"]
        )
    yield from _section("notes", (f"{note} ({_times(n)})" for note, n in result.notes.items()))
    left_out = (f"{n:,}: {one.value}" for one, n in result.left_out.most_common())
    yield from _section("not compared", left_out)


def folded(lines: Iterable[str], width: int) -> Iterator[str]:
    """Fold lines to a width; continuation lines are indented to where the text began."""
    for line in lines:
        text = line[MARGIN:] if line.startswith("  ") else line
        below = MARGIN + len(text) - len(text.lstrip()) if text is not line else 4
        yield from textwrap.wrap(
            line, width, subsequent_indent=" " * below, break_on_hyphens=False, drop_whitespace=True
        ) or [""]


def plan_object(plan: Plan) -> dict[str, Any]:
    return {
        "requests": len(plan.recording.requests),
        "connections": plan.recording.connections,
        "sent": len(plan.sent),
        "effects": [
            {"verb": verb.value, "subject": what, "counts": dict(counts)}
            for (verb, what), counts in plan.effects.found.items()
        ],
        "reads": dict(plan.effects.reads),
        "missingTopics": plan.missing_topics,
        "createTopics": plan.create_topics,
        "producerIds": len(plan.foreign_producers),
        "otherVersions": [
            {"apiName": api, "recorded": old, "sent": new, "requests": n}
            for (api, old, new), n in plan.other_versions.items()
        ],
        "notSent": _reason_objects(plan.unsent),
        "leftOut": dict(plan.recording.unframed),
    }


def result_object(result: Result, seconds: float) -> dict[str, Any]:
    return {
        "sent": result.sent,
        "sentBytes": result.sent_bytes,
        "connections": result.connections,
        "seconds": round(seconds, 3),
        "interrupted": result.interrupted,
        "notReached": result.not_reached,
        "awaited": result.awaited,
        "leftOpen": left_open_object(result.left_open),
        "ended": result.ended or None,
        "repeated": result.repeated,
        "outcomes": {api: {one.value: n for one, n in counts.items()} for api, counts in result.outcomes.items()},
        "differences": [
            {
                "apiName": api,
                "path": path,
                "recorded": old,
                "now": new,
                "count": kind.count,
                "why": kind.why,
                "examples": kind.examples,
            }
            for (api, path, old, new), kind in result.differences.items()
        ],
        "noAnswer": [
            {"apiName": api, "why": why, "count": kind.count, "examples": kind.examples}
            for (api, why), kind in result.troubles.items()
        ],
        "notSent": _reason_objects(result.unsent),
        "lostFields": [{"apiName": api, "field": name, "requests": n} for (api, name), n in result.lost.items()],
        "notes": dict(result.notes),
        "notCompared": {one.name: {"why": one.value, "fields": n} for one, n in result.left_out.items()},
    }


def _differences(result: Result) -> Iterator[str]:
    """Yield differences by reason; those without a reason come first, with their places, as they are what to look at."""
    by_reason: dict[str | None, list[str]] = {None: []}
    for (api, path, recorded, new), kind in result.differences.items():
        rows = by_reason.setdefault(kind.why, [])
        rows.append(f"{api} {path}: {recorded} recorded, {new} now ({_times(kind.count)})")
        rows += [f"  {example}" for example in kind.examples[: MOST_EXAMPLES if kind.why is None else 1]]
    for why, rows in by_reason.items():
        if not rows:
            continue
        yield from _section("differs", [UNEXPLAINED if why is None else f"{why}:"])
        most = MOST_LINES if why is None else MOST_OF_A_REASON
        yield from _section("", (f"  {row}" for row in rows[:most]))
        if len(rows) > most:
            yield from _section("", [f"  and {len(rows) - most:,} lines like these: --format json has all"])


def _missing_lines(plan: Plan) -> Iterator[str]:
    missing = plan.missing_topics
    if not missing:
        return
    listed = (f"topic {name}: {counted(count, 'partition')}, 1 replica" for name, count in missing.items())
    if plan.create_topics:
        yield from _section("first create", listed)
    else:
        yield from _section("lacks", listed)
        yield from _section(
            "", ["the cluster lacks these topics, which the requests use: --create-topics creates them first"]
        )


def _reasons(unsent: Counter[tuple[str, str]]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for (api, reason), count in sorted(unsent.items()):
        by_reason.setdefault(reason, []).append(f"{count:,} {api}")
    for reason, apis in by_reason.items():
        yield f"{', '.join(apis)}: {reason}"


def _reason_objects(unsent: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"apiName": api, "reason": reason, "requests": n} for (api, reason), n in sorted(unsent.items())]


def _effect(what: str, counts: Counter[str]) -> str:
    """Render what happens to a subject: "topic orders: 200 records", or "topic orders" if the subject itself is counted."""
    [(unit, count), *others] = counts.items()
    if not others and what.startswith(f"{unit.removesuffix('s')} "):
        return what if count == 1 else f"{what} ({_times(count)})"
    amounts = ", ".join(f"{n:,} {_singular(unit) if n == 1 else unit}" for unit, n in counts.items() if n)
    return f"{what}: {amounts}" if amounts else what


def _singular(unit: str) -> str:
    """Return "request" for "requests", "new epoch, fencing…" for "new epochs, fencing…"."""
    return PLURAL.sub(r"\1", unit, count=1)


def _section(title: str, rows: Iterable[str], *, longest: int = LONGEST) -> Iterator[str]:
    for place, row in enumerate(rows):
        if place == MOST_LINES:
            yield f"  {'':{WIDTH}} …"
            return
        yield f"  {title if place == 0 else '':{WIDTH}} {printable(row, longest)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def left_open_lines(left_open: LeftOpen) -> Iterator[str]:
    """Yield a line for each transaction, and for each group with members that have not left."""
    for name, one in left_open.transactions():
        after = _after("the producer's transaction.timeout.ms", [one])
        yield f"{'' if one.certain else UNANSWERED}the transaction of {name}, which its coordinator aborts after {after}"
    for group, members in _groups(left_open).items():
        what = f"{counted(len(members), 'member')} of group {group}"
        after = _after("the session timeout", members)
        whom = "it" if len(members) == 1 else "them"
        certain = any(one.certain for one in members)
        yield f"{'' if certain else UNANSWERED}{what}: its coordinator removes {whom} after {after}"


def left_open_object(left_open: LeftOpen) -> dict[str, Any]:
    return {
        "transactions": [
            {"transactionalId": name, "timeoutMs": one.timeout_ms, "certain": one.certain}
            for name, one in left_open.transactions()
        ],
        "members": [
            {"groupId": group, "memberId": member, "sessionTimeoutMs": one.timeout_ms, "certain": one.certain}
            for (group, member), one in left_open.members()
        ],
    }


def _groups(left_open: LeftOpen) -> dict[str, list[Open]]:
    groups: dict[str, list[Open]] = {}
    for (group, _), one in left_open.members():
        groups.setdefault(group, []).append(one)
    return groups


def _after(setting: str, opened: list[Open]) -> str:
    """Return the name of a timeout, with its length if that is known; of several, the longest."""
    known = [one.timeout_ms for one in opened if one.timeout_ms is not None]
    return f"{setting} ({max(known) / 1000:g} s)" if known else setting
