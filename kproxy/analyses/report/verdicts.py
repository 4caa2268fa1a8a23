"""Run analyses over tables and sum each up in a sentence, ordered by how much it matters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from kproxy.analyses.analysis import SEVERITIES, Analysis, Severity, Value, View, bind, known_to
from kproxy.analyses.report.templates import Row, TemplateError, fields_of, fill
from kproxy.errors import ConfigError, Mistake, Unanswerable
from kproxy.protocol.error_codes import error_name

if TYPE_CHECKING:
    import pyarrow


def _query(sql: str) -> View:
    return View(name="summary", meaning="", sql=sql, path=__file__)


AT_ONCE = 1000  # rows of a table that are Python values at a time
SEVERITY = "severity"  # a column with a severity for each row
CONNECTIONS = _query("""
    SELECT count(*) AS connections, count_if(requests + responses > 0) AS kafka_connections,
        (SELECT count(DISTINCT id) FROM connections CROSS JOIN unnest(client_ids) AS ids(id)) AS clients,
        coalesce(sum(requests), 0) AS requests, coalesce(sum(errors), 0) AS errors,
        coalesce(sum(request_bytes + response_bytes), 0) AS bytes,
        min(epoch_us(first_seen_at)) AS first_micros, max(epoch_us(last_seen_at)) AS last_micros
    FROM connections
""")
EXCHANGES = _query("""
    SELECT count(DISTINCT connection_id) AS kafka_connections, count_if(request_size IS NOT NULL) AS requests,
        count_if(len(error_codes) > 0) AS errors,
        coalesce(sum(coalesce(request_size, 0) + coalesce(response_size, 0)), 0) AS bytes,
        min(epoch_us(coalesce(request_at, response_at))) AS first_micros,
        max(epoch_us(coalesce(response_at, request_at))) AS last_micros
    FROM exchanges
""")
NOT_KAFKA = _query("""
    SELECT not_kafka, count(*) AS connections FROM connections WHERE not_kafka IS NOT NULL
    GROUP BY not_kafka ORDER BY connections DESC, not_kafka
""")
ERROR_CODES = _query("""
    SELECT code, count(*) AS exchanges FROM exchanges CROSS JOIN unnest(error_codes) AS codes(code)
    GROUP BY code ORDER BY exchanges DESC, code
""")
Watch: TypeAlias = Callable[[int, int, str], None]  # called with: analyses done, analyses in all, name of the next one


class Tables(Protocol):
    """Tables that answer analyses and other queries: those of DuckDB, or those of Spark."""

    damages: list[str]  # a sentence for each place where a source could not be read
    segments_again: int | None  # of TCP, with bytes that were captured before; None: not known, as of logs and tables

    def run(self, analysis: Analysis, /, **parameters: Value) -> "pyarrow.Table":
        """The rows of an analysis. Raises UsageError for a parameter, ConfigError for SQL that is refused, Unanswerable."""

    def select(self, view: View) -> "pyarrow.Table":
        """The rows of a query that is no analysis."""


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
    segments_again: int | None = None  # as in Tables


class Report(Struct, frozen=True):
    """All answers, the most important first."""

    summary: Summary
    answers: list[Answer]
    damages: list[str]
    compared: str = ""  # which two sides a diff compares
    part: str = ""  # which part of the sources was read, in words; "": all of them

    @property
    def verdicts(self) -> list[Answer]:
        """The answers in a sentence each. Without a Kafka request, only those that say why there is none, such as refused TLS."""
        told = [answer for answer in self.answers if answer.verdict]
        return told if self.summary.requests else [one for one in told if one.fires and one.severity != "info"]


def make_report(
    tables: Tables,
    analyses: Iterable[Analysis],
    parameters: Mapping[str, Value],
    *,
    sources: Iterable[str] = (),
    compared: str = "",
    part: str = "",
    by_exchanges: bool = False,
    watch: Watch = lambda done, total, name: None,
) -> Report:
    """Run the analyses, each with those of the parameters that it knows; leave out those that are Unanswerable.

    Raises UsageError for a parameter, ConfigError for SQL that is refused.
    """
    wanted = list(analyses)
    answers, damages = [], list(tables.damages)
    for at, analysis in enumerate(wanted):
        watch(at, len(wanted), analysis.id)
        with _leaves_out(analysis, damages):
            answers.append(answer(tables, analysis, known_to(analysis, parameters)))
    summary = summarize(tables, sources, by_exchanges=by_exchanges)
    return Report(summary, sorted(answers, key=place), damages, compared, part)


def make_first_report(
    tables: Tables,
    analyses: Iterable[Analysis],
    parameters: Mapping[str, Value],
    *,
    enough: Callable[[], bool],
    sources: Iterable[str] = (),
    part: str = "",
) -> Report:
    """As ``make_report``, but start with the most serious analyses and stop when *enough* returns true."""
    answers: list[Answer] = []
    damages = list(tables.damages)
    for analysis in sorted(analyses, key=lambda one: (-SEVERITIES.index(one.severity), one.header.order, one.id)):
        if enough():
            break
        with _leaves_out(analysis, damages):
            answers.append(answer(tables, analysis, known_to(analysis, parameters)))
    return Report(summarize(tables, sources), sorted(answers, key=place), damages, part=part)


@contextmanager
def _leaves_out(analysis: Analysis, damages: list[str]) -> Iterator[None]:
    """Leave out an analysis that cannot be answered, and say so in *damages*."""
    try:
        yield
    except Unanswerable as error:
        damages.append(f"{analysis.id} is left out: {error}")


def answer(tables: Tables, analysis: Analysis, parameters: Mapping[str, Value]) -> Answer:
    """Run one analysis and sum its rows up in a sentence."""
    rows = tables.run(analysis, **parameters)
    severity = worst(rows, analysis.severity)
    return Answer(analysis, bind(analysis, parameters), rows, severity, verdict_of(analysis, rows))


def worst(rows: "pyarrow.Table", otherwise: Severity) -> Severity:
    """The worst of the severities that the rows give, or that of the analysis."""
    if SEVERITY not in rows.column_names or not rows.num_rows:
        return otherwise
    given = set(rows.column(SEVERITY).to_pylist())  # unique() would import pyarrow.compute, a tenth of a second
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
        return fill(header.verdict, _Rows(rows.select(columns)) if columns else [{}] * rows.num_rows)
    except TemplateError as error:
        raise ConfigError([Mistake(1, 1, "verdict", str(error))], analysis.path) from None


class _Rows(Sequence[Row]):
    """The rows of a table as mappings, made when they are read: all at once, ten thousands take more memory than DuckDB."""

    def __init__(self, table: "pyarrow.Table") -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.num_rows  # type: ignore[no-any-return]

    def __getitem__(self, at: Any) -> Any:
        return self._table.slice(at, 1).to_pylist()[0]

    def __iter__(self) -> Iterator[Row]:
        for batch in self._table.to_batches(max_chunksize=AT_ONCE):
            yield from batch.to_pylist()


def summarize(tables: Tables, sources: Iterable[str], *, by_exchanges: bool = False) -> Summary:
    """Count what is in the tables. *by_exchanges*: they have only some exchanges of their connections."""
    [counted] = tables.select(CONNECTIONS).to_pylist()
    if by_exchanges:
        counted |= tables.select(EXCHANGES).to_pylist()[0]
    others, named = (tables.select(view).to_pylist() for view in (NOT_KAFKA, ERROR_CODES))
    return Summary(
        sources=list(sources),
        **counted,
        segments_again=tables.segments_again,
        not_kafka={row["not_kafka"]: row["connections"] for row in others},
        error_names={error_name(row["code"]): row["exchanges"] for row in named},
    )


def place(one: Answer) -> tuple[object, ...]:
    """Sort key: the worst severity first, answers without rows last, then the order of the header, then the most rows."""
    header = one.analysis.header
    return (-SEVERITIES.index(one.severity) if one.fires else 1, header.order, -one.rows.num_rows, one.analysis.id)
