"""Run analyses over a database and sum each up in a sentence, ordered by how much it matters."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from kproxy.analyses.analysis import SEVERITIES, Analysis, Severity, Value
from kproxy.analyses.parameters import bind, known_to
from kproxy.analyses.report.templates import TemplateError, fields_of, fill
from kproxy.errors import ConfigError, Mistake
from kproxy.protocol.error_codes import error_name

if TYPE_CHECKING:
    import pyarrow

    from kproxy.analyses.duck import Database

SEVERITY = "severity"  # a column with a severity for each row
Watch: TypeAlias = Callable[[int, int, str], None]  # called with: analyses done, analyses in all, name of the next one


class Answer(Struct, frozen=True):
    """An analysis and its rows."""

    analysis: Analysis
    parameters: dict[str, Value]
    rows: Any  # pyarrow.Table
    severity: Severity
    verdict: str  # a sentence; "" if there is none

    @property
    def fires(self) -> bool:
        """Whether there is evidence: rows."""
        return bool(self.rows.num_rows)


class Summary(Struct, frozen=True):
    """Numbers about the sources."""

    sources: list[str]
    connections: int
    kafka_connections: int
    clients: int
    requests: int
    errors: int  # exchanges with an error code
    bytes: int
    first_micros: int | None
    last_micros: int | None
    not_kafka: dict[str, int]  # other protocol -> connections
    error_names: dict[str, int] = {}  # error -> exchanges, the most frequent first


class Report(Struct, frozen=True):
    """All answers, the most important first."""

    summary: Summary
    answers: list[Answer]
    damages: list[str]
    compared: str = ""  # which two sides a diff compares
    part: str = ""  # which part of the sources was read, in words; "": all of them

    @property
    def verdicts(self) -> list[Answer]:
        """The answers with a verdict."""
        return [answer for answer in self.answers if answer.verdict]


def make_report(
    database: "Database",
    analyses: Iterable[Analysis],
    parameters: Mapping[str, Value],
    *,
    sources: Iterable[str] = (),
    compared: str = "",
    part: str = "",
    watch: Watch | None = None,
) -> Report:
    """Run the analyses, each with those of the parameters that it knows. Raises as Database.run does."""
    wanted = list(analyses)
    answers = []
    for at, analysis in enumerate(wanted):
        if watch is not None:
            watch(at, len(wanted), analysis.id)
        answers.append(answer(database, analysis, known_to(analysis, parameters)))
    return Report(summarize(database, sources), sorted(answers, key=place), list(database.damages), compared, part)


def make_first_report(
    database: "Database",
    analyses: Iterable[Analysis],
    parameters: Mapping[str, Value],
    *,
    enough: Callable[[], bool],
    sources: Iterable[str] = (),
    part: str = "",
) -> Report:
    """As ``make_report``, but start with the most serious analyses and stop when *enough* returns true."""
    answers: list[Answer] = []
    for analysis in sorted(analyses, key=lambda one: (-SEVERITIES.index(one.severity), one.header.order, one.id)):
        if enough():
            break
        answers.append(answer(database, analysis, known_to(analysis, parameters)))
    return Report(summarize(database, sources), sorted(answers, key=place), list(database.damages), part=part)


def answer(database: "Database", analysis: Analysis, parameters: Mapping[str, Value]) -> Answer:
    """Run one analysis and sum its rows up in a sentence."""
    rows = database.run(analysis, **parameters)
    severity = worst(rows, analysis.severity)
    return Answer(analysis, bind(analysis, parameters), rows, severity, verdict_of(analysis, rows))


def worst(rows: "pyarrow.Table", otherwise: Severity) -> Severity:
    """The worst of the severities that the rows give, or that of the analysis."""
    if SEVERITY not in rows.column_names or not rows.num_rows:
        return otherwise
    given = rows.column(SEVERITY).unique().to_pylist()
    return max((each for each in SEVERITIES if each in given), key=SEVERITIES.index, default=otherwise)


def verdict_of(analysis: Analysis, rows: "pyarrow.Table") -> str:
    """Return the sentence. Raises ConfigError if the template names a column that the rows do not have."""
    header = analysis.header
    if not rows.num_rows:
        return header.otherwise
    if not header.verdict:
        return ""
    columns = [name for name in rows.column_names if name in fields_of(header.verdict)]
    try:
        return fill(header.verdict, rows.select(columns).to_pylist() if columns else [{}] * rows.num_rows)
    except TemplateError as error:
        raise ConfigError([Mistake(1, 1, "verdict", str(error))], analysis.path) from None


def summarize(database: "Database", sources: Iterable[str]) -> Summary:
    """Count what is in the tables."""
    execute = database.connection.execute
    counted = execute(
        "SELECT count(*), count(*) FILTER (requests + responses > 0), sum(requests), sum(errors),"
        " sum(request_bytes + response_bytes), epoch_us(min(first_seen_at)), epoch_us(max(last_seen_at)) FROM connections"
    ).fetchall()
    ((connections, kafka, requests, errors, size, first, last),) = counted
    clients = execute("SELECT count(DISTINCT id) FROM (SELECT unnest(client_ids) AS id FROM connections)").fetchall()
    others = execute(
        "SELECT not_kafka, count(*) FROM connections WHERE not_kafka IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    named = execute(
        "SELECT code, count(*) FROM (SELECT unnest(error_codes) AS code FROM exchanges) GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    return Summary(
        sources=list(sources),
        connections=connections,
        kafka_connections=kafka,
        clients=clients[0][0],
        requests=int(requests or 0),
        errors=int(errors or 0),
        bytes=int(size or 0),
        first_micros=first,
        last_micros=last,
        not_kafka=dict(others),
        error_names={error_name(code): count for code, count in named},
    )


def place(one: Answer) -> tuple[object, ...]:
    """Sort key: the worst severity first, answers without rows last, then the order of the header, then the most rows."""
    header = one.analysis.header
    return (-SEVERITIES.index(one.severity) if one.fires else 1, header.order, -one.rows.num_rows, one.analysis.id)
