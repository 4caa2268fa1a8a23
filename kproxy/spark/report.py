"""``kproxy-spark report``: the analyses of kproxy.analyses on Spark, their SQL unchanged, over tables or captures of any size.

    tables = SparkTables(spark, ["tables"], only=Narrowed("prod", date(2026, 11, 1), date(2026, 11, 7)))
    tables.run(library.load()["map"])       -> pyarrow.Table: the rows, in their order
    make_report(tables, analyses, {})       -> the Report that kproxy.analyses.report shows as text, Markdown, JSON or HTML

What a source may be is in sources.py, which rows of it in narrowing.py. Views and facts are temporary views of the session.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import functions

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Value, View
from kproxy.analyses.facts import FACTS_TABLES, arrow_table
from kproxy.analyses.loading import ALWAYS, SIDES, Span
from kproxy.analyses.parameters import bind, known_to
from kproxy.analyses.report.verdicts import Answer, Report, Summary, Watch, place, verdict_of, worst
from kproxy.errors import ConfigError, Mistake
from kproxy.output.tables import TABLES
from kproxy.protocol.error_codes import error_name
from kproxy.spark.file_rows import Options
from kproxy.spark.narrowing import Narrowed, check_cluster, narrow
from kproxy.spark.sources import open_source

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

LONGEST_MESSAGE = 400
PARAMETER = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?<![:\w]):(\w+)""", re.DOTALL
)
COUNT_CONNECTIONS = """
SELECT count(*), count_if(requests + responses > 0), sum(requests), sum(errors), sum(request_bytes + response_bytes),
  min(unix_micros(first_seen_at)), max(unix_micros(last_seen_at)) FROM connections
"""
COUNT_EXCHANGES = """
SELECT count(DISTINCT connection_id), count_if(request_size IS NOT NULL), count_if(size(error_codes) > 0),
  sum(coalesce(request_size, 0) + coalesce(response_size, 0)),
  min(unix_micros(coalesce(request_at, response_at))), max(unix_micros(coalesce(response_at, request_at))) FROM exchanges
"""


class SparkTables:
    """The tables, views and facts of some sources in a Spark session.

    Args:
        spark: the session; its time zone becomes UTC, as the analyses want it.
        sources: directories or namespaces of tables, files and patterns; see sources.py.
        folders: users' folders of analyses, for their views.
        only: which of their rows.
        options: what rows files give.
        compare: the two sources are the sides of a diff.
        spans: two ranges of time in microseconds since the epoch, the sides of a diff.
        scratch: an empty folder that all executors see, for the tables of files.

    ``damages`` has a sentence for each place where a source could not be read.

    Raises UsageError for a source that is none, or has no such cluster.
    """

    def __init__(
        self,
        spark: "SparkSession",
        sources: Sequence[str],
        *,
        folders: Iterable[Path | str] = (),
        only: Narrowed = Narrowed(),  # noqa: B008 - frozen
        options: Options = Options(),  # noqa: B008 - frozen
        compare: bool = False,
        spans: tuple[Span, Span] | None = None,
        scratch: str | None = None,
    ) -> None:
        self.spark = spark
        self.sources = list(sources)
        self.only = only
        self._views = library.load_views(folders)
        self._made: set[str] = set()
        self._kept: list[DataFrame] = []
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        places = [None if scratch is None else f"{scratch}/{at}" for at in range(len(self.sources))]
        opened = [open_source(spark, name, options, place) for name, place in zip(self.sources, places, strict=True)]
        self.damages = [damage for source in opened for damage in source.damages]
        given = [{name: source.frame(table) for name, table in TABLES.items()} for source in opened]
        narrowed = [narrow(source.name, tables, only) for source, tables in zip(opened, given, strict=True)]
        if only.cluster is not None:
            check_cluster([tables["connections"] for tables in given], only.cluster)
        for name in TABLES:
            frames = [tables[name].select(*_columns(name)) for tables in narrowed]
            if compare:
                frames = [_on_side(side, frame) for side, frame in zip(SIDES, frames, strict=True)]
            reduce(lambda one, other: one.unionByName(other), frames).createOrReplaceTempView(name)
        if compare or spans is not None:
            self._make_sides((ALWAYS, ALWAYS) if spans is None else spans, by_id=spans is None)

    def run(self, analysis: Analysis, /, **parameters: Value) -> "pyarrow.Table":
        """The rows of an analysis. Raises UsageError for a parameter, ConfigError for SQL that Spark refuses."""
        try:
            return self.frame(analysis, **parameters).toArrow()
        except AnalysisException as error:
            raise _refused(analysis, error) from None

    def select(self, view: View) -> "pyarrow.Table":
        """The rows of a query that is no analysis. Raises ConfigError for SQL that Spark refuses."""
        try:
            self._make_views(view)
            return self.spark.sql(library.spark_text(view)).toArrow()
        except AnalysisException as error:
            raise _refused(view, error) from None

    def frame(self, analysis: Analysis, /, **parameters: Value) -> "DataFrame":
        """The rows of an analysis, not computed yet."""
        self._make_views(analysis)
        given = bind(analysis, parameters)
        values = {name: _literal(value) for name, value in given.items()}
        try:
            return self.spark.sql(library.spark_text(analysis), args=values)
        except AnalysisException as error:
            if "UNBOUND_SQL_PARAMETER" not in str(error):
                raise
            # The parser of Delta's extension (4.3.1, with Spark 4.1) drops parameters next to an aggregate.
            return self.spark.sql(with_values(library.spark_text(analysis), given))

    def close(self) -> None:
        """Forget what was kept of views."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    def _make_views(self, source: Analysis | View) -> None:
        for view in library.views_needed(source, self._views):
            self._make_facts(view)
            if view.name not in self._made:
                self._made.add(view.name)
                self._make_view(view)
        self._make_facts(source)

    def _make_view(self, view: View) -> None:
        try:
            frame = self.spark.sql(library.spark_text(view))
        except AnalysisException as error:
            raise _refused(view, error) from None
        if view.stored:
            # cached without its plan: queries that use several views several times would have plans of many thousand nodes
            frame = frame.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK)
            self._kept.append(frame)
        frame.createOrReplaceTempView(view.name)

    def _make_sides(self, spans: tuple[Span, Span], *, by_id: bool) -> None:
        """Create the view ``sides`` of a diff for two sources (*by_id*) or two ranges of time, instead of two halves."""
        self._made.add("sides")
        parts = [
            f"SELECT '{side}' AS side, connection_id, timestamp_micros({span[0]}) AS from_at,"
            f" timestamp_micros({span[1]}) AS to_at FROM connections"
            + (f" WHERE startswith(connection_id, '{side} ')" if by_id else "")
            for side, span in zip(SIDES, spans, strict=True)
        ]
        self.spark.sql(" UNION ALL ".join(parts)).createOrReplaceTempView("sides")

    def _make_facts(self, source: Analysis | View) -> None:
        for name in library.tables_of(source):
            if name in FACTS_TABLES and name not in self._made:
                self._made.add(name)
                self._make_facts_table(name)

    def _make_facts_table(self, name: str) -> None:
        rows = arrow_table(name)
        types = ", ".join(f"{field.name} {SPARK_TYPES[str(field.type)]}" for field in rows.schema)
        listed = [tuple(row.values()) for row in rows.to_pylist()]
        self.spark.createDataFrame(listed, types).createOrReplaceTempView(name)


def _literal(value: Value) -> Any:
    """Bind a whole number as BIGINT: an INT times 1,000,000 overflows."""
    return functions.expr(f"{value}L") if isinstance(value, int) and not isinstance(value, bool) else value


def with_values(sql: str, values: Mapping[str, Value]) -> str:
    """Replace the parameters of a query by literals, but not inside texts, names and comments."""

    def put(match: re.Match[str]) -> str:
        return _as_sql(values[match[1]]) if match[1] in values else match[0]

    return PARAMETER.sub(put, sql)


def _as_sql(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"{value}L"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


SPARK_TYPES = {"string": "string", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}


def _columns(table: str) -> list[str]:
    return [column.name for column in TABLES[table].columns]


def _on_side(side: str, frame: "DataFrame") -> "DataFrame":
    """Prefix connection ids with their side, since a source may be compared with itself."""
    marked = functions.concat(functions.lit(f"{side} "), functions.col("connection_id"))
    return frame.withColumn("connection_id", marked)


def _refused(source: Analysis | View, error: AnalysisException) -> ConfigError:
    """Make a ConfigError of Spark's message, with the place in the file if Spark names it."""
    line, column = 1, 1
    for context in error.getQueryContext()[:1]:
        above = len(source.sql) - len(source.sql.lstrip())  # lines of the file, which Spark did not get
        before = source.sql[: above + context.startIndex()]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    message = str(error).strip().splitlines()[0][:LONGEST_MESSAGE]
    return ConfigError([Mistake(line, column, "", message)], source.path)


def make_report(
    tables: SparkTables,
    analyses: Iterable[Analysis],
    parameters: Mapping[str, Value],
    *,
    compared: str = "",
    watch: Watch = lambda done, total, name: None,
) -> Report:
    """Run the analyses, each with those of the parameters that it knows. Raises as SparkTables.run does."""
    wanted = list(analyses)
    answers = []
    for at, analysis in enumerate(wanted):
        watch(at, len(wanted), analysis.id)
        values = known_to(analysis, parameters)
        rows = tables.run(analysis, **values)
        severity = worst(rows, analysis.severity)
        answers.append(Answer(analysis, bind(analysis, values), rows, severity, verdict_of(analysis, rows)))
    return Report(summarize(tables), sorted(answers, key=place), list(tables.damages), compared)


def summarize(tables: SparkTables) -> Summary:
    """Count what is in the tables; for a report of some days, only exchanges of those days."""
    sql = tables.spark.sql
    connections, kafka, requests, errors, size, first, last = sql(COUNT_CONNECTIONS).collect()[0]
    if tables.only.has_days:
        kafka, requests, errors, size, first, last = sql(COUNT_EXCHANGES).collect()[0]
    clients = sql("SELECT count(DISTINCT id) FROM (SELECT explode(client_ids) AS id FROM connections)").collect()[0][0]
    others = sql(
        "SELECT not_kafka, count(*) FROM connections WHERE not_kafka IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
    ).collect()
    named = sql(
        "SELECT code, count(*) FROM (SELECT explode(error_codes) AS code FROM exchanges) GROUP BY 1 ORDER BY 2 DESC, 1"
    ).collect()
    return Summary(
        sources=tables.sources,
        connections=connections,
        kafka_connections=kafka,
        clients=clients,
        requests=requests or 0,
        errors=errors or 0,
        bytes=size or 0,
        first_micros=first,
        last_micros=last,
        not_kafka={row[0]: row[1] for row in others},
        error_names={error_name(row[0]): row[1] for row in named},
    )
