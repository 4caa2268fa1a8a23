"""Database: the tables of some sources in DuckDB, with the views and facts that analyses read; runs analyses.

    with Database([Path("trace.pcapng")]) as database:
        table = database.run(library.load()["map"])      # a pyarrow.Table

Captures and decoded logs are decoded into tables of a DuckDB file in a temporary directory, Parquet directories are read in
place.
"""

import copy
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Value, View, bind, known_to, mistake
from kproxy.analyses.dialect import prepare, refused
from kproxy.analyses.facts import FACTS_TABLES, arrow_table
from kproxy.analyses.loading import Kind, Loader, Reading, Source, Span, Watch, identify_source, quoted
from kproxy.analyses.scratch import ScratchDirectory
from kproxy.capture.reader import ClosedOnExit
from kproxy.errors import NoRoom, Unanswerable, UsageError
from kproxy.output.tables import TABLES
from kproxy.pipeline.run import Options

if TYPE_CHECKING:
    import duckdb
    import pyarrow

Result = TypeVar("Result")
Key: TypeAlias = tuple[object, ...]  # an analysis and the values of its parameters
Asked: TypeAlias = tuple[Analysis, dict[str, Value]]
# MB, in addition to about 150 of Python, pyarrow and DuckDB, most of it their code. DuckDB keeps the hash tables of all joins
# of a query until it ends: what is large is a stored view of its own, so that one thread needs no more for 8 GiB of captures.
MEMORY = 48
ROW_GROUP = 30_720  # rows of a table that are in memory before they are written: a quarter of DuckDB's own number
LOADING_MEMORY = 48  # while sources are read; more would only cache rows that are written already
FEW_ROWS = 20_000  # in all tables: views are computed once, rows are fetched as Python values, one thread is enough
# For few rows. DuckDB takes a megabyte for each GROUP BY, and near its limit gives memory back and takes it again: a tenth of
# the time
MEMORY_FOR_FEW = 128
NEEDED_OPTIMIZERS = (  # for few rows; the others take longer than they save
    *("filter_pullup", "filter_pushdown", "join_order", "build_side_probe_side", "deliminator", "unnest_rewriter"),
    *("cte_inlining", "unused_columns", "column_lifetime"),
)
PARAMETER = re.compile(r"\$(\w+)")
RECORDS_MEMORY = 256  # to read tables of records, and in executors of Spark
MORE_MEMORY = (128, 512, 2000)  # tried in turn for the few analyses that need more, in one thread, too
DISK_CAUSES = (
    "No space left on device",
    "File too large",
    "Disk quota exceeded",
    "Read-only file system",
    "Permission denied",
)
SAFE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}
OUT_OF_RANGE = re.compile(  # of DuckDB and Arrow; not of a date in the text of a query
    r"Out of Range Error|Conversion Error: (?!\w+ field value).*out of range"
    r"|Integer value out of bounds|Value .* too large to fit"
)
# The text of DuckDB's error; while rows are fetched, it is in an error of Arrow
WORDS = re.compile(r"query interrupted|interrupt error", re.IGNORECASE)


def check_available(*, extra: str = "report", more: Iterable[str] = ()) -> None:
    """Raise UsageError if DuckDB, pyarrow or one of *more* is not installed."""
    # Not imported here: together they take a third of a second
    for name in ("duckdb", "pyarrow", "pytz", *more):
        if sys.modules.get(name, True) is None or (name not in sys.modules and find_spec(name) is None):
            raise UsageError(f"this needs {name}: pip install 'kproxy-kafka[{extra}]'")


class Database(ClosedOnExit):
    """The tables of some sources in DuckDB. Use it as a context manager, or close it.

    Args:
        sources: captures, decoded logs, Parquet directories.
        folders: users' folders of analyses, for their views.
        wanted: the tables to fill; None: all but records.
        options: of the decoding.
        watch: reads a source to its end, and shows how far it is.
        memory: how many MB DuckDB may use; None: what analyses need.
        compare: the two sources are the sides of a diff.
        spans: two ranges of time in microseconds since the epoch, the sides of a diff.
        reading: what the caller may change while the sources are read.
        views: all views, where the folders are not at hand.
        scratch: the folder for DuckDB's temporary directory; None: that of temporary files.

    ``damages`` has a sentence for each source that could not be read to its end, ``notes`` for each that is a copy of another;
    ``viewers`` showed the records of captures, if the table records is wanted.

    Raises UsageError for a source that cannot be read, ConfigError for a view with mistakes, NoRoom where the disk is full.
    """

    def __init__(
        self,
        sources: Iterable[Path | str],
        *,
        folders: Iterable[Path | str] = (),
        wanted: Iterable[str] | None = None,
        options: Options = Options(),  # noqa: B008 - frozen
        watch: Watch | None = None,
        memory: int | None = None,
        compare: bool = False,
        spans: tuple[Span, Span] | None = None,
        reading: Reading | None = None,
        views: Mapping[str, View] | None = None,
        scratch: Path | None = None,
    ) -> None:
        check_available()
        self._scratch = scratch
        self._views = library.load_views(folders) if views is None else views
        self._made: set[str] = set()  # views and facts that the connection has
        self._has_few_rows = False
        self._applies: dict[Key, bool] = {}  # whether it may have rows
        self._answers: dict[Key, pyarrow.Table | Exception] = {}  # of analyses that were run ahead
        self._locks: dict[str, threading.RLock] = {}  # of views and facts: one thread makes each
        self._begun: set[str] = set()  # views and facts whose creation was begun, and perhaps completed
        self._memory = memory
        self._reading = Reading() if reading is None else reading
        self._directory: ScratchDirectory | None = None
        identified = [identify_source(Path(source)) for source in sources]
        self._decodes = any(source.kind is Kind.EVENTS for source in identified)
        tables = {name for name, table in TABLES.items() if not table.optional} if wanted is None else set(wanted)
        self._loading_memory = RECORDS_MEMORY if any(TABLES[name].optional for name in tables) else LOADING_MEMORY
        try:
            with self._names_the_disk():
                self._load(
                    identified,
                    Loader(self._connect, tables | {"connections"}, options, watch, self._reading),
                    compare,
                    spans,
                )
        except BaseException:
            self.close()
            raise

    def _load(self, sources: list[Source], loader: Loader, compare: bool, spans: tuple[Span, Span] | None) -> None:
        if compare:
            before, after = sources
            loader.load_sides(before, after)
        else:
            loader.load(sources)
        if spans is not None:
            loader.divide(spans)
        self._made |= {"sides"} if compare or spans is not None else set()
        self.damages, self.notes = loader.damages, loader.notes
        self.segments_again = loader.segments_again
        self._parquet, self.viewers = loader.parquet, loader.viewers
        # One query for all of them would take ten times as long
        counts = (self._connection.execute(f"SELECT count(*) FROM {name}").fetchall() for name in TABLES)
        self._has_few_rows = bool(sources) and sum(rows for [(rows,)] in counts) <= FEW_ROWS
        memory = self._memory or (MEMORY_FOR_FEW if self._has_few_rows else MEMORY)
        self._more_memory = _MoreMemory(memory)
        self._connection.execute(f"SET memory_limit = '{memory}MB'")
        if self._has_few_rows:
            self._connection.execute("SET threads = 1")
            rest = f"SELECT string_agg(name, ',') FROM duckdb_optimizers() WHERE name NOT IN {NEEDED_OPTIMIZERS}"
            [(names,)] = self._connection.execute(rest).fetchall()
            self._connection.execute(f"SET disabled_optimizers = '{names}'")

    def _connect(self, few: bool) -> "duckdb.DuckDBPyConnection":
        """Open DuckDB: a compressed file in a temporary directory; for few rows and for a first answer, in memory."""
        import duckdb  # noqa: PLC0415 - heavy, and an extra

        if self._reading.is_part:
            self._connection = duckdb.connect(config=SAFE | {"threads": 1})
        else:
            self._directory = _temporary_directory(self._scratch)
            attached = self._decodes and not few  # a cursor would not find what is attached: the page fills a file
            database = ":memory:" if few or attached else Path(self._directory.name, "tables")
            self._connection = duckdb.connect(database, config=SAFE | ({"threads": 1} if few else {}))
            self._connection.execute(f"SET temp_directory = '{self._directory.name}'")
            if attached:
                file = quoted(f"{self._directory.name}/tables")
                self._connection.execute(f"ATTACH {file} AS tables (ROW_GROUP_SIZE {ROW_GROUP}); USE tables")
        self._connection.execute(f"SET memory_limit = '{self._loading_memory}MB'")
        prepare(self._connection)
        return self._connection

    @property
    def connection(self) -> "duckdb.DuckDBPyConnection":
        """DuckDB's own connection."""
        return self._connection

    def over(self, connection: "duckdb.DuckDBPyConnection") -> Self:
        """Return a Database with the same tables through another connection; it creates views and facts of its own there.

        The caller closes the connection, and must not close the returned Database.
        """
        other = copy.copy(self)
        other._connection = connection
        other._made, other._begun, other._locks = set(), set(), {}
        other._has_few_rows, other._applies, other._answers = False, {}, {}  # there may be more later
        return other

    def run(self, analysis: Analysis, /, **parameters: Value) -> "pyarrow.Table":
        """The rows of an analysis. Raises UsageError for a parameter, ConfigError for SQL that is refused, Unanswerable."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        values = bind(analysis, parameters)
        if (answer := self._answers.pop(_key(analysis, values), None)) is not None:
            if isinstance(answer, Exception):
                raise answer
            return answer
        if analysis.header.only_if and not self._selects_any(analysis, values):
            return pa.table({name: pa.nulls(0) for name in analysis.columns})
        return self._rows(analysis, values)

    def look_ahead(self, analyses: Iterable[Analysis], parameters: Mapping[str, Value]) -> None:
        """Prepare for these analyses: ``run`` answers them sooner, and with less memory.

        Of few rows, most of the time goes into parsing and planning, for which DuckDB takes one thread: two threads answer all of
        them here. One query finds out which of them have rows that they need, in a fifth of the time that one for each takes.

        Of many rows, that query would open the Parquet files for each analysis at once, in 300 MB. DuckDB gets one thread: what
        an analysis needs at least grows with the threads, not with the rows, and on two cores two threads save no time.
        """
        if not self._has_few_rows:
            self._connection.execute("SET threads = 1")
            return
        every = []
        for one in analyses:
            with suppress(UsageError):  # run raises it
                every.append((one, bind(one, known_to(one, parameters))))
        asked = SimpleQueue[Asked | None]()
        for each in every:
            if not each[0].header.only_if:
                asked.put(each)
        with self._answering(asked):
            self._find_applicable(every)
            left = [each for each in every if each[0].header.only_if and self._applies.get(_key(*each), True)]
            left.sort(key=self._length, reverse=True)  # the longest first: both threads end at the same time
            for each in left:
                asked.put(each)

    def _find_applicable(self, every: "list[Asked]") -> None:
        """Find out which analyses have rows that they need. Of a condition with mistakes nothing is known: run raises it."""
        import duckdb  # noqa: PLC0415 - as above

        asked = [(one, values) for one, values in every if one.header.only_if]
        conditions = [_condition(one, values, f"_{at}") for at, (one, values) in enumerate(asked)]
        parts = [f"(SELECT {at} {text} LIMIT 1)" for at, (text, _) in enumerate(conditions)]
        given = {name: value for _, used in conditions for name, value in used.items()}
        with suppress(duckdb.Error):
            found = (
                {at for (at,) in self._connection.execute(" UNION ALL ".join(parts), given).fetchall()} if parts else {}
            )
            self._applies = {_key(one, values): at in found for at, (one, values) in enumerate(asked)}

    @contextmanager
    def _answering(self, asked: "SimpleQueue[Asked | None]") -> Iterator[None]:
        """Answer what is asked in a second thread; at the end of the block, in this one, too, until everything is answered."""
        other = copy.copy(self)
        other._connection = self._connection.cursor()
        [(catalog,)] = self._connection.execute("SELECT current_catalog()").fetchall()
        other._connection.execute(f"SET TimeZone = 'UTC'; USE {catalog}")
        thread = threading.Thread(target=other._answer, args=(asked,), daemon=True)
        thread.start()
        try:
            yield
            asked.put(None)
            asked.put(None)
            self._answer(asked)
        except BaseException:
            with suppress(Empty):
                while True:
                    asked.get_nowait()
            asked.put(None)
            other._connection.interrupt()
            raise
        finally:
            thread.join()
            other._connection.close()

    def _answer(self, asked: "SimpleQueue[Asked | None]") -> None:
        while (each := asked.get()) is not None:
            try:
                self._answers[_key(*each)] = self._rows(*each)
            except Exception as error:
                self._answers[_key(*each)] = error

    def _length(self, asked: "Asked") -> int:
        """Return how long the SQL of an analysis and its views is: about as long takes its answer."""
        analysis, _ = asked
        return len(analysis.sql) + sum(len(view.sql) for view in library.views_needed(analysis, self._views))

    def _selects_any(self, analysis: Analysis, values: Mapping[str, Value]) -> bool:
        """Whether the tables have a row without which the analysis has none: that is found out in a millisecond."""
        import duckdb  # noqa: PLC0415 - as above

        if (known := self._applies.get(_key(analysis, values))) is not None:
            return known
        condition, used = _condition(analysis, values)
        try:
            query = f"SELECT 1 {condition} LIMIT 1"
            return bool(self._with_more_memory(lambda: self._connection.execute(query, used).fetchall()))
        except duckdb.Error as error:
            if OUT_OF_RANGE.match(str(error)):
                raise _failure(analysis, error) from None
            raise mistake(analysis.path, 1, 1, f"only_if: {str(error).splitlines()[0]}") from None

    def select(self, view: View) -> "pyarrow.Table":
        """The rows of a view. Raises ConfigError for SQL that DuckDB refuses."""
        return self._rows(view, {})

    def write_view(self, name: str, folder: Path) -> str:
        """Write the rows of a stored view to a file, for ``take_view`` of other processes; return its path."""
        self._make_views(self._views[name])
        self._make_view(self._views[name])
        file = str(folder / f"{name}.parquet")
        self._connection.execute(f"COPY {name} TO {quoted(file)} (FORMAT parquet)")
        return file

    def take_view(self, name: str, file: str) -> None:
        """Have the rows of a view that ``write_view`` wrote."""
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM read_parquet({quoted(file)})")
        self._made.add(name)

    def make_all(self) -> set[str]:
        """Create every view and table of facts, for users' queries; return the names of the views."""
        self._connection.execute("SET disabled_optimizers = ''")
        for name in FACTS_TABLES:
            self._make_facts_table(name)
        for view in self._views.values():
            self._make_views(view)
            self._make_view(view)
        return set(self._views)

    def seal(self) -> None:
        """Cut DuckDB off from files and the network, irrevocably. It still reads the Parquet files of the sources.

        A user's query gets more memory than an analysis: unlike an analysis, it is not retried with more.
        """
        self._connection.execute(f"SET memory_limit = '{MORE_MEMORY[-1]}MB'")
        listed = ", ".join(quoted(str(path)) for path in self._parquet)
        self._connection.execute(f"SET allowed_paths = [{listed}]")
        self._connection.execute("SET python_enable_replacements = false")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def close(self) -> None:
        """Close DuckDB and remove its files."""
        if hasattr(self, "_connection"):
            self._connection.close()
        if self._directory is not None:
            self._directory.cleanup()

    def _rows(self, source: Analysis | View, values: dict[str, Value]) -> "pyarrow.Table":
        import duckdb  # noqa: PLC0415 - as above
        import pyarrow as pa  # noqa: PLC0415

        self._make_views(source)
        try:
            with self._names_the_disk():
                if self._is_small:
                    return self._with_more_memory(lambda: self._few_rows(source.sql, values))
                given = {name: _literal(value) for name, value in values.items()}
                rows = self._with_more_memory(lambda: self._connection.sql(source.sql, params=given).to_arrow_table())
                return whole_numbers(rows)
        except (duckdb.Error, pa.ArrowInvalid, OverflowError) as error:
            raise _failure(source, error) from None

    @property
    def _is_small(self) -> bool:
        return self._reading.is_part or self._has_few_rows

    def _few_rows(self, query: str, values: Mapping[str, Value]) -> "pyarrow.Table":
        """Fetch the rows as Python values: unlike an Arrow result, that plans the query only once."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        result = self._connection.execute(query, {name: _literal(value) for name, value in values.items()})
        names = [column[0] for column in result.description]
        columns = list(zip(*result.fetchall(), strict=True)) or [()] * len(names)
        return pa.table(dict(zip(names, map(_arrow_array, columns), strict=True)))

    def _with_more_memory(self, run: Callable[[], Result]) -> Result:
        """Call *run*. If it runs out of memory, call it again in one thread, then with more, and restore both afterwards."""
        import duckdb  # noqa: PLC0415 - as above

        steps = 0
        try:
            while True:
                try:
                    return run()
                except duckdb.OutOfMemoryException:
                    if steps == len(self._more_memory.steps):
                        raise
                steps = self._more_memory.take(self._connection, steps + 1)
        finally:
            if steps:
                self._more_memory.leave(self._connection)

    @contextmanager
    def _names_the_disk(self) -> Iterator[None]:
        """Raise NoRoom if DuckDB cannot write to its temporary directory, and KeyboardInterrupt if Ctrl-C ended a query."""
        import duckdb  # noqa: PLC0415 - as above

        try:
            with ends_at_interrupt():
                yield
        except duckdb.Error as error:
            message = str(error).strip().splitlines()[0]
            if self._directory is None or self._directory.name not in message:
                raise
            cause = next((words for words in DISK_CAUSES if words.lower() in message.lower()), message[:200])
            raise NoRoom(_no_room(Path(self._directory.name).parent, cause)) from None

    # Views and facts, created when they are first needed

    def _make_views(self, source: Analysis | View) -> None:
        for view in library.views_needed(source, self._views):
            self._make_view(view)
        self._make_facts(source)

    def _make_facts(self, source: Analysis | View) -> None:
        for name in library.tables_of(source):
            self._make_facts_table(name)

    def _make_facts_table(self, name: str) -> None:
        if name not in FACTS_TABLES:
            return
        with self._lock_of(name):
            if name not in self._made:
                self._connection.register("_facts", arrow_table(name))
                self._connection.execute(f"CREATE {self._anew(name)} TABLE {name} AS SELECT * FROM _facts")
                self._connection.unregister("_facts")
                self._made.add(name)

    def _make_view(self, view: View) -> None:
        """Create a view; the views that it reads exist already."""
        with self._lock_of(view.name):
            if view.name not in self._made:
                self._make_facts(view)
                self._execute_view(view)
                self._made.add(view.name)  # only now: the page may abandon an analysis at any point, and run it again

    def _lock_of(self, name: str) -> threading.RLock:
        return self._locks.setdefault(name, threading.RLock())

    def _anew(self, name: str) -> str:
        """Return OR REPLACE if its creation was begun before: an interrupt may come when it exists already."""
        words = "OR REPLACE" if name in self._begun else ""
        self._begun.add(name)
        return words

    def _execute_view(self, view: View) -> None:
        import duckdb  # noqa: PLC0415 - as above

        kind = "TABLE" if view.stored or self._is_small else "VIEW"  # few rows: to plan a view takes longer
        try:
            with self._names_the_disk():
                create = f"CREATE {self._anew(view.name)} {kind} {view.name} AS {view.sql}"
                self._with_more_memory(lambda: self._connection.execute(create))
        except duckdb.Error as error:
            raise _failure(view, error) from None


def _failure(source: Analysis | View, error: Exception) -> Exception:
    """Return what to raise for an error of DuckDB, Arrow or Python."""
    import duckdb  # noqa: PLC0415 - as above

    words = str(error)
    if not isinstance(error, OverflowError) and not OUT_OF_RANGE.match(words):
        return refused(source.sql, source.path, words) if isinstance(error, duckdb.Error) else error
    return Unanswerable(f"a value is out of range in {Path(source.path).stem} ({words.splitlines()[0][:200]})")


def _key(analysis: Analysis, values: Mapping[str, Value]) -> Key:
    return analysis.id, *values.items()


class _MoreMemory:
    """The threads and the memory of a DuckDB, which all of its connections share: restored when no query needs more.

    Args:
        memory: how many MB it has otherwise.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self.steps = ("threads = 1", *(f"memory_limit = '{more}MB'" for more in MORE_MEMORY if more > memory))
        self._threads = 0
        self._taken = 0  # how many of the steps
        self._users = 0  # queries that needed one
        self._lock = threading.Lock()

    def take(self, connection: "duckdb.DuckDBPyConnection", steps: int) -> int:
        """Take the first *steps* for a query, which takes them one by one; what another query has taken holds for both.

        Return how many were taken: a query that had one thread gets more memory at once.
        """
        with self._lock:
            if not self._taken:
                [(self._threads,)] = connection.execute("SELECT current_setting('threads')").fetchall()
            self._users += steps == 1
            steps = max(steps, 2) if self._threads == 1 else steps
            for step in self.steps[self._taken : steps]:
                connection.execute(f"SET {step}")
            self._taken = max(self._taken, steps)
            return steps

    def leave(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """End a query that has taken steps; the last one restores both."""
        import duckdb  # noqa: PLC0415 - as above

        with self._lock:
            self._users -= 1
            if not self._users:
                with suppress(duckdb.OutOfMemoryException):  # another query uses more than that just now
                    connection.execute(f"SET memory_limit = '{self._memory}MB'")
                connection.execute(f"SET threads = {self._threads}")
                self._taken = 0


def _condition(analysis: Analysis, values: Mapping[str, Value], suffix: str = "") -> tuple[str, dict[str, Any]]:
    """Return only_if and its parameters, their names with a suffix, so that several conditions may stand in one query."""
    condition = analysis.header.only_if
    used = [name for name in PARAMETER.findall(condition) if name in values]
    return PARAMETER.sub(rf"$\1{suffix}", condition), {f"{name}{suffix}": _literal(values[name]) for name in used}


def _literal(value: Value) -> Any:
    """Bind a whole number as BIGINT: an INTEGER times 1,000,000 overflows."""
    import duckdb  # noqa: PLC0415 - as above
    from duckdb.sqltypes import BIGINT  # noqa: PLC0415

    return duckdb.Value(value, BIGINT) if isinstance(value, int) and not isinstance(value, bool) else value


def _temporary_directory(folder: Path | None) -> ScratchDirectory:
    try:
        return ScratchDirectory(folder)
    except OSError as error:
        raise NoRoom(_no_room(folder or Path(tempfile.gettempdir()), error.strerror or str(error))) from None


def _no_room(directory: Path, cause: str) -> str:
    return (
        f"{directory}: {cause[:1].lower()}{cause[1:]}: the tables of the sources are kept there meanwhile; "
        "set TMPDIR to a directory with more room"
    )


def _arrow_array(values: tuple[Any, ...]) -> "pyarrow.Array":
    """The array that pyarrow makes of the values; to find out their type it looks for dateutil, for a tenth of a millisecond."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.array(values, plain.get(kinds.pop()) if len(kinds) == 1 else None)


def whole_numbers(table: "pyarrow.Table") -> "pyarrow.Table":
    """Cast DuckDB's 128-bit sums of whole numbers to int64."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    sums = pa.decimal128(38, 0)
    fields = [field.with_type(pa.int64()) if field.type == sums else field for field in table.schema]
    return table if fields == list(table.schema) else table.cast(pa.schema(fields))


@contextmanager
def ends_at_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for a query that Ctrl-C ended; DuckDB ends the query, but raises other exceptions.

    Which exception depends on the call: RuntimeError, duckdb.InterruptException, ArrowException or OSError. Only the main
    thread gets signals; in other threads such an exception means that the program ended the query, as the page does when its
    browser has gone. A second Ctrl-C while a query ends is ignored: DuckDB 2.0 would hang.
    """
    is_main = threading.current_thread() is threading.main_thread()
    is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _interrupt_once)
    try:
        yield
    except Exception as error:
        if is_main and WORDS.search(str(error)):
            raise KeyboardInterrupt from None
        raise
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
