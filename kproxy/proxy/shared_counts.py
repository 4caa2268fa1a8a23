"""SharedCounts: numbers that the filters of all workers count together, in one memfd that supervisor and workers map.

    the file    slots of SLOT bytes, used from the first on: the count (8 bytes), the size of the key (8 bytes), the key
    the key     cluster, filter, event and name, as a JSON list; or of a memory: NUL and a hash of its name. Its bytes follow

    behind it   the table of SharedTimes, with locks of its own

A process that adds has a lock of all slots (fcntl(2)); the kernel releases it when the process dies. That takes some
microseconds, which is enough for what is counted: not each frame, but each that a filter was told to look for. A slot is never
given back: a count outlives the reload and the worker.
"""

import fcntl
import hashlib
import mmap
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packing

import msgspec

from kproxy.errors import UsageError
from kproxy.proxy.shared_times import TABLE_SIZE, SharedTimes
from kproxy.proxy.tap.sealed import create_sealed, sealed_size

SLOT = 1_024  # bytes
SLOTS = 4_096
TIMES_START = SLOT * SLOTS
SIZE = TIMES_START + TABLE_SIZE
HEAD = Packing("=QQ")
MEMORY = b"\0"
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

    Raises ValueError for a file that is none, OSError if it cannot be mapped.
    """

    def __init__(self, fd: int) -> None:
        if sealed_size(fd) != SIZE:
            raise ValueError(f"file descriptor {fd} holds no counts: its size is not {SIZE}")
        self.fd = fd
        self._memory = mmap.mmap(fd, TIMES_START)
        self._found: dict[bytes, int] = {}  # key -> slot

    @classmethod
    def create(cls) -> "SharedCounts":
        """Make one without counts, in a new memfd: closed on exec unless inherited explicitly, and with the object."""
        made = cls(create_sealed("kproxy-counts", SIZE))
        weakref.finalize(made, os.close, made.fd)
        return made

    def count(self, cluster: str, filter_name: str, event: str, name: str) -> "Count":
        """The count of that name. Raises UsageError when there is no room for it."""
        key = msgspec.json.encode((cluster, filter_name, event, name))
        if len(key) > SLOT - HEAD.size:
            raise UsageError(f"the name of what {filter_name} counts is too long: {len(key)} bytes")
        with self._locked():
            slot = self._slot(key)
        if slot is None:
            raise UsageError(f"filters count more than {SLOTS:,} things: start kproxy anew")
        return Count(self, slot)

    def times(self, prefix: str) -> SharedTimes:
        """The times of names with that prefix."""
        return SharedTimes(self.fd, TIMES_START, prefix)

    def rows(self) -> list[FilterCount]:
        """All counts."""
        with self._locked():
            slots = list(self._used())
        counts = [(n, key) for _, n, key in slots if not key.startswith(MEMORY)]
        return [FilterCount(*msgspec.json.decode(key, type=tuple[str, str, str, str]), n) for n, key in counts]

    def memory(self, name: str) -> "KeptBytes":
        """Bytes of that name, which one process at a time writes. Raises UsageError when there is no room for them."""
        key = MEMORY + hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
        with self._locked():
            slot = self._slot(key)
        if slot is None:
            raise UsageError(f"filters count more than {SLOTS:,} things: start kproxy anew")
        start = HEAD.size + len(key)
        return KeptBytes(self.fd, slot * SLOT + start, SLOT - start)

    def add(self, slot: int, amount: int) -> int:
        """Add to the count in a slot; return the sum."""
        with self._locked():
            count, size = HEAD.unpack_from(self._memory, slot * SLOT)
            # pack_into would write zeros first, which stay if this process is killed then
            self._memory[slot * SLOT : slot * SLOT + HEAD.size] = HEAD.pack(count + amount, size)
        return int(count + amount)

    def _slot(self, key: bytes) -> int | None:
        """The slot of a key, taken now if it has none; None: all are taken."""
        if key not in self._found:
            self._found |= {used: slot for slot, _, used in self._used()}
        if key not in self._found:
            slot = len(self._found)
            if slot == SLOTS:
                return None
            HEAD.pack_into(self._memory, slot * SLOT, 0, len(key))
            start = slot * SLOT + HEAD.size
            self._memory[start : start + len(key)] = key
            self._found[key] = slot
        return self._found[key]

    def _used(self) -> Iterator[tuple[int, int, bytes]]:
        """Slot, count and key of each slot that is taken."""
        for slot in range(SLOTS):
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
        """The number now."""
        return self._counts.add(self._slot, 0)

    def add(self, amount: int = 1) -> int:
        """Add to it, and return the sum."""
        return self._counts.add(self._slot, amount)


class KeptBytes:
    """Bytes in the file, which a process writes for the one that is started after it."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self._fd = fd
        self._offset = offset
        self._size = size

    def read(self) -> bytes:
        """What was written last; zeros at first."""
        return os.pread(self._fd, self._size, self._offset)

    def write(self, data: bytes) -> None:
        """Write *data*, at most some hundred bytes, in one step: a kill does not cut pwrite(2) in two, as it may a copy."""
        os.pwrite(self._fd, data, self._offset)
