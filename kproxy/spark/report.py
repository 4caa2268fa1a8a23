"""``kproxy-spark report``: the analyses of kproxy.analyses by DuckDB, on tables or captures of any size.

    tables = SparkTables(context, ["tables"], only=Narrowed("prod", date(2026, 11, 1), date(2026, 11, 7)), scratch=folder)
    tables.prepare(analyses, {})            many rows: one job answers all of them, in DuckDB on the executors
    tables.run(library.load()["map"])       -> pyarrow.Table: the rows, in their order
    kproxy.analyses.report.verdicts.make_report(tables, analyses, {})

Captures, logs and tables of less than SMALL bytes are not worth a job: the driver answers, as kproxy report does. Of others there
is first a folder of Parquet files for each source, which all executors see. A folder of tables is read where it is; captures and
logs are decoded by ingest, all in one go; Spark copies the rows of lakes, of other file systems, and of single clusters or days.
Then one job has TASKS tasks, each with some analyses. No view is made twice: the driver makes those that many analyses need, and
hands them over as files; the others are made by the task that answers all analyses which need them. An executor's first task
opens the folders in DuckDB, the next ones find them open (OpenedTables). So executors may come at any time, and each takes as
many tasks as it can do. With a LocalContext, the executors are processes on this machine.

Narrowed to some days: a row belongs to the day (UTC) of its own time, as ingest partitions it; rows of the table records, which
have no time, to the day of their exchange. A connection belongs to every day from its first byte to its last: exchanges of a day
need their connection, also if it began long before.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Value, View, known_to
from kproxy.analyses.duck import RECORDS_MEMORY, Database
from kproxy.analyses.loading import Span, holds_tables, identify_source, table_files
from kproxy.errors import Unanswerable, UsageError
from kproxy.output.tables import TABLES, schema_of
from kproxy.output.tables.parquet import MARKER, marker_text, missing_parts
from kproxy.pipeline.inputs import files_of
from kproxy.pipeline.run import Options as RunOptions
from kproxy.spark.catalog import WRITER
from kproxy.spark.files import is_remote, may_be_namespace
from kproxy.spark.ingest import ingest
from kproxy.spark.local import LocalContext, spark_of
from kproxy.spark.rows import Options

if TYPE_CHECKING:
    from kproxy.spark.local import Context
    from kproxy.spark.sources import Source

SMALL = 16 << 20  # bytes of sources, for which DuckDB takes about 11 s
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

    @property
    def narrows(self) -> bool:
        return self.cluster is not None or self.has_days


class Folders(Struct, frozen=True):
    """What a task needs to open the tables: plain values."""

    places: list[str]
    views: dict[str, View]
    compare: bool
    spans: tuple[Span, Span] | None
    options: RunOptions  # of captures among them
    report: str  # a name of its own: what is opened for one report may have changed before the next
    scratch: str | None = None  # where DuckDB makes its temporary directories; None: in a task where Spark does
    made: dict[str, str] = {}  # views that were made already, and the files with their rows

    def open(self, otherwise: str = "") -> Database:
        """The tables in DuckDB, in one thread. *otherwise*: in place of ``scratch``."""
        scratch = self.scratch or otherwise
        database = Database(
            self.places,
            views=self.views,
            compare=self.compare,
            spans=self.spans,
            memory=RECORDS_MEMORY,
            wanted=TABLES if self.options.records else None,
            options=self.options,
            scratch=Path(scratch) if scratch else None,
        )
        database.connection.execute("SET threads = 1")
        for name, file in self.made.items():
            database.take_view(name, file)
        return database


class Answered(Struct, frozen=True):
    """The rows of an analysis as Arrow's stream, or why there are none."""

    rows: bytes
    error: UsageError | None = None


class SparkTables:
    """The tables of some sources, and the answers to analyses of them.

    Args:
        context: of the job; a LocalContext, unless a source needs Spark, or only some rows are wanted.
        sources: directories or namespaces of tables (see sources.py), files and patterns.
        folders: users' folders of analyses, for their views.
        only: which of their rows.
        options: what rows files give.
        compare: the two sources are the sides of a diff.
        spans: two ranges of time in microseconds since the epoch, the sides of a diff.
        scratch: an empty or a new folder that all executors see, for rows that have to be copied; None: there is none.

    ``damages`` has a sentence for each place where a source could not be read, ``notes`` for each file that is a copy of another.

    Raises UsageError for a source that is none, or has no such cluster.
    """

    def __init__(
        self,
        context: "Context",
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
        self.notes: list[str] = []
        self.segments_again: int | None = None  # ingest does not count them
        self._context = context
        self._options = options
        self._scratch = scratch
        self._answers: dict[str, Answered] = {}
        self._is_small = not only.narrows and are_small(self.sources)
        groups = [[name] for name in self.sources] if compare else self._grouped(self.sources)
        places = self.sources if self._is_small else [place for group in groups for place in self._places(group)]
        self._folders = Folders(
            places,
            library.load_views(folders),
            compare,
            spans,
            replace(options.run_options(), contain=()),
            uuid4().hex,
            scratch if isinstance(context, LocalContext) else None,
        )
        if self._is_small:
            self.damages, self.notes = self._database.damages, self._database.notes
            self.segments_again = self._database.segments_again

    def prepare(self, analyses: Sequence[Analysis], parameters: Mapping[str, Value]) -> None:
        """Answer these analyses in one job, unless there are few rows."""
        if self._is_small or len(analyses) < 2 or are_small(self._folders.places):
            self._database.look_ahead(analyses, parameters)
            return
        asked = [(analysis, known_to(analysis, parameters)) for analysis in analyses]
        users, folders = users_of(asked, self._folders.views), self._folders
        if self._scratch is not None:
            made = Path(self._new_folder("views"))
            many = [name for name in folders.views if len(users.get(name, ())) > FEW]
            for name in many:
                with suppress(Unanswerable):  # the analyses that read it say so
                    folders = replace(folders, made=folders.made | {name: self._database.write_view(name, made)})
            self.close()  # it is not open while processes are forked, and knows these views when it is opened again
            self._folders = folders
        tasks = in_tasks(asked, users)
        answers = self._context.parallelize(tasks, len(tasks)).flatMap(partial(answer_in_task, folders))
        self._answers = dict(answers.collect())

    def run(self, analysis: Analysis, /, **parameters: Value) -> "pa.Table":
        """The rows of an analysis. Raises UsageError for a parameter, ConfigError for SQL that DuckDB refuses."""
        answered = self._answers.pop(analysis.id, None)
        if answered is None:
            return self._database.run(analysis, **parameters)
        if answered.error is not None:
            raise answered.error
        return pa.ipc.open_stream(answered.rows).read_all()

    def select(self, view: View) -> "pa.Table":
        """The rows of a query that is no analysis. Raises ConfigError for SQL that DuckDB refuses."""
        return self._database.select(view)

    def close(self) -> None:
        """Close the driver's DuckDB."""
        if "_database" in self.__dict__:
            self.__dict__.pop("_database").close()

    @cached_property
    def _database(self) -> Database:
        return self._folders.open()

    # Folders of the sources

    def _grouped(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Yield each source with tables alone, and all files together: they are decoded in one go."""
        files = []
        for name in names:
            if has_tables(name) or self._is_of_spark(name):
                yield [name]
            else:
                files.append(name)
        if files:
            yield files

    def _is_of_spark(self, name: str) -> bool:
        """Whether they are tables that Spark has to read."""
        if not needs_spark(name):
            return False
        from kproxy.spark.sources import is_tables  # noqa: PLC0415 - needs pyspark

        return is_tables(spark_of(self._context), name)

    def _places(self, names: list[str]) -> Iterator[str]:
        """Yield the folder of tables of a group of sources."""
        name, is_here = names[0], has_tables(names[0])
        if is_here and not self.only.narrows:
            identify_source(Path(name))  # in a task, what it raises would be a failure of that
            self.damages += missing_parts(Path(name))
            yield str(Path(name).absolute())
            return
        if is_here or self._is_of_spark(name):
            from pyspark.sql import SparkSession  # noqa: PLC0415 - without rows to copy, Spark is not needed

            from kproxy.spark.sources import open_source  # noqa: PLC0415

            yield self._copied(open_source(SparkSession.builder.getOrCreate(), name))
            return
        decoded = self._new_folder(name)
        options = replace(self._options, capture=Path(name).name)  # one capture, as in kproxy report
        self.damages += ingest(self._context, names, decoded, options=options, note=self.notes.append).problems
        if self.only.narrows:
            from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

            from kproxy.spark.sources import Source, open_tables  # noqa: PLC0415

            spark = SparkSession.builder.getOrCreate()
            tables = {table: rows.drop("cluster", "day") for table, rows in open_tables(spark, decoded).items()}
            decoded = self._copied(Source(name, tables))
        yield decoded

    def _copied(self, source: "Source") -> str:
        """Write the rows of a source that are wanted as Parquet, and return the folder."""
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

        from kproxy.spark.sources import check_cluster, narrow  # noqa: PLC0415

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
        (folder / MARKER).write_text(marker_text(WRITER, {}), encoding="utf-8")
        return str(folder.absolute())


def has_tables(name: str) -> bool:
    return "://" not in name and Path(name).is_dir() and holds_tables(Path(name))


def needs_spark(name: str) -> bool:
    """Whether it may be what only Spark reads: a lake, or what is not on this machine's disks."""
    path = Path(name)
    in_lake = path.is_dir() and not holds_tables(path) and any((path / table).is_dir() for table in TABLES)
    return in_lake or is_remote(name) or may_be_namespace(name)


def are_small(sources: Iterable[str]) -> bool:
    """Whether the driver answers sooner than executors would."""
    return sum(map(size_of, sources)) < SMALL


def size_of(name: str) -> float:
    """Bytes of a source on this machine, as far as they are known before it is read; infinite otherwise."""
    if needs_spark(name):
        return inf
    files = [file for some in table_files(Path(name)).values() for file in some] or files_of(Path(name))
    return sum(file.stat().st_size if file.is_file() else inf for file in files)


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
            self._folders, self._database = folders, folders.open(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0])
        yield self._database
        if folders.scratch is None and "SPARK_REUSE_WORKER" not in os.environ:
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
            except UsageError as error:
                yield analysis.id, Answered(b"", error)
                continue
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            yield analysis.id, Answered(sink.getvalue().to_pybytes())
