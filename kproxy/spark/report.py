"""``kproxy-spark report``: the analyses of kproxy.analyses on Spark, their SQL unchanged, over tables or captures of any size.

    tables = SparkTables(spark, ["tables"], only=Narrowed("prod", date(2026, 11, 1), date(2026, 11, 7)))
    tables.run(library.load()["map"])       -> pyarrow.Table: the rows, in their order
    kproxy.analyses.report.verdicts.make_report(tables, analyses, {})

What a source may be is in sources.py. Views and facts are temporary views of the session.

Narrowed to some days: a row belongs to the day (UTC) of its own time, as ingest partitions it; rows of the table records, which
have no time, to the day of their exchange. A connection belongs to every day from its first byte to its last: exchanges of a day
need their connection, also if it began long before.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import Struct
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import functions

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Value, View, bind
from kproxy.analyses.facts import FACTS_TABLES, arrow_table
from kproxy.analyses.loading import SIDES, Span, sides_of
from kproxy.errors import ConfigError, Mistake, UsageError
from kproxy.output.tables import TABLES
from kproxy.spark.catalog import safe
from kproxy.spark.rows import TIMES, Options
from kproxy.spark.sources import open_source

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

LONGEST_MESSAGE = 400
PARAMETER = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?<![:\w]):(\w+)""", re.DOTALL
)
SPARK_TYPES = {"string": "string", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
DAY_FORMAT = "yyyy-MM-dd"
MOST_NAMED = 20


class Narrowed(Struct, frozen=True):
    """The cluster and the days of a report. ``first`` and ``last`` are included; None: no limit."""

    cluster: str | None = None
    first: date | None = None
    last: date | None = None

    @property
    def has_days(self) -> bool:
        """Whether days are limited."""
        return self.first is not None or self.last is not None


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
        scratch: an empty folder that all executors see, for the tables of files; None: sources are tables only.

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
        narrowed = [narrow(source.name, source.tables, only) for source in opened]
        if only.cluster is not None:
            check_cluster([source.tables["connections"] for source in opened], only.cluster)
        for name in TABLES:
            frames = [tables[name].select(*_columns(name)) for tables in narrowed]
            if compare:
                frames = [_on_side(side, frame) for side, frame in zip(SIDES, frames, strict=True)]
            reduce(lambda one, other: one.unionByName(other), frames).createOrReplaceTempView(name)
        if compare or spans is not None:
            self._made.add("sides")
            spark.sql(sides_of(spans)).createOrReplaceTempView("sides")

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
            return self.spark.sql(view.sql.strip()).toArrow()
        except AnalysisException as error:
            raise _refused(view, error) from None

    def frame(self, analysis: Analysis, /, **parameters: Value) -> "DataFrame":
        """The rows of an analysis, not computed yet."""
        self._make_views(analysis)
        given = bind(analysis, parameters)
        values = {name: _literal(value) for name, value in given.items()}
        try:
            return self.spark.sql(analysis.sql.strip(), args=values)
        except AnalysisException as error:
            if "UNBOUND_SQL_PARAMETER" not in str(error):
                raise
            # The parser of Delta's extension (4.3.1, with Spark 4.1) drops parameters next to an aggregate.
            return self.spark.sql(with_values(analysis.sql.strip(), given))

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
            frame = self.spark.sql(view.sql.strip())
        except AnalysisException as error:
            raise _refused(view, error) from None
        if view.stored:
            # cached without its plan: queries that use several views several times would have plans of many thousand nodes
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


def narrow(source: str, tables: "Mapping[str, DataFrame]", to: Narrowed) -> "dict[str, DataFrame]":
    """Narrow the tables of a source. Raises UsageError for a cluster, if the source does not say whose traffic its rows are."""
    narrowed = dict(tables)
    if to.cluster is not None:
        if "cluster" not in narrowed["connections"].columns:
            raise UsageError(
                f"{source}: --cluster is for tables of kproxy-spark ingest; nothing here says which cluster a row belongs to"
            )
        names = names_of(to.cluster)
        own = narrowed["connections"].where(functions.col("cluster").isin(names))
        narrowed = {name: _of_cluster(frame, names, own) for name, frame in narrowed.items()}
    if to.has_days:
        narrowed = {name: _of_days(name, frame, narrowed["exchanges"], to) for name, frame in narrowed.items()}
    return narrowed


def names_of(cluster: str) -> list[str]:
    """The values that the column cluster may have: the name as ingest makes it a folder's, or as Spark reads it back."""
    return sorted({safe(cluster), unquote(safe(cluster), "latin-1")})


def check_cluster(tables: "list[DataFrame]", cluster: str) -> None:
    """Raise UsageError if no table of connections has this cluster; list the known clusters."""
    every = reduce(lambda one, other: one.union(other), [frame.select("cluster") for frame in tables])
    there = sorted(unquote(row[0]) for row in every.distinct().limit(1_000).collect() if row[0] is not None)
    if not {*there} & {cluster, *names_of(cluster), *map(unquote, names_of(cluster))}:
        listed = ", ".join(there[:MOST_NAMED]) + (", ..." if len(there) > MOST_NAMED else "")
        raise UsageError(f"there is no cluster {cluster[:80]!r} in these tables; there are {listed or 'none'}")


def _of_cluster(frame: "DataFrame", names: list[str], connections: "DataFrame") -> "DataFrame":
    if "cluster" in frame.columns:
        return frame.where(functions.col("cluster").isin(names))
    return frame.join(connections.select("connection_id"), "connection_id", "left_semi").select(frame.columns)


def _of_days(name: str, frame: "DataFrame", exchanges: "DataFrame", to: Narrowed) -> "DataFrame":
    """Keep the rows of a table that belong to the days of *to*; a connection belongs to each day of its life."""
    if name == "connections":
        begins, ends = functions.col("first_seen_at"), functions.coalesce("last_seen_at", "first_seen_at")
        return _between(frame, _day_of(frame, begins), _day_of(frame, ends), to)
    times = [each for each in TIMES if each in frame.columns]
    if "day" in frame.columns:
        day = functions.col("day")
    elif times:
        day = _day(functions.coalesce(*times))
    else:
        wanted = _of_days("exchanges", exchanges, exchanges, to).select("connection_id", "exchange")
        return frame.join(wanted, ["connection_id", "exchange"], "left_semi").select(frame.columns)
    return _between(frame, day, day, to)


def _between(frame: "DataFrame", begins: "Column", ends: "Column", to: Narrowed) -> "DataFrame":
    if to.first is not None:
        frame = frame.where(ends >= to.first.isoformat())
    return frame if to.last is None else frame.where(begins <= to.last.isoformat())


def _day_of(frame: "DataFrame", time: "Column") -> "Column":
    return functions.coalesce(_day(time), functions.col("day")) if "day" in frame.columns else _day(time)


def _day(time: "Column") -> "Column":
    return functions.date_format(time, DAY_FORMAT)
