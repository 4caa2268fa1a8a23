"""LiveFeed: receives what analyzers send, one analyzer after the other, and shows it: rows, frames, connections, counts.

Rows are shown SHOW_S after they came; when many come, every MOST_SHOW_S or when there are enough for a file. Then the oldest are
removed if more bytes are kept than allowed (Kept).
"""

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from kproxy.page.blocks import Blocks, SpillFiles
from kproxy.page.left_out import LeftOut
from kproxy.page.live.exchanges import Known, LiveExchanges
from kproxy.page.live.files import ROWS, LiveFiles, LiveRows, schemas
from kproxy.proxy.page_records import Begun, Ended, Pieces, Record, Seen, Shown, Tally, Topics
from kproxy.proxy.scheduling import Breaks
from kproxy.schemas.store import Schemas
from kproxy.session import BadFrame, Event, Gap, NotKafka

SHOW_S, MOST_SHOW_S = 0.4, 1.0
FEW = 2_000  # exchanges
LOOK_S = 0.2
LATE_NS = 1_000_000_000  # from which on a feed is read without breaks
READ = 256 << 10
OPEN_SHARE = 0.05  # most of the time that may be spent on the rows of open connections
ACTIVITY_S = 10.0  # between two rows of what connections did
ANALYZER_ENDED = "evicted"
LATEST_DAMAGES = 10  # kept for the page
MOST_EXCHANGES = 20_000_000  # in the directory: a view of rows has 8 bytes of memory for each
CONNECTIONS_SHARE = 2  # connections may take one in so many bytes of memory: they are not written to the directory
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred of unix(7)


class Kept:
    """The rows, frames and connections of a live store. One thread changes them.

    When memory is full, the oldest exchanges are written to the directory, or removed if there is none. They are also removed
    when the directory is full, or cannot be written to because its disk is full.

    Args:
        most: bytes that may be in memory.
        spill: a directory for older exchanges; None: they are removed.
        most_spilled: bytes that may be in the directory.
        record_schemas: with which the contents of records are shown; None: they may not be shown.
    """

    def __init__(self, most: int, spill: Path | None, most_spilled: int, record_schemas: Schemas | None) -> None:
        self._most = most
        self._spill = None if spill is None else SpillFiles(spill, most_spilled)
        self._most_spilled = most_spilled
        self.exchanges = LiveExchanges(record_schemas)
        self.blocks: Blocks[Shown] = Blocks(1 << 62, self._spill, Shown, _size_of)
        self.files = LiveFiles(schemas())
        self.first = 1  # number of the first exchange that is kept
        self.trouble = ""  # why nothing can be written to the directory, as a sentence

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.blocks.size + self.files.size + self.exchanges.size

    @property
    def spilled(self) -> int:
        """Bytes in the directory."""
        return self.files.spilled + (0 if self._spill is None else self._spill.size)

    def exchange(self, shown: Shown | None) -> tuple[Known, Shown] | None:
        """Return an exchange with its connection; None if it was removed."""
        known = None if shown is None else self.exchanges.connections.get(shown.connection)
        return None if known is None or shown is None else (known, shown)

    def make_room(self) -> None:
        """Make room. Files removed a moment ago may still be in memory for queries (LiveFiles): at most half of the bytes."""
        most = max(self._most - self.files.lingering, self._most // 2)
        while self.size - self.files.lingering > most and self.files.in_memory > 1:
            if not self._has_spilled():
                self._remove_oldest()
        while len(self.files.parts) > 1 and (
            self.spilled > self._most_spilled
            or self.exchanges.size > self._most // CONNECTIONS_SHARE
            or self.blocks.last - self.first > MOST_EXCHANGES
        ):
            self._remove_oldest()

    def close(self) -> None:
        """Close the files of rows, and the blocks of frames."""
        self.files.close()
        self.blocks.close()

    def _has_spilled(self) -> bool:
        """Write the oldest exchanges in memory to the directory; return False if that is not possible."""
        if self._spill is None:
            return False
        try:
            self.blocks.spill_before(self.files.spill_oldest(self._spill))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            self.trouble = f"older exchanges cannot be written to {self._spill.folder} and leave: {why}"
            return False
        self.trouble = ""
        return True

    def _remove_oldest(self) -> None:
        self.first = self.files.remove_oldest()
        self.blocks.drop_before(self.first)
        self.exchanges.forget_before(self.first)


class LiveFeed:
    """See the module.

    Args:
        listener: a socket that listens for analyzers; owned from here on.
        kept: takes the exchanges and their connections.
        left_out: counts the exchanges that do not come.
        published: called when what is shown has changed.
    """

    def __init__(self, listener: socket.socket, kept: Kept, left_out: LeftOut, published: Callable[[], None]) -> None:
        self._listener = listener
        self._listener.settimeout(LOOK_S)
        self._kept = kept
        self._exchanges, self._blocks, self._files = kept.exchanges, kept.blocks, kept.files
        self._left_out = left_out
        self._published = published
        self._rows = LiveRows()
        self._stop = threading.Event()
        self._base = 0  # connections of earlier feeds
        self._highest = 0  # number of a connection
        self._news = False
        self._shown_at = self._activity_at = time.monotonic()
        self._open_at = 0.0  # when the rows of open connections may be written again
        self._open_is_old = False  # whether they have changed since they were written
        self._dropped_before = 0  # by earlier feeds
        self._dropped_here = 0
        self._tally = Tally(0, 0, 0, 1.0)
        self._unseen_since = 0  # ns: time of the newest exchange of the last feed; 0: there was none
        self._analyzer = 0  # process id of the last connected analyzer
        self.damages: list[str] = []
        self.last = 0  # number of the last exchange that is shown
        self.is_fed = False  # whether an analyzer is connected

    @property
    def dropped(self) -> int:
        """Exchanges that passed the proxy while the page was there, and did not come to the page."""
        return self._dropped_before + self._tally.dropped + self._tally.missed + self._dropped_here

    @property
    def share(self) -> float:
        """The share of the exchanges that come here now."""
        return self._tally.share

    def stop(self) -> None:
        """End ``run``."""
        self._stop.set()

    def run(self) -> None:
        """Accept and read feeds until ``stop``."""
        with self._listener:
            while not self._stop.is_set():
                try:
                    connected, _ = self._listener.accept()
                except TimeoutError:
                    self._files.close_replaced()
                    continue
                with connected:
                    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
                    self._note_analyzer(CREDENTIALS.unpack(credentials)[0])
                    self.is_fed = True
                    self._published()
                    self._follow(connected)
                self.is_fed = False
                self._end_feed()

    def _follow(self, connected: socket.socket) -> None:
        pieces = Pieces()
        buffer = bytearray(READ)
        breaks = Breaks()
        poll = select.poll()
        poll.register(connected, select.POLLIN)
        while not self._stop.is_set():
            if not poll.poll(1000 * (SHOW_S if self._news else LOOK_S)):
                self._show_when_due()
                continue
            try:
                size = connected.recv_into(buffer)
                received = list(pieces.feed(memoryview(buffer)[:size]))
            except (OSError, ValueError):  # cut off, or no feed
                return
            for records in received:
                is_late = time.time_ns() - self._tally.at > LATE_NS
                for record in records:
                    self._receive(record)
                    if not is_late:
                        breaks.take_when_due()
                self._show_when_due()
            if not size:
                return

    def _note_analyzer(self, pid: int) -> None:
        """Note that the analyzer was started again: what the previous one had not sent is lost and not counted."""
        if self._analyzer and pid != self._analyzer:
            now = time.strftime("%H:%M:%S UTC", time.gmtime())
            self.damages.append(f"the analyzer was started again at {now}: some exchanges before that are missing")
            del self.damages[:-LATEST_DAMAGES]
            self._left_out.add_unseen(self._unseen_since, time.time_ns())
        self._analyzer = pid

    def _end_feed(self) -> None:
        """Close the connections that the ended analyzer had open."""
        for number, known in self._exchanges.connections.items():
            if known.is_open and number > self._base:
                self._exchanges.end(number)
                self._rows.ended(number, None, 0, ANALYZER_ENDED)
        self._base = self._highest
        self._unseen_since = self._tally.at or time.time_ns()
        self._dropped_before += self._tally.dropped + self._tally.missed
        self._tally = Tally(0, 0, 0, 1.0)
        self._show()

    # Records

    def _receive(self, record: Record) -> None:
        self._news = True
        if type(record) is Shown:
            self._add(record)
        elif type(record) is Tally:
            self._count(record)
        elif type(record) is Begun:
            number = self._base + record.connection
            self._highest = max(self._highest, number)
            is_new = number not in self._exchanges.connections
            known = self._exchanges.begin(number, record)
            if is_new:  # a record with more facts about a known connection is not activity on it
                self._rows.note(Event(known.connection, record.at))
        elif type(record) is Ended:
            number = self._base + record.connection
            self._rows.ended(number, record.side, record.at, record.reason)
            if record.side is None:
                self._exchanges.end(number)
        elif type(record) is Topics:
            self._exchanges.learn_topics(record)
        elif type(record) is Seen:
            self._note(record)

    def _count(self, tally: Tally) -> None:
        before, self._tally = self._tally, tally
        missed = tally.missed - before.missed
        self._left_out.add(
            tally.at or time.time_ns(), tally.seen - before.seen + missed, tally.dropped - before.dropped + missed
        )

    def _drop(self, shown: Shown) -> None:
        self._dropped_here += 1
        self._left_out.add(shown.at, 0, 1)  # the next tally counts it among all

    def _add(self, shown: Shown) -> None:
        known = self._exchanges.connections.get(self._base + shown.connection)
        if known is None:
            self._drop(shown)
            return
        exchange = self._exchanges.exchange(known, shown)
        try:
            self._exchanges.learn(known, exchange)
            self._rows.add(self._blocks.last + 1, exchange)
        except Exception:  # whatever the bytes hold, the other exchanges go on
            self._drop(shown)
            self._renew_rows()
            return
        if self._base:
            shown = msgspec.structs.replace(shown, connection=known.connection.number)
        known.last = self._blocks.append(shown)
        if self._rows.count >= ROWS:
            self._show()

    def _renew_rows(self) -> None:
        """Make the rows that are not shown yet anew, as a half-made row cannot be taken back.

        They are shown at once, so that none is made anew twice.
        """
        self._rows = LiveRows()
        for known in self._exchanges.connections.values():
            if known.is_open:
                self._rows.note(Event(known.connection, time.time_ns()))
        numbers = range(self.last + 1, self._blocks.last + 1)
        for number, shown in zip(numbers, self._blocks.some(numbers), strict=True):
            assert shown is not None  # none leaves before it was shown
            known = self._exchanges.connections[shown.connection]
            self._rows.add(number, self._exchanges.exchange(known, shown))
            if not known.is_open:
                self._rows.ended(known.connection.number, None, shown.at, None)
        self._show()

    def _note(self, seen: Seen) -> None:
        known = self._exchanges.connections.get(self._base + seen.connection)
        if known is None:
            return
        event: Event = Event(known.connection, seen.at)
        if seen.kind == Gap.__name__:
            event = Gap(known.connection, seen.at, size=seen.size, skipped=seen.skipped)
        elif seen.kind == BadFrame.__name__:
            event = BadFrame(known.connection, seen.at)
        elif seen.kind == NotKafka.__name__:
            event = NotKafka(known.connection, seen.at, kind=seen.foreign)
        self._rows.note(event)

    # Show

    def _show_when_due(self) -> None:
        self._files.close_replaced()
        now = time.monotonic()
        if not self._news and not (self._open_is_old and now >= self._open_at):
            return
        since = now - self._shown_at
        if since >= (SHOW_S if self._rows.count < FEW else MOST_SHOW_S):
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        is_due = now >= self._activity_at + ACTIVITY_S
        self._activity_at = now if is_due else self._activity_at
        part = self._rows.take(self.last + 1, with_activity=is_due)
        if part.batches:
            self._files.add(part)
        if now >= self._open_at:
            began = time.monotonic()
            self._files.replace("connections", self._rows.open_connections())
            self._open_at = began + (time.monotonic() - began) / OPEN_SHARE
            self._open_is_old = False
        else:
            self._open_is_old = True
        self.last = self._blocks.last
        self._kept.make_room()
        self._news, self._shown_at = False, time.monotonic()
        self._published()


def _size_of(shown: Shown) -> int:
    return sum(len(side.data) for side in (shown.request, shown.response) if side is not None) + 64
