"""Recorded: the Store of captures and decoded logs, read in a thread while it is served."""

import contextlib
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.analyses.duck import Database
from kproxy.capture import MergedCapture
from kproxy.capture.reader import name_of, open_raw, see_through
from kproxy.errors import KproxyError
from kproxy.output.bodies import Bodies, why_cut
from kproxy.output.entities import Entities
from kproxy.output.escaping import well_formed
from kproxy.output.from_jsonl import LoggedFrame
from kproxy.output.jsonl import event_line
from kproxy.output.rewriting.rewriter import Rewriter, WithoutRecords
from kproxy.output.tables import Table
from kproxy.output.tables.body import read_body
from kproxy.output.times import counted
from kproxy.page.blocks import Blocks, Item, Side, SpillFiles
from kproxy.page.columns import ADDED
from kproxy.page.left_out import clock
from kproxy.page.store import GONE, Loading, Store
from kproxy.pipeline.decoded_log import MergedLog, open_stream
from kproxy.pipeline.inputs import Files, Input, find_inputs
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.summary import Summary
from kproxy.pipeline.table_output import TableOutput
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.session import Event, Exchange, Frame

if TYPE_CHECKING:
    import duckdb
    import pyarrow

MOST_KEPT = 256 * 1024 * 1024
LOOK_MS = 100  # of a pipe
LOOK = 256  # packets or lines between two checks of the time
SHOW_S = 0.5  # between two updates of what the page shows while reading
MEMORY = 160  # MB that DuckDB may use
# Tables removed with their exchanges
WITH_NUMBERS = ("record_batches", "offsets", "group_events", "errors", "partition_states", "share_deliveries")


class Recorded(Store):
    """The exchanges of captures and decoded logs. Reading begins with ``start``.

    Args:
        sources: captures and decoded logs.
        options: how to decode them.
        most: bytes of exchanges that are kept in memory.
        spill: a directory for older exchanges; None: they are dropped.
        separate: captures are read one by one, not as one.

    ``notes`` has a sentence for each file that is left out as it is a copy. Raises UsageError where nothing can be read.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        options: Options = Options(),  # noqa: B008 - frozen
        most: int = MOST_KEPT,
        spill: Path | None = None,
        *,
        separate: bool = False,
    ) -> None:
        super().__init__()
        self.name = ", ".join(Path(name_of(source)).name for source in sources)
        self._inputs = find_inputs(sources, separate=separate)
        self.notes = self._inputs.notes
        self.may_have_edits = not all(files.are_captures for files in self._inputs.files)
        self.blocks: Blocks[Item] = Blocks(most, None if spill is None else SpillFiles(spill))
        self.sources = [path for files in self._inputs.files for path in files.paths]
        self.options = options
        self._database = Database([], memory=MEMORY)
        self._writer = self._database.connection.cursor()
        for column, kind in ADDED.items():
            self._writer.execute(f"ALTER TABLE exchanges ADD COLUMN {column} {kind}")
        self._total = sum(path.stat().st_size for path in self.sources if path.is_file())
        self._read_before = 0
        self._whole: dict[Path, tuple[int, int]] = {}  # files read to their end: size, and when, in ns
        self._ended = threading.Event()
        self._stop = threading.Event()
        self._shown_at = time.monotonic()
        self._thread: threading.Thread | None = None
        self.loading = Loading(0, self._total)

    def start(self) -> None:
        """Start the thread that reads the sources. Raises UsageError for wrong options."""
        rewriter = Rewriter() if self.options.records else WithoutRecords()
        output = RowOutput(self.blocks, self._writer, self._published, rewriter)
        summary = Summary()
        run = Run(self.options, [output, summary])
        self._thread = threading.Thread(target=self._load, args=(run, output, summary), name="kproxy-open", daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all sources are read; return whether they are."""
        return self._ended.wait(seconds)

    @property
    def database(self) -> Database:
        return self._database

    def grown(self) -> str:
        for path, (size, at) in list(self._whole.items()):
            with contextlib.suppress(OSError):  # it is gone
                if path.stat().st_size > size:
                    return (
                        f"{path.name} has grown since it was read, at {clock(at)}: start kproxy open again to read on,"
                        f" or have it read what comes: tail -c +1 -f {path.name} | kproxy open -"
                    )
        return ""

    def rows(self, names: Sequence[str], numbers: Sequence[int] | None = None) -> str:
        return "exchanges e"

    def lacking(self, names: set[str]) -> str:
        is_withheld = (
            "record" in names and not self.options.records and not self.may_have_edits
        )  # a log has what it has
        return "contents of records are not shown: kproxy open --records" if is_withheld else ""

    def item(self, number: int) -> Item | None:
        return self.blocks.get(number)

    def logged(self, numbers: Sequence[int], names: Sequence[str]) -> Iterator[bytes]:
        for item in self.blocks.some(numbers):
            yield GONE if item is None else item.line

    def close(self) -> None:
        super().close()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._writer.close()
        self._database.close()
        self.blocks.close()

    # Reading

    def _load(self, run: Run, output: "RowOutput", summary: Summary) -> None:
        try:
            with run:
                for files in self._inputs.files:
                    self._read(run, files, output)
                    for path in files.paths:
                        with contextlib.suppress(OSError):  # it is gone
                            self._whole[path] = path.stat().st_size, time.time_ns()
                    self.damages = [*self._inputs.damages, *run.damages]
            self.damages += [f"{counted(count, 'connection')} given up: {name}" for name, count in run.faults.items()]
        except KproxyError as error:
            self.damages.append(str(error))
        except Exception as error:
            self.damages.append(f"nothing was read after an error in kproxy: {type(error).__name__}: {error}")
            raise  # its traceback goes to standard error
        finally:
            self.unread = list(summary.not_shown())
            with contextlib.suppress(Exception):
                output.publish()
            self.loading = None
            self._ended.set()

    def _read(self, run: Run, files: Files, output: "RowOutput") -> None:
        """Read a source. Progress is counted in bytes of the files, as the decompressed size is not known beforehand."""
        if len(files.parts) > 1:
            with files.open() as source:
                assert isinstance(source, MergedCapture | MergedLog)
                self._read_on(run, source, output, lambda: source.file_position)
                self._read_before += source.file_position
            return
        path = files.path
        raw, name = open_raw(path, await_writer=False), name_of(path)  # a wait in open(2) cannot be stopped
        is_pipe = not raw.seekable()
        arriving = Arriving(raw, lambda: self._waits(output)) if is_pipe else raw
        with open_stream(see_through(arriving, name), name) as source:
            self._read_on(run, source, output, (lambda: 0) if is_pipe else raw.tell, is_live=is_pipe)
            self._read_before += 0 if is_pipe else raw.tell()

    def _read_on(
        self, run: Run, source: Input, output: "RowOutput", read: Callable[[], int], *, is_live: bool = False
    ) -> None:
        """Read an open source to its end; *read*: how many bytes of its files were read."""
        for count, _ in enumerate(run.read(source, wait_for_names=not is_live)):
            if count % LOOK == 0:
                self.loading = Loading(min(self._read_before + read(), self._total), self._total)
                self._show_when_due(output)
                if self._stop.is_set():
                    source.stop()

    def _waits(self, output: "RowOutput") -> bool:
        """Show what a silent pipe has brought so far; return whether to go on waiting."""
        if self.blocks.last > self.last:
            self._show_when_due(output)
        return not self._stop.is_set()

    def _show_when_due(self, output: "RowOutput") -> None:
        if time.monotonic() - self._shown_at > SHOW_S:
            output.show()
            self._shown_at = time.monotonic()

    def _published(self, first: int, last: int) -> None:
        self.first, self.last, self.size = first, last, self.blocks.held
        self.generation += 1


class Arriving:
    """A pipe as a kproxy.capture.reader.RawFile: a read waits for bytes, and calls back meanwhile.

    Args:
        raw: the pipe, owned from here on.
        waits: called every LOOK_MS while there are no bytes. Once it returns False, the pipe is read no further.
    """

    def __init__(self, raw: FileIO, waits: Callable[[], bool]) -> None:
        self._raw = raw
        self._waits = waits
        self._poll = select.poll()
        self._poll.register(raw, select.POLLIN)

    def readinto(self, buffer: memoryview, /) -> int | None:
        while not self._poll.poll(LOOK_MS):
            if not self._waits():
                return 0
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()


class RowOutput(TableOutput):
    """Writes rows to DuckDB, and lines and frames to blocks."""

    reads_bodies = True
    needs_frames = False

    def __init__(
        self, blocks: Blocks[Item], writer: "duckdb.DuckDBPyConnection", published: Any, rewriter: Rewriter
    ) -> None:
        super().__init__(self._insert)
        self._blocks = blocks
        self._writer = writer
        self._published = published
        self._rewriter = rewriter
        self._entities = Entities()
        self._added: deque[tuple[Any, ...]] = deque()  # of exchanges whose rows are still held
        self._first = 1  # number of the first exchange in the table

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if isinstance(event, Exchange) and shown:
            number = self._blocks.append(item_of(event, line or event_line(event, bodies), self._rewriter))
            self._added.append(added_of(number, event, self._entities.principal(event, login_of(event), bodies)))
        super().write(event, bodies, shown=shown, line=line)

    def show(self) -> None:
        """Show all exchanges that have come so far."""
        self.tables.write_rows()
        self.publish()

    def publish(self) -> None:
        """Show the rows that are in the tables."""
        last = self._blocks.last - len(self._added)
        self._drop()
        self._published(self._first, last)

    def _insert(self, table: Table, batch: Any) -> None:
        if table.name != "exchanges":
            self._writer.from_arrow(batch).insert_into(table.name)
            return
        self._writer.from_arrow(with_added(batch, self._added)).insert_into("exchanges")
        self.publish()

    def _drop(self) -> None:
        """Remove the rows of exchanges that the blocks have dropped."""
        first = self._blocks.first
        if first <= self._first:
            return
        self._writer.begin()
        for name in WITH_NUMBERS:
            self._writer.execute(
                f"DELETE FROM {name} t USING exchanges e"
                f" WHERE e.number < {first} AND t.connection_id = e.connection_id AND t.exchange = e.exchange"
            )
        self._writer.execute(f"DELETE FROM exchanges WHERE number < {first}")
        self._writer.commit()
        self._first = first


def login_of(exchange: Exchange) -> Any:
    """Return the body of a SaslAuthenticate request; None for other requests, or if it cannot be read."""
    if exchange.api_key != ApiKey.SASL_AUTHENTICATE:
        return None
    body, _ = read_body(exchange.request)
    return None if body is None else body.struct


def added_of(number: int, exchange: Exchange, principal: str | None) -> tuple[Any, ...]:
    """Return the values of an exchange in the columns ADDED."""
    connection, request, response = exchange.connection, exchange.request, exchange.response
    request_ns = None if request is None else request.started_at
    response_ns = None if response is None else response.ended_at
    software = connection.client_software_name, connection.client_software_version
    facts = _well_formed(connection.sasl_mechanism, *software)
    return (number, connection.number, connection.client, request_ns, response_ns, principal, *facts)


@lru_cache(maxsize=1024)
def _well_formed(*texts: str | None) -> list[str | None]:
    return [None if text is None else well_formed(text) for text in texts]


def with_added(batch: "pyarrow.RecordBatch", added: deque[tuple[Any, ...]]) -> "pyarrow.RecordBatch":
    """Return rows of exchanges with the columns ADDED, whose values are taken from *added*."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    columns = zip(*(added.popleft() for _ in range(batch.num_rows)), strict=True)
    types = [pa.int64() if kind == "BIGINT" else pa.string() for kind in ADDED.values()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], [*batch.schema.names, *ADDED])


def item_of(exchange: Exchange, line: bytes, rewriter: Rewriter) -> Item:
    """Return an exchange as it is kept: its line in the decoded log, and both frames as *rewriter* leaves them."""
    has_bytes = any(frame is not None and frame.data for frame in (exchange.request, exchange.response))
    done = rewriter.exchange(exchange) if has_bytes else None
    written = exchange if done is None else done.exchange
    notes = ("", "") if done is None else (done.request_note, done.response_note)
    cut = why_cut(exchange)
    request = _side(exchange.request, written.request, cut.get("request", ""), notes[0])
    return Item(line, request, _side(exchange.response, written.response, cut.get("response", ""), notes[1]))


def _side(frame: Frame | None, written: Frame | None, cut: str, note: str) -> Side | None:
    if frame is None:
        return None
    written = frame if written is None else written
    data = frame.size.to_bytes(SIZE_FIELD, "big") + written.data if written.data else b""
    return Side(
        data,
        frame.wire_size,
        None if written.message is None else written.message.name,
        frame.json_version if isinstance(frame, LoggedFrame) else frame.body_version,
        frame.layout,
        frame.body_start + SIZE_FIELD,
        frame.trailing,
        cut,
        note,
    )
