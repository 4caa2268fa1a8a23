"""Live: the Store of a running proxy.

Rows are made when exchanges come (files.py). Their frames are kept compressed, and decoded when an exchange is opened or a filter
names bodies (exchanges.py). Rows and frames together are bounded in bytes; the oldest are removed or written to a directory
(feed.py).
"""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kproxy.analyses.duck import Database
from kproxy.page.blocks import Item
from kproxy.page.live.feed import Kept, LiveFeed
from kproxy.page.live.files import least, most, schemas
from kproxy.page.recorded import MEMORY, MOST_KEPT
from kproxy.page.store import GONE, Spill, Store
from kproxy.page.work import Work
from kproxy.proxy.scheduling import take_what_is_left
from kproxy.schemas.store import Schemas
from kproxy.session import Exchange

if TYPE_CHECKING:
    import duckdb

HELD = 4  # one in so many of the kept bytes may be removed during an export
THREADS = 2  # that a query may use, as the cores are for the traffic


class Live(Store):
    """See the module.

    Args:
        name: of the proxy.
        feeds: a socket that listens for analyzers.
        most: bytes of exchanges that are kept in memory.
        spill: a directory for older ones; None: they are removed.
        most_spilled: bytes that are kept there.
        record_schemas: with which the contents of records are shown; None: they may not be shown.
    """

    live = True
    fed = False

    def __init__(
        self,
        name: str,
        feeds: socket.socket,
        most: int = MOST_KEPT,
        spill: Path | None = None,
        most_spilled: int = 0,
        record_schemas: Schemas | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self._most = self.most_size = most
        self.records = record_schemas is not None
        self.record_schemas = record_schemas
        self._kept = Kept(most, spill, most_spilled, record_schemas)
        self._files = self._kept.files
        self._feed = LiveFeed(feeds, self._kept, self.left_out, self._published)
        self.spill = None if spill is None else Spill(str(spill), 0, most_spilled)
        self._thread: threading.Thread | None = None
        self._database = Database([], memory=MEMORY)
        # the path of a file descriptor may name another file later
        self._database.connection.execute("SET enable_external_file_cache = false")
        self._database.connection.execute(f"SET threads = {THREADS}")
        for table in schemas():
            self._database.connection.execute(f"DROP TABLE IF EXISTS {table}")
        self._viewed: dict[str, str] = {}  # table -> the query that its view is made of

    def start(self) -> None:
        """Start the thread that receives what analyzers send."""

        def take() -> None:
            take_what_is_left()  # traffic comes first
            self._feed.run()

        self._thread = threading.Thread(target=take, name="kproxy-feed", daemon=True)
        self._thread.start()

    @property
    def database(self) -> Database:
        """See Store. Its views show the rows that the store has now."""
        with self._lock:
            for table in schemas():
                query = self._files.query(table)
                if self._viewed.get(table) != query:
                    self._database.connection.execute(f"CREATE OR REPLACE VIEW {table} AS FROM {query}")
                    self._viewed[table] = query
        return self._database

    def cursor(self) -> "duckdb.DuckDBPyConnection":
        with self._lock:
            return self._database.connection.cursor()

    def rows(self, names: Sequence[str], numbers: Sequence[int] | None = None) -> str:
        first, last = (None, None) if not numbers else (min(numbers), max(numbers))
        return f"{self._files.query('exchanges', first, last)} e"

    def rows_between(self, names: Sequence[str], first: int, last: int) -> str:
        return f"{self._files.query('exchanges', first, last)} e"

    def keyed_rows(self) -> str:
        return self._files.query("exchanges")

    def item(self, number: int) -> Item | None:
        kept = self._kept.exchange(self._kept.blocks.get(number))
        return None if kept is None else self._kept.exchanges.item(*kept)

    def lacking(self, names: set[str]) -> str:
        return "contents of records are not shown: page.records" if "record" in names and not self.records else ""

    def logged(self, numbers: Sequence[int], names: Sequence[str]) -> Iterator[bytes]:
        for shown in self._kept.blocks.some(numbers):
            kept = self._kept.exchange(shown)
            yield GONE if kept is None else self._kept.exchanges.line(*kept, names)

    def events(self, numbers: Iterable[int]) -> Iterator[Exchange]:
        """Yield the exchanges with these ascending numbers and the bytes of their frames, except those that were removed."""
        for kept in map(self._kept.exchange, self._kept.blocks.some(numbers)):
            if kept is not None:
                yield self._kept.exchanges.whole(*kept)

    def held(self, work: Work) -> AbstractContextManager[list[Callable[[str], str]]]:
        return self._files.held(work.cancel, self._most // HELD)

    def times(self) -> tuple[int | None, int | None]:
        first = last = None
        for part in self._files.parts:
            first, last = least(first, part.first_ns), most(last, part.last_ns)
        return first, last

    @property
    def lingering(self) -> int:
        """Bytes, included in ``size``, that are only kept for queries that have begun."""
        return self._files.lingering

    def close(self) -> None:
        super().close()
        self._feed.stop()
        if self._thread is not None:
            self._thread.join()
        self._database.close()
        self._kept.close()

    def _published(self) -> None:
        feed, kept = self._feed, self._kept
        self.first, self.last, self.size = kept.first, feed.last, kept.size
        if self.spill is not None:
            self.spill = msgspec.structs.replace(self.spill, bytes=kept.spilled, trouble=kept.trouble)
        self.damages = list(feed.damages)
        self.dropped, self.share, self.fed = feed.dropped, feed.share, feed.is_fed
        self.generation += 1
