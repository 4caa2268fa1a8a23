"""Live: the Store of a running proxy. The analyzer feeds it; it is a process of its own: `python -m kproxy.page.live`.

The supervisor (kproxy.proxy.supervisor.live_page) starts it when a browser with the token comes to the admin port, passes the
browser's requests on to it, and ends it when none has come for a while. Two sockets are in a directory of the supervisor's:

    feed    the analyzer connects and sends records (kproxy.proxy.page_records), credentials withheld. One that was killed is
            followed by another
    http    the page

Rows are made when exchanges come (live_rows.py, live_files.py). Their frames are kept compressed, and decoded when an exchange is
looked at, or when a filter is about bodies (live_exchanges.py). Both together are bounded in bytes; the oldest leave.
"""

import gc
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kproxy.analyses.duck import Database
from kproxy.output.where import ENTITIES
from kproxy.page.blocks import Blocks, Item
from kproxy.page.columns import COLUMNS
from kproxy.page.live_exchanges import LiveExchanges
from kproxy.page.live_feed import LiveFeed
from kproxy.page.live_files import LiveFiles, least, most
from kproxy.page.live_rows import schemas
from kproxy.page.recorded import MEMORY, MOST_KEPT, with_more
from kproxy.page.server import page_app, serve
from kproxy.page.store import Store, numbers_among
from kproxy.page.work import Work
from kproxy.proxy.page_records import Shown
from kproxy.proxy.process_title import set_process_title
from kproxy.proxy.scheduling import take_what_is_left

if TYPE_CHECKING:
    import duckdb

FEED, HTTP = "feed", "http"
THREADS = 2  # that a query may use: the cores are for the traffic
LONGEST = 65_536  # bytes of the arguments


class LiveArguments(msgspec.Struct, frozen=True):
    """The arguments of the process: JSON, the first line of its standard input."""

    folder: str  # with the sockets
    name: str  # of what is open
    token: str
    hosts: list[str]
    editable: bool = False  # whether breakpoints may be set
    most: int = MOST_KEPT  # bytes of exchanges that are kept


class Live(Store):
    """See the module.

    Args:
        name: of the proxy.
        feeds: a socket that listens for analyzers.
        most: bytes of exchanges that are kept.
    """

    live = True
    fed = False

    def __init__(self, name: str, feeds: socket.socket, most: int = MOST_KEPT) -> None:
        super().__init__()
        self.name = name
        self._exchanges = LiveExchanges()
        self._blocks: Blocks[Shown] = Blocks(1 << 62, None, Shown, _size_of)
        self._files = LiveFiles(schemas())
        self._feed = LiveFeed(feeds, self._exchanges, self._blocks, self._files, most, self._published)
        self._thread: threading.Thread | None = None
        self._database = Database([], memory=MEMORY)
        # A path of a descriptor may come to be that of another file
        self._database.connection.execute("SET enable_external_file_cache = false")
        self._database.connection.execute(f"SET threads = {THREADS}")
        for table in schemas():
            self._database.connection.execute(f"DROP TABLE IF EXISTS {table}")
        self._viewed: dict[str, str] = {}  # of each table: what its view is made of

    def start(self) -> None:
        """Begin to take what analyzers send."""
        self._thread = threading.Thread(target=self._take, name="kproxy-feed", daemon=True)
        self._thread.start()

    def _take(self) -> None:
        take_what_is_left()  # traffic comes first
        self._feed.run()

    @property
    def database(self) -> Database:
        """See Store. Its views are of the rows that the store has at this moment."""
        with self._lock:
            for table in schemas():
                query = self._files.query(table)
                if self._viewed.get(table) != query:
                    self._database.connection.execute(f"CREATE OR REPLACE VIEW {table} AS FROM {query}")
                    self._viewed[table] = query
        return self._database

    def cursor(self) -> "duckdb.DuckDBPyConnection":
        """See Store."""
        with self._lock:
            return self._database.connection.cursor()

    def rows(self, names: Sequence[str], numbers: Sequence[int] | None = None) -> str:
        """See Store."""
        first, last = (None, None) if not numbers else (min(numbers), max(numbers))
        return f"{self._files.query('exchanges', first, last)} e"

    def rows_between(self, names: Sequence[str], first: int, last: int) -> str:
        """See Store."""
        return f"{self._files.query('exchanges', first, last)} e"

    def item(self, number: int) -> Item | None:
        """See Store."""
        shown = self._blocks.get(number)
        known = None if shown is None else self._exchanges.connections.get(shown.connection)
        return None if shown is None or known is None else self._exchanges.item(known, shown)

    def numbers_of(self, work: Work, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """See Store."""
        with self.cursor() as cursor, work.ended_by(cursor.interrupt):
            return numbers_among(cursor, self._files.query("exchanges"), keys)

    def lines(self, numbers: list[int], names: list[str]) -> Iterator[bytes]:
        """See Store."""
        added = [COLUMNS[name] for name in names if name in ENTITIES]  # which the decoded log does not have
        if added:
            others = [dict(zip((c.name for c in added), row, strict=True)) for row in self.look_up(numbers, added)]
            found_lines = self.lines(numbers, [name for name in names if name not in ENTITIES] or ["event"])
            yield from (with_more(line, more) for line, more in zip(found_lines, others, strict=True))
            return
        items = self._blocks.items(numbers[0], numbers[-1]) if numbers else iter(())
        at, shown = 0, None
        for number in numbers:  # ascending
            while at < number and (found := next(items, None)) is not None:
                at, shown = found
            known = None if shown is None or at != number else self._exchanges.connections.get(shown.connection)
            if known is None or shown is None:
                yield b"{}"  # it has left meanwhile
            else:
                yield self._exchanges.line(known, shown, names)

    def lacking(self, names: set[str]) -> str:
        """See Store."""
        return ""

    def times(self) -> tuple[int | None, int | None]:
        """See Store."""
        first = last = None
        for part in self._files.parts:
            first, last = least(first, part.first_ns), most(last, part.last_ns)
        return first, last

    @property
    def lingering(self) -> int:
        """Bytes of ``size`` that are only here for queries that have begun."""
        return self._files.lingering

    def close(self) -> None:
        """See Store."""
        super().close()
        self._feed.stop()
        if self._thread is not None:
            self._thread.join()
        self._database.close()
        self._files.close()
        self._blocks.close()

    def _published(self) -> None:
        feed = self._feed
        self.first, self.last, self.size = feed.first, feed.last, feed.size
        self.dropped, self.share, self.fed = feed.dropped, feed.share, feed.is_fed
        self.generation += 1


def _size_of(shown: Shown) -> int:
    return sum(len(side.data) for side in (shown.request, shown.response) if side is not None) + 64


def listen(folder: Path, name: str) -> socket.socket:
    """A listening socket in a folder."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / name))
    listener.listen()
    return listener


def main() -> None:
    """Serve until the standard input ends."""
    arguments = msgspec.json.decode(sys.stdin.buffer.readline(LONGEST), type=LiveArguments)
    set_process_title("kproxy: page", "kproxy:page")
    _allow_many_files()
    folder = Path(arguments.folder)
    store = Live(arguments.name, listen(folder, FEED), arguments.most)
    store.editable = arguments.editable
    gc.collect()
    gc.freeze()  # the collector skips the objects made until here: they stay to the end
    gc.set_threshold(20_000, 20, 20)
    store.start()
    # Without its reader it would show old rows; the next request starts anew
    threading.excepthook = lambda fault: os._exit(1)
    threading.Thread(target=_follow_input, args=(store,), daemon=True).start()
    serve(page_app(store, arguments.token, arguments.hosts), listen(folder, HTTP), _say_ready)


def _allow_many_files() -> None:
    import resource  # noqa: PLC0415 - only in the process

    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _follow_input(store: Live) -> None:
    """Take what the supervisor says later on, one JSON value a line: whether breakpoints may be set now. End with it."""
    for line in sys.stdin.buffer:
        store.editable = msgspec.json.decode(line, type=bool)
    os._exit(0)


if __name__ == "__main__":
    main()
