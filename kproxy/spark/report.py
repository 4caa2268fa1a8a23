"""``kproxy-spark report``: the analyses of kproxy.analyses on Spark, their SQL unchanged, over tables or captures of any size.

    tables = SparkTables(spark, ["tables"], cluster="prod", days=("2026-11-01", "2026-11-07"))
    tables.run(library.load()["map"])       -> pyarrow.Table: the rows, in their order
    make_report(tables, analyses, {})       -> the Report that kproxy.analyses.report shows as text, Markdown, JSON or HTML

A source is a directory of tables, of ``ingest`` or of ``kproxy decode --format parquet``, or files, which are then read by the
data source (once for each table: ingest them where that is much). Views and facts are temporary views of the session.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Value, View
from kproxy.analyses.facts import FACTS_TABLES, arrow_table
from kproxy.analyses.parameters import bind, known_to
from kproxy.analyses.report.verdicts import Answer, Report, Summary, place, verdict_of, worst
from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, Table
from kproxy.protocol.error_codes import error_name
from kproxy.spark.schemas import contract, spark_schema
from kproxy.spark.source import FORMAT, register

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

ANYTHING = (None, None)
ASK = """
SELECT count(*), count_if(requests + responses > 0), sum(requests), sum(errors), sum(request_bytes + response_bytes),
  min(unix_micros(first_seen_at)), max(unix_micros(last_seen_at)) FROM connections
"""


class SparkTables:
    """The tables, views and facts of some sources in a Spark session.

    Args:
        spark: the session; its time zone becomes UTC, as the analyses want it.
        sources: directories of tables, or files and patterns.
        folders: users' folders of analyses, for their views.
        cluster: only this one, of what ``ingest`` wrote.
        days: only from the first to the last of these, likewise.

    Raises UsageError for a source that is none.
    """

    def __init__(
        self,
        spark: "SparkSession",
        sources: Sequence[str],
        *,
        folders: Iterable[Path | str] = (),
        cluster: str | None = None,
        days: tuple[str | None, str | None] = ANYTHING,
    ) -> None:
        self.spark = spark
        self.sources = list(sources)
        self._views = library.load_views(folders)
        self._made: set[str] = set()
        self._kept: list[DataFrame] = []
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        register(spark)
        for table in TABLES.values():
            frame = self._open(table, cluster, days)
            frame.createOrReplaceTempView(table.name)

    def run(self, analysis: Analysis, /, **parameters: Value) -> "pyarrow.Table":
        """The rows of an analysis. Raises UsageError for a parameter."""
        return self.frame(analysis, **parameters).toArrow()

    def frame(self, analysis: Analysis, /, **parameters: Value) -> "DataFrame":
        """The same, not computed yet."""
        self._make_views(analysis)
        values = {name: _literal(value) for name, value in bind(analysis, parameters).items()}
        return self.spark.sql(library.spark_text(analysis), args=values)

    def close(self) -> None:
        """Forget what was kept of views."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    def _make_views(self, analysis: Analysis) -> None:
        for view in library.views_needed(analysis, self._views):
            self._make_facts(view)
            if view.name not in self._made:
                self._made.add(view.name)
                self._make_view(view)
        self._make_facts(analysis)

    def _make_view(self, view: View) -> None:
        frame = self.spark.sql(library.spark_text(view))
        if view.stored:
            # kept without its plan: what uses several views several times would else have a plan of many thousand nodes
            frame = frame.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK)
            self._kept.append(frame)
        frame.createOrReplaceTempView(view.name)

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

    def _open(self, table: Table, cluster: str | None, days: tuple[str | None, str | None]) -> "DataFrame":
        frames = [self._open_one(source, table, cluster, days) for source in self.sources]
        together = frames[0]
        for frame in frames[1:]:
            together = together.unionByName(frame)
        return together

    def _open_one(
        self, source: str, table: Table, cluster: str | None, days: tuple[str | None, str | None]
    ) -> "DataFrame":
        schema = spark_schema(contract(table.name))
        if not _has_tables(source):
            if cluster is not None or days != ANYTHING:
                raise UsageError(f"{source}: clusters and days are those of a directory of tables")
            return self.spark.read.format(FORMAT).option("table", table.name).load(source)
        folder = Path(source) / table.name
        if not any(folder.rglob("*.parquet")):
            return self.spark.createDataFrame([], schema)
        frame = self.spark.read.option("mergeSchema", "true").option("basePath", str(folder)).parquet(str(folder))
        have = set(frame.columns)
        if cluster is not None and "cluster" in have:
            frame = frame.where(functions.col("cluster") == cluster)
        first, last = days
        if first is not None and "day" in have:
            frame = frame.where(functions.col("day").cast("string") >= first)
        if last is not None and "day" in have:
            frame = frame.where(functions.col("day").cast("string") <= last)
        columns = [
            (functions.col(field.name) if field.name in have else functions.lit(None))
            .cast(field.dataType.simpleString())
            .alias(field.name)
            for field in schema.fields
        ]
        return frame.select(columns)


def _literal(value: Value) -> Any:
    """A value as Spark binds it: a whole number as a BIGINT, since an INT times 1,000,000 overflows."""
    return functions.expr(f"{value}L") if isinstance(value, int) and not isinstance(value, bool) else value


SPARK_TYPES = {"string": "string", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}


def _has_tables(source: str) -> bool:
    path = Path(source)
    return path.is_dir() and any((path / name).is_dir() for name in TABLES)


def make_report(
    tables: SparkTables,
    analyses: Iterable[Analysis],
    parameters: Mapping[str, Value],
    on_answer: Callable[[Answer], None] = lambda answer: None,
) -> Report:
    """Run the analyses, each with those of the parameters that it knows. Raises as SparkTables.run does."""
    answers = []
    for analysis in analyses:
        values = known_to(analysis, parameters)
        rows = tables.run(analysis, **values)
        severity = worst(rows, analysis.severity)
        answers.append(Answer(analysis, bind(analysis, values), rows, severity, verdict_of(analysis, rows)))
        on_answer(answers[-1])
    return Report(summarize(tables), sorted(answers, key=place), [])


def summarize(tables: SparkTables) -> Summary:
    """Count what is in the tables."""
    sql = tables.spark.sql
    connections, kafka, requests, errors, size, first, last = sql(ASK).collect()[0]
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
