"""``kproxy-spark report``: the analyses of kproxy.analyses by DuckDB, on tables or captures of any size.

    tables = SparkTables(context, ["tables"], only=Narrowed("prod", date(2026, 11, 1), date(2026, 11, 7)), scratch=folder)
    tables.prepare(analyses, {})            many rows: one job answers all of them, in DuckDB on the executors
    tables.run(library.load()["map"])       -> pyarrow.Table: the rows, in their order
    kproxy.analyses.report.verdicts.make_report(tables, analyses, {})

First there is a folder of Parquet files for each source, which all executors see. A folder of tables is read where it is;
captures and logs are decoded by ingest, all in one go; Spark copies the rows of lakes, of other file systems, and of single
clusters or days. Then one job has TASKS tasks, each with some analyses. No view is made twice: the driver makes those that many
analyses need, and hands them over as files; the others are made by the task that answers all analyses which need them. An
executor's first task opens the folders in DuckDB, the next ones find them open (OpenedTables). So executors may come at any time,
and each takes as many tasks as it can do. Tables of less than SMALL bytes are not worth a job: DuckDB answers in the driver.

Narrowed to some days: a row belongs to the day (UTC) of its own time, as ingest partitions it; rows of the table records, which
have no time, to the day of their exchange. A connection belongs to every day from its first byte to its last: exchanges of a day
need their connection, also if it began long before.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import SparkSession, functions

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Value, View, known_to
from kproxy.analyses.duck import RECORDS_MEMORY, Database
from kproxy.analyses.loading import Span, holds_tables, identify_source, table_files
from kproxy.errors import ConfigError, Mistake, UsageError
from kproxy.output.tables import TABLES, schema_of
from kproxy.spark.catalog import safe
from kproxy.spark.ingest import ingest
from kproxy.spark.rows import TIMES, Options
from kproxy.spark.sources import Source, is_tables, open_source, open_tables

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame

SMALL = 16 << 20  # bytes of Parquet, for which DuckDB takes about 11 s
DAY_FORMAT = "yyyy-MM-dd"
MOST_NAMED = 20
TASKS = 16  # the analysis that takes longest takes an eighth of the time of all
FEW = 4  # analyses that need a view: one task makes it, and answers them; the driver makes it for more


class Narrowed(Struct, frozen=True):
    """The cluster and the days of a report. ``first`` and ``last`` are included; None: no limit."""

    cluster: str | None = None
    first: date | None = None
    last: date | None = None

    @property
    def has_days(self) -> bool:
        return self.first is not None or self.last is not None


class Folders(Struct, frozen=True):
    """What a task needs to open the tables: plain values."""

    places: list[str]
    views: dict[str, View]
    compare: bool
    spans: tuple[Span, Span] | None
    report: str  # a name of its own: what is opened for one report may have changed before the next
    made: dict[str, str] = {}  # views that were made already, and the files with their rows

    def open(self, scratch: Path | None = None) -> Database:
        """The tables in DuckDB, in one thread. *scratch*: the folder for its temporary directory."""
        database = Database(
            self.places,
            views=self.views,
            compare=self.compare,
            spans=self.spans,
            memory=RECORDS_MEMORY,
            wanted=TABLES,
            scratch=scratch,
        )
        database.connection.execute("SET threads = 1")
        for name, file in self.made.items():
            database.take_view(name, file)
        return database


class Answered(Struct, frozen=True):
    """The rows of an analysis as Arrow's stream, or why there are none."""

    rows: bytes
    mistakes: list[Mistake]
    path: str


class SparkTables:
    """The tables of some sources, and the answers to analyses of them.

    Args:
        context: of the job.
        sources: directories or namespaces of tables (see sources.py), files and patterns.
        folders: users' folders of analyses, for their views.
        only: which of their rows.
        options: what rows files give.
        compare: the two sources are the sides of a diff.
        spans: two ranges of time in microseconds since the epoch, the sides of a diff.
        scratch: an empty or a new folder that all executors see, for rows that have to be copied; None: there is none.

    ``damages`` has a sentence for each place where a source could not be read.

    Raises UsageError for a source that is none, or has no such cluster.
    """

    def __init__(
        self,
        context: "SparkContext",
        sources: Sequence[str],
        *,
        folders: Iterable[Path | str] = (),
        only: Narrowed = Narrowed(),  # noqa: B008 - frozen
        options: Options = Options(),  # noqa: B008 - frozen
        compare: bool = False,
        spans: tuple[Span, Span] | None = None,
        scratch: str | None = None,
    ) -> None:
        self.sources = list(sources)
        self.only = only
        self.damages: list[str] = []
        self.segments_again: int | None = None  # tasks do not count them
        self._context = context
        self._options = options
        self._scratch = scratch
        self._answers: dict[str, Answered] = {}
        groups = [[name] for name in self.sources] if compare else self._grouped(self.sources)
        places = [place for group in groups for place in self._places(group)]
        self._folders = Folders(places, library.load_views(folders), compare, spans, uuid4().hex)

    def prepare(self, analyses: Sequence[Analysis], parameters: Mapping[str, Value]) -> None:
        """Answer these analyses in one job, unless there are few rows."""
        files = [file for place in self._folders.places for some in table_files(Path(place)).values() for file in some]
        if len(analyses) < 2 or sum(file.stat().st_size for file in files) < SMALL:
            return
        asked = [(analysis, known_to(analysis, parameters)) for analysis in analyses]
        users, folders = users_of(asked, self._folders.views), self._folders
        if self._scratch is not None:
            made = Path(self._new_folder("views"))
            many = [name for name in folders.views if len(users.get(name, ())) > FEW]
            folders = replace(folders, made={name: self._database.write_view(name, made) for name in many})
        tasks = in_tasks(asked, users)
        answers = self._context.parallelize(tasks, len(tasks)).flatMap(partial(answer_in_task, folders))
        self._answers = dict(answers.collect())

    def run(self, analysis: Analysis, /, **parameters: Value) -> "pa.Table":
        """The rows of an analysis. Raises UsageError for a parameter, ConfigError for SQL that DuckDB refuses."""
        answered = self._answers.pop(analysis.id, None)
        if answered is None:
            return self._database.run(analysis, **parameters)
        if answered.mistakes:
            raise ConfigError(answered.mistakes, answered.path)
        return pa.ipc.open_stream(answered.rows).read_all()

    def select(self, view: View) -> "pa.Table":
        """The rows of a query that is no analysis. Raises ConfigError for SQL that DuckDB refuses."""
        return self._database.select(view)

    def close(self) -> None:
        """Close the driver's DuckDB."""
        if "_database" in self.__dict__:
            self._database.close()

    @cached_property
    def _database(self) -> Database:
        return self._folders.open()

    # Folders of the sources

    def _grouped(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Yield each source with tables alone, and all files together: they are decoded in one go."""
        files = []
        for name in names:
            if self._is_local(name) or is_tables(self._context, name):
                yield [name]
            else:
                files.append(name)
        if files:
            yield files

    def _is_local(self, name: str) -> bool:
        return "://" not in name and Path(name).is_dir() and holds_tables(Path(name))

    def _places(self, names: list[str]) -> Iterator[str]:
        """Yield the folder of tables of a group of sources."""
        narrows = self.only.cluster is not None or self.only.has_days
        name, has_tables = names[0], self._is_local(names[0])
        if has_tables and not narrows:
            identify_source(Path(name))  # in a task, what it raises would be a failure of that
            yield str(Path(name).absolute())
            return
        if has_tables or is_tables(self._context, name):
            yield self._copied(open_source(SparkSession.builder.getOrCreate(), name))
            return
        decoded = self._new_folder(name)
        self.damages += ingest(self._context, names, decoded, options=self._options).problems
        if narrows:
            spark = SparkSession.builder.getOrCreate()
            tables = {table: rows.drop("cluster", "day") for table, rows in open_tables(spark, decoded).items()}
            decoded = self._copied(Source(name, tables))
        yield decoded

    def _copied(self, source: Source) -> str:
        """Write the rows of a source that are wanted as Parquet, and return the folder."""
        SparkSession.builder.getOrCreate().conf.set("spark.sql.session.timeZone", "UTC")
        tables = narrow(source.name, source.tables, self.only)
        if self.only.cluster is not None:
            check_cluster([source.tables["connections"]], self.only.cluster)
        folder = self._new_folder(source.name)
        for name, rows in tables.items():
            if name != "records" or self._options.records:
                columns = [column.name for column in TABLES[name].columns]
                rows.select(columns).write.mode("append").parquet(f"file://{folder}/{name}")
        return folder

    def _new_folder(self, name: str) -> str:
        """Make a folder with tables that have no rows yet."""
        if self._scratch is None:
            raise UsageError(f"{name} cannot be read in place: give --staging, or run kproxy-spark ingest before")
        Path(self._scratch).mkdir(parents=True, exist_ok=True)
        folder = Path(self._scratch, str(len(list(Path(self._scratch).iterdir()))))
        (folder / "connections").mkdir(parents=True)
        pq.write_table(schema_of(TABLES["connections"]).empty_table(), folder / "connections" / "none.parquet")
        return str(folder.absolute())


Asked = tuple[Analysis, dict[str, Value]]


def users_of(asked: list[Asked], views: Mapping[str, View]) -> dict[str, list[str]]:
    """The views whose rows are stored, with the ids of the analyses that need them."""
    users: dict[str, list[str]] = {}
    for analysis, _ in asked:
        for view in library.views_needed(analysis, views):
            if view.stored:
                users.setdefault(view.name, []).append(analysis.id)
    return users


def in_tasks(asked: list[Asked], users: Mapping[str, list[str]]) -> list[list[Asked]]:
    """Divide analyses among tasks; those that share a view which few need have the same task, which makes it once.

    The longest task comes first, so that all executors end at about the same time.
    """
    tasks: list[list[Asked]] = [[] for _ in range(TASKS)]
    makers: dict[str, list[Asked]] = {}  # a view that few need -> its task
    for each in sorted(asked, key=lambda each: -len(each[0].sql)):
        few = [name for name, ids in users.items() if each[0].id in ids and len(ids) <= FEW]
        task = next((makers[name] for name in few if name in makers), min(tasks, key=_length))
        task.append(each)
        makers |= dict.fromkeys(few, task)
    return sorted(filter(None, tasks), key=_length, reverse=True)


def _length(task: list[Asked]) -> int:
    return sum(len(analysis.sql) for analysis, _ in task)


class OpenedTables:
    """The tables that this process keeps open from one task to the next, with the views that the tasks have made.

    Spark ends a process to which no task came for a minute, and removes its folder, in which DuckDB's files are.
    """

    def __init__(self) -> None:
        self._folders: Folders | None = None
        self._database: Database | None = None

    @contextmanager
    def use(self, folders: Folders) -> Iterator[Database]:
        if self._database is None or self._folders != folders:
            self._close()
            local = os.environ.get("SPARK_LOCAL_DIRS")
            self._folders, self._database = folders, folders.open(Path(local.split(",")[0]) if local else None)
        yield self._database
        if "SPARK_REUSE_WORKER" not in os.environ:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


OPENED = OpenedTables()


def answer_in_task(folders: Folders, asked: list[Asked]) -> Iterator[tuple[str, Answered]]:
    """Run analyses in a task."""
    with OPENED.use(folders) as database:
        for analysis, parameters in asked:
            try:
                rows = database.run(analysis, **parameters)
            except ConfigError as error:
                yield analysis.id, Answered(b"", list(error.mistakes), analysis.path)
                continue
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            yield analysis.id, Answered(sink.getvalue().to_pybytes(), [], "")


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
