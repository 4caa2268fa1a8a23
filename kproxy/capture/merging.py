"""Read several capture files as one: MergedCapture gives their packets in the order of their times.

    files = [begin_of(path) for path in paths]        reads each file up to its first packet
    with MergedCapture(files) as capture:             is read as a Capture is
        for item in read_flows(capture): ...

Files that do not overlap in time are read one after the other. A file is begun when the packets before it reach the time of its
first packet, and files that overlap are merged, each in its own order. So a connection goes on from file to file, a missing file
is a gap of the connections that it cuts, and what several files have of a connection (both sides, a mirror port) counts once,
as retransmissions do in one file. A packet that another file has too, with the same bytes at the same time, is passed over.

A clock that was set back makes the rotated files of one host overlap. Their names (ROTATED) have numbers, so each of them is read
to its end before the one with the next number is begun, unless that one is from another host, or an earlier capture.

Memory and descriptors are bounded for any number of files: a file is open only while it is being read, and the buffers of files
that overlap share MOST_BUFFERED bytes, with SMALLEST_BUFFER for each at least.
"""

import heapq
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from kproxy.capture.items import Packet
from kproxy.capture.reader import (
    BUFFER_SIZE,
    Capture,
    ClosedOnExit,
    PacketRun,
    name_of,
    open_capture,
    open_raw,
    see_through,
)
from kproxy.capture.reassembly import Flows
from kproxy.capture.scanners import PacketBatch
from kproxy.errors import CaptureError

MOST_BUFFERED = 64 << 20
SMALLEST_BUFFER = 64 << 10
NEVER = (1 << 63) - 1  # ns: after all packets
NO_PACKETS = -(1 << 63)  # the time of a file without packets, which may still have secrets of TLS
# x_00007_20261121093000.pcapng of dumpcap and editcap, x.pcap7 of tcpdump, where x.pcap is the first, x.000007.pcapng of kproxy
ROTATED = re.compile(r"(.*)_(\d{5})_\d{14}(?:\..*)?|(.*\.)(\d{6})\.pcapng(?:\.\w+)?|(.*\.p?cap)(\d*)(?:\.\w+)?")
TURNS = 64  # turns back to an earlier file, after which the files overlap, and their clocks may differ


class CaptureFile(Struct, frozen=True, order=True):
    """A capture file, as far as its first packet: when that was, and the TLS secrets before it."""

    first_ns: int
    path: Path
    secrets: tuple[tuple[int, bytes], ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.first_ns == NO_PACKETS


def begin_of(path: Path, capture: Capture) -> CaptureFile:
    """Read an open capture up to its first packet."""
    first = next((batch.time_at(0) for batch in capture.batches()), NO_PACKETS)
    return CaptureFile(first, path, tuple(capture.secrets))


def successors(files: Sequence[CaptureFile]) -> dict[int, int]:
    """Return, for the index of each rotated file, the index of the file that was written after it.

    The numbers in the names tell. Files of which two have the same number are left out: their times give the order.
    """
    series: dict[tuple[Path, str], list[tuple[int, int]]] = {}
    for index, file in enumerate(files):
        if not file.is_empty and (match := ROTATED.fullmatch(file.path.name)):
            stem, number = (part for part in match.groups() if part is not None)
            series.setdefault((file.path.parent, stem), []).append((int(number or 0), index))
    found, later = {}, set()
    for members in filter(_have_numbers_once, series.values()):
        began = 0  # when the first of consecutive files did
        for (number, index), (following, after) in pairwise(sorted(members)):
            began, first = began if index in later else files[index].first_ns, files[after].first_ns
            if following == number + 1 and (first >= began or first >= _end_of(files[index])):
                found[index] = after
                later.add(after)
    return found


def _have_numbers_once(members: list[tuple[int, int]]) -> bool:
    return len({number for number, _ in members}) == len(members)


def _end_of(file: CaptureFile) -> int:
    """Return the time of the last packet."""
    last = NEVER
    with suppress(CaptureError), open_capture(file.path) as capture:
        for batch in capture.batches():
            last = batch.time_at(batch.count - 1)
    return last


class ReopenedFile:
    """A file as a RawFile that is open only while it is read."""

    def __init__(self, path: Path) -> None:
        self.position = 0
        self._path = path
        self._identity: tuple[int, int] | None = None

    def readinto(self, buffer: memoryview, /) -> int | None:
        """See RawFile. Raises CaptureError if another file has its name by now."""
        with open_raw(self._path) as file:
            state = os.fstat(file.fileno())
            identity = state.st_dev, state.st_ino
            if self._identity not in (None, identity):
                raise CaptureError(f"{self._path}: it was replaced by another file while it was being read")
            self._identity = identity
            file.seek(self.position)
            count = file.readinto(buffer)
        self.position += count or 0
        return count

    def close(self) -> None:
        pass


class _Reading:
    """A file that is being read, and its place in the merge: the packet at *index* of the batch is next."""

    def __init__(self, file: CaptureFile, buffer_size: int) -> None:
        self.raw = ReopenedFile(file.path)
        self.capture = Capture(see_through(self.raw, name_of(file.path)), name_of(file.path), buffer_size)
        self.batch = PacketBatch(1)
        self.index = 0
        self.packets = self.passed_over = 0
        self._batches = self.capture.batches()
        self._known = len(file.secrets)

    def has_more(self) -> bool:
        """Go on to the next batch if this one has no packet left; return whether there is a packet."""
        while self.index >= self.batch.count:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self.batch, self.index = batch, 0
        return True

    def fresh_secrets(self) -> list[tuple[int, bytes]]:
        """Return the secrets that were read since the last call."""
        known, self._known = self._known, len(self.capture.secrets)
        return self.capture.secrets[known:]


class MergedCapture(ClosedOnExit):
    """Several capture files that are read as one Capture; iterate once. *files*: in any order.

    Damage ends the file that has it; ``damages`` has a sentence for each.
    ``notes`` has one if files have only packets that other files have, too.
    """

    def __init__(self, files: Sequence[CaptureFile]) -> None:
        self.name = str(next((file for file in files if not file.is_empty), files[0]).path)
        self.damages: list[str] = []
        self._copies: list[str] = []  # files without packets of their own
        self.flows: Flows | None = None
        self.secrets = [secret for file in files for secret in file.secrets]
        self._files = sorted(files)
        self._next = successors(self._files)
        self._ends: dict[int, int] = {}  # place of a file that was looked at -> the time of its last packet
        self._set_back: set[int] = set()
        later = set(self._next.values())
        self._waiting = deque(entry for entry in enumerate(self._files) if entry[0] not in later)
        self._reading: list[
            tuple[int, int, _Reading]
        ] = []  # a heap: the time of its next packet, its place in the order
        self._read = [0, 0]  # bytes of the files that were read to their end: after decompression, and before
        self._stopped = False
        self._latest = 0  # the place of the file that had the last turn
        self._turns_back = 0
        self._seen_at = NO_PACKETS
        self._seen: set[bytes] = set()  # packets with this time

    @property
    def notes(self) -> list[str]:
        more = f" and {len(self._copies) - 1:,} more" if len(self._copies) > 1 else ""
        return [f"all packets of {name}{more} are in other files, too: they count once" for name in self._copies[:1]]

    @property
    def position(self) -> int:
        """Bytes read so far, after decompression."""
        return self._read[0] + sum(one.capture.position for _, _, one in self._reading)

    @property
    def file_position(self) -> int:
        """Bytes read so far, as they are in the files."""
        return self._read[1] + sum(one.raw.position for _, _, one in self._reading)

    def runs(self) -> Iterator[PacketRun]:
        reading = self._reading
        while not self._stopped:
            self._begin_due()
            if not reading:
                break
            _, place, one = reading[0]
            until, other = min((entry[:2] for entry in reading[1:3]), default=(NEVER, NEVER))  # the second of a heap
            if self._waiting:
                until, other = min((until, other), (self._waiting[0][1].first_ns, self._waiting[0][0]))
            after = self._next.get(place)
            if after is not None and place not in self._set_back:
                begins = self._files[after].first_ns
                if one.batch.time_at(one.index) > begins:
                    self._look_at_overlap(place, after)
                    continue
                until, other = min((until, other), (begins, after))
            stop = max(one.batch.first_after(one.index, until - (other < place)), one.index + 1)
            for run in self._without_seen(one, stop):
                self._note_turn(place)  # not for packets that are passed over: those of a copy are in no disorder
                yield run
            self._note_seen(one, stop, until)
            one.packets += stop - one.index
            one.index = stop
            more = one.has_more()
            self.secrets += one.fresh_secrets()
            if more:
                heapq.heapreplace(reading, (one.batch.time_at(one.index), place, one))
            else:
                heapq.heappop(reading)
                self._end(one)
                self._begin_next(place)

    def __iter__(self) -> Iterator[Packet]:
        for batch, first, stop in self.runs():
            yield from (batch.packet(index) for index in range(first, stop))

    def stop(self) -> None:
        """Read no further, as Capture.stop."""
        self._stopped = True
        for _, _, one in self._reading:
            one.capture.stop()

    def close(self) -> None:
        while self._reading:
            self._reading.pop()[2].capture.close()

    def _begin_due(self) -> None:
        """Begin to read the files whose first packets are due."""
        while self._waiting and (not self._reading or self._waiting[0][1].first_ns < self._reading[0][0]):
            place, file = self._waiting.popleft()
            if not self._begin(place, file):
                self._begin_next(place)

    def _look_at_overlap(self, place: int, after: int) -> None:
        """Find out whether the clock was set back, or another host wrote *after*; it begins before the end of *place*."""
        one, other = self._files[place], self._files[after]
        for each in (place, after):
            if each not in self._ends:
                self._ends[each] = _end_of(self._files[each])
        if other.first_ns >= self._ends[place] or self._ends[after] < one.first_ns:
            self._set_back.add(place)
        else:
            del self._next[place]
            self._waiting.appendleft((after, other))

    def _begin_next(self, place: int) -> None:
        """Begin to read the file that was written after the one at a place; if it has no packets, the next one."""
        while (after := self._next.get(place)) is not None and not self._begin(after, self._files[after]):
            place = after

    def _begin(self, place: int, file: CaptureFile) -> bool:
        """Begin to read a file; return whether there is a packet."""
        size = max(SMALLEST_BUFFER, min(BUFFER_SIZE, MOST_BUFFERED // (len(self._reading) + 1)))
        try:
            one = _Reading(file, size)
        except CaptureError as error:  # it is gone, or another file has its name
            self.damages.append(str(error))
            return False
        if not one.has_more():
            self._end(one)
            return False
        heapq.heappush(self._reading, (one.batch.time_at(one.index), place, one))
        self.secrets += one.fresh_secrets()
        return True

    def _end(self, one: _Reading) -> None:
        self.damages += one.capture.damages
        if one.packets and one.passed_over == one.packets:
            self._copies.append(one.capture.name)
        self._read[0] += one.capture.position
        self._read[1] += one.raw.position
        one.capture.close()

    def _note_turn(self, place: int) -> None:
        if self.flows is None:
            return
        self._turns_back += place < self._latest
        self._latest = place
        if self._turns_back == TURNS:
            self.flows.expect_disorder()

    def _note_seen(self, one: _Reading, stop: int, until: int) -> None:
        """Remember the packets of a run that have the time at which another file goes on."""
        index = stop
        while index > one.index and one.batch.time_at(index - 1) == until:
            index -= 1
            if until != self._seen_at:
                self._seen_at, self._seen = until, set()
            self._seen.add(one.batch.bytes_at(index))

    def _without_seen(self, one: _Reading, stop: int) -> Iterator[PacketRun]:
        """Yield a run without the packets that other files had at the same time."""
        first = index = one.index
        while index < stop and one.batch.time_at(index) == self._seen_at:
            if one.batch.bytes_at(index) in self._seen:
                if first < index:
                    yield one.batch, first, index
                first = index + 1
                one.passed_over += 1
            index += 1
        if first < stop:
            yield one.batch, first, stop
