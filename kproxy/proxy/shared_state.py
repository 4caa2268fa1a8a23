"""What the filters of all workers share: counts, times and kept bytes in one memfd, sets by messages.

The supervisor and the workers map the file (SharedCounts). It has two parts, each with its own locks (fcntl(2); the kernel
releases them when a process dies):

    counts   SLOTS slots of SLOT bytes, used from the first on: the count (8 bytes), the size of the key (8 bytes), the key.
             The key is the cluster, filter, event and name as a JSON list. A slot is never freed: a count outlives reloads
             and workers. ``memory`` keeps bytes in a slot too; its key is NUL and a hash of the memory's name
    times    GROUPS groups of WAYS places of 32 bytes (SharedTimes). A name is in the group that its digest selects: BLAKE2b
             of the name (16 bytes), its time (8 bytes, seconds of CLOCK_MONOTONIC as a double), 8 unused bytes

Taking a lock costs some microseconds, which is enough here: filters count what they look for, not every frame.
Counters that every frame changes are in kproxy.proxy.tap.counters.

Sets of names (SharedSets; filters/contract.py, SharedSet): a worker sends what its filters add to the supervisor
(messages.Learned). The supervisor keeps it (LearnedSets) and passes it on to the other workers, also to those that start
later. So another worker knows a name milliseconds later, not at once.
"""

import asyncio
import fcntl
import hashlib
import mmap
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from struct import Struct as Packing

import msgspec

from kproxy.errors import UsageError
from kproxy.filters.bounded_set import BoundedSet
from kproxy.proxy.messages import Learned, Message
from kproxy.proxy.tap.sealed import create_sealed, sealed_size

SLOT = 1_024  # bytes
SLOTS = 4_096
HEAD = Packing("=QQ")
MEMORY = b"\0"
DIGEST_SIZE = 16
NO_DIGEST = bytes(DIGEST_SIZE)
PLACE = Packing("=16sdQ")
WAYS = 8
GROUPS = 1 << 15
TABLE_SIZE = PLACE.size * WAYS * GROUPS  # 8 MiB; pages cost memory only once they are used
TIMES_START = SLOT * SLOTS
SIZE = TIMES_START + TABLE_SIZE
# Events that every filter has: how long it took, how often it was called, and its faults by hook and kind
SPENT_NS, CALLS, FAULTS = OF_EVERY_FILTER = ("spent_ns", "handed_over", "filter_faults")


class FilterCount(msgspec.Struct, frozen=True):
    """One count, as /filters shows it."""

    cluster: str
    filter: str
    event: str
    name: str
    count: int


class SharedCounts:
    """The counts in a memfd made by ``create``, in any process that has its *fd*.

    Raises ValueError for a file that holds no counts, OSError if it cannot be mapped.
    """

    def __init__(self, fd: int) -> None:
        if sealed_size(fd) != SIZE:
            raise ValueError(f"file descriptor {fd} holds no counts: its size is not {SIZE}")
        self.fd = fd
        self._memory = mmap.mmap(fd, TIMES_START)
        self._slots: dict[bytes, int] = {}  # by key, as far as this process has looked

    @classmethod
    def create(cls) -> "SharedCounts":
        """Make one without counts, in a new memfd: closed on exec unless inherited explicitly, and with the object."""
        made = cls(create_sealed("kproxy-counts", SIZE))
        weakref.finalize(made, os.close, made.fd)
        return made

    def count(self, cluster: str, filter_name: str, event: str, name: str) -> "Count":
        """Return the count of that name. Raises UsageError when there is no room for it."""
        key = msgspec.json.encode((cluster, filter_name, event, name))
        if len(key) > SLOT - HEAD.size:
            raise UsageError(f"the name of what {filter_name} counts is too long: {len(key)} bytes")
        return Count(self, self._slot(key))

    def times(self, prefix: str) -> "SharedTimes":
        return SharedTimes(self.fd, TIMES_START, prefix)

    def rows(self) -> list[FilterCount]:
        with self._locked():
            slots = list(self._used())
        counts = [(n, key) for _, n, key in slots if not key.startswith(MEMORY)]
        return [FilterCount(*msgspec.json.decode(key, type=tuple[str, str, str, str]), n) for n, key in counts]

    def memory(self, name: str) -> "KeptBytes":
        """Return the bytes of that name, which one process at a time writes. Raises UsageError when there is no room."""
        key = MEMORY + hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
        start = HEAD.size + len(key)
        return KeptBytes(self.fd, self._slot(key) * SLOT + start, SLOT - start)

    def add(self, slot: int, amount: int) -> int:
        """Add to the count in a slot; return the sum."""
        with self._locked():
            count, size = HEAD.unpack_from(self._memory, slot * SLOT)
            # pack_into would write zeros first, which stay if this process is killed then
            self._memory[slot * SLOT : slot * SLOT + HEAD.size] = HEAD.pack(count + amount, size)
        return int(count + amount)

    def _slot(self, key: bytes) -> int:
        """Return the slot of a key, taking one if the key has none. Raises UsageError when all are taken."""
        with self._locked():
            if key not in self._slots:
                self._slots |= {used: slot for slot, _, used in self._used(len(self._slots))}
            if key not in self._slots:
                slot = len(self._slots)
                if slot == SLOTS:
                    raise UsageError(f"filters count more than {SLOTS:,} things: start kproxy anew")
                HEAD.pack_into(self._memory, slot * SLOT, 0, len(key))
                start = slot * SLOT + HEAD.size
                self._memory[start : start + len(key)] = key
                self._slots[key] = slot
        return self._slots[key]

    def _used(self, first: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """Yield slot, count and key of each slot that is taken, from the first one given."""
        for slot in range(first, SLOTS):
            count, size = HEAD.unpack_from(self._memory, slot * SLOT)
            if not size:
                return
            start = slot * SLOT + HEAD.size
            yield slot, int(count), self._memory[start : start + size]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self.fd, fcntl.LOCK_EX, TIMES_START)
        try:
            yield
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, TIMES_START)


class Count:
    """One count: a SharedCount of filters/contract.py."""

    def __init__(self, counts: SharedCounts, slot: int) -> None:
        self._counts = counts
        self._slot = slot

    @property
    def value(self) -> int:
        return self._counts.add(self._slot, 0)

    def add(self, amount: int = 1) -> int:
        return self._counts.add(self._slot, amount)


class KeptBytes:
    """Bytes that a process leaves for the one that is started after it."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self._fd = fd
        self._offset = offset
        self._size = size

    def read(self) -> bytes:
        return os.pread(self._fd, self._size, self._offset)

    def write(self, data: bytes) -> None:
        """Write *data*, at most some hundred bytes, in one step: a kill does not cut pwrite(2) in two, as it may a copy."""
        os.pwrite(self._fd, data, self._offset)


class SharedTimes:
    """A time for each of many names, which all workers advance together: the next time at which a client is within its rate.

    Args:
        fd: a file of at least *start* + TABLE_SIZE bytes, which begin as zeros.
        start: where the table begins, a multiple of the page size.
        prefix: put before each name.
    """

    def __init__(self, fd: int, start: int, prefix: str) -> None:
        self._fd = fd
        self._start = start
        self._memory = mmap.mmap(fd, TABLE_SIZE, offset=start)
        self._prefix = prefix.encode("utf-8", "surrogatepass")

    def move_on(self, name: str, seconds: float, now: float) -> float:
        """Add *seconds* to the time of a name, or to *now* if that is later; return the sum.

        Where the group of the name is full, the name with the earliest time is forgotten: a time in the past has no effect.
        """
        digest = blake2b(self._prefix + b"\0" + name.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).digest()
        size = PLACE.size * WAYS
        at = int.from_bytes(digest[:4], "little") % GROUPS * size
        fcntl.lockf(self._fd, fcntl.LOCK_EX, size, self._start + at, os.SEEK_SET)
        try:
            places = [(*PLACE.unpack_from(self._memory, at + way * PLACE.size), way) for way in range(WAYS)]
            own = next((place for place in places if place[0] == digest), None)
            time = max(now, own[1] if own is not None else now) + seconds
            way = own[-1] if own is not None else min(places, key=lambda place: (place[0] != NO_DIGEST, place[1]))[-1]
            # pack_into would write zeros first, which stay if this process is killed then
            begin = at + way * PLACE.size
            self._memory[begin : begin + PLACE.size] = PLACE.pack(digest, time, 0)
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, size, self._start + at, os.SEEK_SET)
        return time


VALUES_A_MESSAGE = 500  # of the longest, in four bytes a character, so many fit a line of the channel


class SharedSets:
    """The sets of one virtual cluster in one worker, by name.

    Args:
        cluster: its name.
        send: sends a message to the supervisor.
    """

    def __init__(self, cluster: str, send: Callable[[Message], None]) -> None:
        self._cluster = cluster
        self._send = send
        self._sets: dict[str, BoundedSet] = {}
        self._unsent: dict[str, list[str]] = {}

    def named(self, name: str) -> BoundedSet:
        shared = self._sets.get(name)
        if shared is None:
            shared = self._sets[name] = BoundedSet(on_new=lambda value: self._queue(name, value))
        return shared

    def receive(self, name: str, values: Iterable[str]) -> None:
        self.named(name).receive(values)

    def _queue(self, name: str, value: str) -> None:
        """Send a value, together with all others of this turn of the loop."""

        def flush() -> None:
            unsent, self._unsent = self._unsent, {}
            for unsent_name, values in unsent.items():
                for message in in_parts(self._cluster, unsent_name, values):
                    self._send(message)

        if not self._unsent:
            asyncio.get_running_loop().call_soon(flush)
        self._unsent.setdefault(name, []).append(value)


class LearnedSets:
    """The shared sets of all clusters, which the supervisor keeps for workers that start later."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], BoundedSet] = {}

    def receive(self, message: Learned) -> None:
        self._sets.setdefault((message.cluster, message.name), BoundedSet()).receive(message.values)

    def messages(self) -> Iterator[Learned]:
        for (cluster, name), values in list(self._sets.items()):
            yield from in_parts(cluster, name, list(values))

    def forget_all_but(self, clusters: Iterable[str]) -> None:
        kept = set(clusters)
        self._sets = {key: values for key, values in self._sets.items() if key[0] in kept}


def in_parts(cluster: str, name: str, values: list[str]) -> Iterator[Learned]:
    """Yield messages with these values, as many in each as fit."""
    for start in range(0, len(values), VALUES_A_MESSAGE):
        yield Learned(cluster, name, values[start : start + VALUES_A_MESSAGE])
