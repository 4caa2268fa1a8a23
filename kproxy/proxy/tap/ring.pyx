"""The tap ring: a copy of the traffic of a worker, for another process. It never makes the worker wait.

In a memfd: a page of control words, each on a cache line of its own, then the bytes of the ring.

    word       meaning                                                                               written by
    head       bytes ever written                                                                    the writer
    requests_written, given_up: requests ever written, and how many of them a reader lost            the writer
    begun      the reader for which the writer writes now, and where in the ring its records begin   the writer
    tail       bytes ever read                                                                       the reader
    epoch      0 while no reader is attached, else the number of readers so far                      the reader
    readers    the number of readers so far                                                          the reader
    settled    what the reader has written for good, see TapReader.settle                            the reader
    awaited    the number of the next reader, for which the writer writes already                    the supervisor
    wake_at    the head at which the writer rings the doorbell, once                                 the reader

A record is a header of 32 bytes (size, kind and direction in one word; connection; time; of DATA, how many nanoseconds after that
all its frames had been sent on, 0 where that is not known, MADE_BY_PROXY where a filter has made them), its bytes, and padding to 8.
A record is in one piece: where it does not fit before the end of the ring, a word of kind TAP_SKIP is written there and the record
begins at the start. The writer stores head after the record (release), the reader loads it before (acquire), and vice versa for
tail.

A reader that waits says at which head it wants to be woken (``TapReader.rest``), as in virtio's event index. The write that reaches
it rings the doorbell, an eventfd; no other write makes a system call. Both sides store their word, then load the other's (a full
fence between them), so that either the reader sees the bytes or the writer rings.

The reader trusts no word of the ring: it loads each once and checks it against the size of its own mapping. After an impossible
value, which counts as a fault, it attaches again as a new reader.

``TapWriter.reserved`` is room that the writer has promised to later records (kproxy.proxy.forwarding.tap_cursor). ``has_room`` and
``room`` leave it free, and SLACK too, as a record that does not fit before the end of the ring wastes some bytes there.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from posix.unistd cimport write as write_file

from kproxy.proxy.tap.shared_memory cimport (
    full_fence, load_acquire, map_shared, store_release, touch_shared, unmap_shared,
)

import os
import sys

from kproxy.proxy.tap.sealed import create_sealed, sealed_size
from kproxy.proxy.tap.tapped import TapItem, TapKind

cdef int TAP_DATA = TapKind.DATA
cdef int LAST_KIND = max(TapKind)

cdef enum:
    TAP_SKIP = 0  # no TapKind: the ring goes on at its start, as the next record does not fit before its end
    PAGE = 4096
    HEAD = 0
    TAIL = 64
    EPOCH = 128
    READERS = 192
    REQUESTS_WRITTEN = 8
    GIVEN_UP = 16
    BEGUN = 24  # the reader, then the position
    SETTLED = 256  # which of the two that follow holds, then each: requests, file, size
    SETTLEMENT = 24
    AWAITED = 320
    WAKE_AT = 384
    SLACK = 128
    SMALLEST_PIECE = 40  # bytes before the end of the ring that a part of some data is written to
    RECORD = 32  # bytes of a record's header
    STORE_TAIL_EVERY = 65536  # bytes after which the reader stores its tail within a batch
    MOST_AT_ONCE = 524_288

cdef uint64_t LONGEST = (<uint64_t>1 << 48) - 1  # ns: three days

SMALLEST_RING = 65_536


def create_ring(size: int) -> int:
    """Make a memfd with a ring of *size* bytes, rounded up to a page. Raises ValueError below SMALLEST_RING, OSError."""
    if size < SMALLEST_RING:
        raise ValueError(f"a tap ring of {size} bytes is too small; at least {SMALLEST_RING}")
    return create_sealed("kproxy-tap", PAGE + -(-size // PAGE) * PAGE)


def detach_reader(fd: int) -> None:
    """Detach a reader that died from the ring *fd*, so that the writer stops writing."""
    cdef TapReader reader = TapReader(fd)
    reader.detach()


def reader_position(fd: int) -> int:
    """Return how many bytes of the ring *fd* were read or skipped so far, without mapping it."""
    return int.from_bytes(os.pread(fd, 8, TAIL), sys.byteorder)


def await_reader(fd: int) -> None:
    """Have the writer write for the next reader, which is being started, so that it misses nothing for which the ring has room.

    What the previous reader has not read is skipped. Call this only while no reader is attached, or after the reader died.
    """
    cdef TapReader reader = TapReader(fd)
    reader.await_next()


cdef uint64_t _capacity(int fd) except 0:
    cdef uint64_t size = sealed_size(fd)
    if size < PAGE + SMALLEST_RING or size % PAGE:
        raise ValueError(f"file descriptor {fd} holds no tap ring")
    return size - PAGE


cdef uint8_t* _map(int fd, uint64_t capacity) except NULL:
    cdef uint8_t* shared = <uint8_t*>map_shared(fd, capacity + PAGE)
    if shared == NULL:
        raise OSError("the tap ring cannot be mapped")
    touch_shared(shared, capacity + PAGE)
    return shared


cdef inline uint64_t* _settlement(uint8_t* shared) noexcept nogil:
    """Return requests, file and size as they were last settled."""
    return <uint64_t*>(shared + SETTLED + 8 + SETTLEMENT * (load_acquire(shared + SETTLED) & 1))


cdef inline uint64_t _number_after(uint64_t readers) noexcept nogil:
    """Return the number of the next reader; never 0, which means that no reader is attached."""
    return readers + 1 + (readers + 1 == 0)


cdef inline uint64_t _padded(uint64_t size) noexcept nogil:
    return (size + 7) & ~<uint64_t>7


cdef class TapWriter:
    """The worker's end of the ring in *fd*, which the caller closes. Continues where a writer before it ended.

    *doorbell*: an eventfd that does not block, on which it wakes the reader; -1: none.

    Raises ValueError for a file that holds no ring, OSError when it cannot be mapped.
    """

    def __cinit__(self, int fd, int doorbell=-1):
        self.shared = NULL
        self.fd = fd
        self.doorbell = doorbell
        self.capacity = _capacity(fd)
        self.shared = _map(fd, self.capacity)
        self.data = self.shared + PAGE
        self.head = _padded(load_acquire(self.shared + HEAD))
        self.tail = load_acquire(self.shared + TAIL)
        self.requests_written = <uint64_t*>(self.shared + REQUESTS_WRITTEN)

    def __dealloc__(self):
        if self.shared != NULL:
            unmap_shared(self.shared, self.capacity + PAGE)

    cdef uint64_t reader_epoch(self) noexcept nogil:
        """Return 0 while no reader is attached, else a number that differs for each; a new reader needs OPEN records."""
        return load_acquire(self.shared + EPOCH)

    cdef void ring_doorbell(self, uint64_t before) noexcept nogil:
        """Wake the reader if the head, which was *before*, has reached the place at which it wants that."""
        cdef uint64_t one = 1
        full_fence()
        if load_acquire(self.shared + WAKE_AT) - before - 1 < self.head - before:
            write_file(self.doorbell, &one, 8)  # refused only where the reader has not looked 2**64 times

    cdef void begin_for(self, uint64_t reader) noexcept nogil:
        """Mark where the records for *reader* begin; records before were for another."""
        store_release(self.shared + BEGUN + 8, self.head)
        store_release(self.shared + BEGUN, reader)

    cdef uint64_t room(self, uint64_t enough) noexcept nogil:
        """Return how many bytes are free beyond what is reserved. If they seem fewer than *enough*, load the tail again first."""
        cdef uint64_t kept = self.reserved + SLACK
        cdef uint64_t free = self.capacity - (self.head - self.tail)
        if free < kept + enough:
            self.tail = load_acquire(self.shared + TAIL)
            free = self.capacity - (self.head - self.tail)
        return free - kept if free > kept else 0

    cdef bint has_room(self, uint64_t size) noexcept nogil:
        """Return whether *size* bytes are free beyond what is reserved."""
        return self.room(size) >= size

    cdef uint64_t give_up_unsettled(self) noexcept nogil:
        """Give up the requests that the previous reader has not settled; return how many there are."""
        cdef uint64_t* given_up = <uint64_t*>(self.shared + GIVEN_UP)
        cdef uint64_t settled = _settlement(self.shared)[0] + given_up[0]
        cdef uint64_t lost = self.requests_written[0] - settled if self.requests_written[0] > settled else 0
        given_up[0] += lost
        return lost

    cdef int write(
        self, int kind, uint64_t connection, int direction, uint64_t at, uint64_t sent_after, const uint8_t* data, size_t size
    ) noexcept nogil:
        """Write one record. Return 0; -1 if it does not fit now, if no reader is attached, or if it is more than half the ring."""
        if size > self.capacity // 2 - RECORD:
            return -1
        return self._write(kind, connection, direction, at, sent_after, data, size)

    cdef int write_data(
        self, uint64_t connection, int direction, uint64_t at, uint64_t sent_after, const uint8_t* data, size_t size
    ) noexcept nogil:
        """Write bytes of a direction, as two records where they reach the end of the ring. Return 0; -1 if they do not fit."""
        cdef uint64_t until_end = self.capacity - self.head % self.capacity
        cdef uint64_t first = 0
        if SMALLEST_PIECE <= until_end < _padded(RECORD + <uint64_t>size):
            first = until_end - RECORD
            if self._write(TAP_DATA, connection, direction, at, sent_after, data, first) < 0:
                return -1
        return self._write(TAP_DATA, connection, direction, at, sent_after, data + first, size - first)

    cdef int _write(
        self, int kind, uint64_t connection, int direction, uint64_t at, uint64_t sent_after, const uint8_t* data, size_t size
    ) noexcept nogil:
        cdef uint64_t need = _padded(RECORD + <uint64_t>size)
        cdef uint64_t position = self.head % self.capacity
        cdef uint64_t skipped = self.capacity - position
        cdef uint64_t before = self.head
        cdef uint8_t* record
        if load_acquire(self.shared + EPOCH) == 0:
            return -1
        if skipped >= need:
            skipped = 0
        if self.head - self.tail + skipped + need > self.capacity:
            self.tail = load_acquire(self.shared + TAIL)
            if self.head - self.tail + skipped + need > self.capacity:
                return -1
        if skipped:
            (<uint64_t*>(self.data + position))[0] = TAP_SKIP
            self.head += skipped
            position = 0
        record = self.data + position
        (<uint64_t*>record)[0] = <uint64_t>size << 16 | <uint64_t>(direction & 0xFF) << 8 | <uint64_t>(kind & 0xFF)
        (<uint64_t*>record)[1] = connection
        (<uint64_t*>record)[2] = at
        (<uint64_t*>record)[3] = sent_after
        if size:  # without bytes *data* may be NULL
            memcpy(record + RECORD, data, size)
        self.head += need
        store_release(self.shared + HEAD, self.head)
        if self.doorbell >= 0:
            self.ring_doorbell(before)
        return 0

    def put(
        self, int kind, uint64_t connection, int direction, uint64_t at,
        const uint8_t[::1] data: bytes | bytearray | memoryview, int64_t sent_after=0,
    ) -> bool:
        """Write one record, as ``TapReader.read`` returns it; return whether it fitted."""
        cdef size_t size = data.shape[0]
        cdef uint64_t after = MADE_BY_PROXY if sent_after < 0 else sent_after
        return self.write(kind, connection, direction, at, after, &data[0] if size else NULL, size) == 0

    @property
    def requests(self) -> int:
        """Requests ever written, as the link taps count them."""
        return self.requests_written[0]

    @property
    def reserved_bytes(self) -> int:
        """Bytes promised to later records."""
        return self.reserved

    @property
    def epoch(self) -> int:
        """0 while no reader is attached, else a number that differs for each."""
        return self.reader_epoch()


cdef class TapReader:
    """The analyzer's end of the ring in *fd*; the caller closes it.

    *faults* counts impossible values found in the ring. Raises ValueError for a file that holds no ring, OSError if it cannot be
    mapped.
    """

    def __cinit__(self, int fd):
        self.shared = NULL
        self.fd = fd
        self.faults = 0
        self.capacity = _capacity(fd)
        self.shared = _map(fd, self.capacity)
        self.data = self.shared + PAGE
        self.tail = load_acquire(self.shared + TAIL)

    def __dealloc__(self):
        if self.shared != NULL:
            unmap_shared(self.shared, self.capacity + PAGE)

    def attach(self) -> int:
        """Become the reader; return the epoch. The writer then describes the open connections again.

        What is in the ring is skipped, unless it was written for this reader (``await_reader``).
        """
        cdef uint64_t readers = _number_after(load_acquire(self.shared + READERS))
        cdef uint64_t awaited = load_acquire(self.shared + AWAITED)
        if awaited == readers and load_acquire(self.shared + EPOCH) == awaited:
            store_release(self.shared + READERS, readers)
            self.tail = load_acquire(self.shared + TAIL)
        else:
            if awaited == readers:  # the writer may have begun for it, and would not notice that OPEN records are skipped
                readers = _number_after(readers)
            store_release(self.shared + READERS, readers)
            self.tail = load_acquire(self.shared + HEAD)
            store_release(self.shared + TAIL, self.tail)
            store_release(self.shared + EPOCH, readers)
        self.epoch = readers
        self.begun = False
        return readers

    cdef void await_next(self) noexcept:
        """See ``await_reader``."""
        cdef uint64_t next_reader = _number_after(load_acquire(self.shared + READERS))
        if load_acquire(self.shared + AWAITED) == next_reader:
            if load_acquire(self.shared + EPOCH) == next_reader:
                return  # the awaited reader died before it attached: what was written for it is kept for the next one
            store_release(self.shared + READERS, next_reader)
            next_reader = _number_after(next_reader)
        store_release(self.shared + TAIL, load_acquire(self.shared + HEAD))
        store_release(self.shared + AWAITED, next_reader)
        store_release(self.shared + EPOCH, next_reader)

    cdef void begin(self) noexcept:
        """Skip the records for the previous reader, once the writer has marked where those for this one begin."""
        cdef uint64_t position
        if load_acquire(self.shared + BEGUN) != self.epoch:
            return
        self.begun = True
        position = load_acquire(self.shared + BEGUN + 8)
        if position - self.tail <= load_acquire(self.shared + HEAD) - self.tail:
            self.tail = position

    def settle(self, uint64_t requests, uint64_t file=0, uint64_t size=0) -> None:
        """Note how many of the requests ever written are in the outputs for good, or were counted as lost there.

        *file* and *size*: inode and bytes of the log at that moment. A reader that takes over cuts the log off there.
        """
        cdef uint64_t which = (load_acquire(self.shared + SETTLED) & 1) ^ 1
        cdef uint64_t* settlement = <uint64_t*>(self.shared + SETTLED + 8 + SETTLEMENT * which)
        settlement[0] = requests
        settlement[1] = file
        settlement[2] = size
        store_release(self.shared + SETTLED, which)

    @property
    def settled(self) -> tuple[int, int, int]:
        """What this reader or an earlier one last gave to ``settle``: requests, file, size."""
        cdef uint64_t* settlement = _settlement(self.shared)
        return settlement[0], settlement[1], settlement[2]

    @property
    def given_up(self) -> int:
        """Requests ever written that earlier readers lost."""
        return load_acquire(self.shared + GIVEN_UP)

    def detach(self) -> None:
        """Stop being the reader: the writer stops writing."""
        store_release(self.shared + EPOCH, 0)

    @property
    def position(self) -> int:
        """Bytes read or skipped so far."""
        return self.tail

    @property
    def waiting(self) -> int:
        """Bytes written and not read yet."""
        return min(load_acquire(self.shared + HEAD) - self.tail, self.capacity)

    def rest(self, uint64_t enough) -> bool:
        """Have the writer ring its doorbell once *enough* bytes wait; return False if they do already."""
        store_release(self.shared + WAKE_AT, self.tail + enough)
        full_fence()
        return load_acquire(self.shared + HEAD) - self.tail < enough

    def read(self, most: int) -> list[TapItem]:
        """Return up to *most* records, as (kind, connection, direction, at, bytes, sent_after), in the order they were written.

        Fewer if they are large: about MOST_AT_ONCE bytes are copied at a time. The bytes of LOST are a number: 8 bytes, little-endian.
        *sent_after*, of DATA: ns after which its frames had been sent on; 0: not known; -1: the proxy has made them.
        """
        cdef list items = []
        cdef uint64_t head = load_acquire(self.shared + HEAD)
        cdef uint64_t stored = self.tail
        cdef uint64_t begun = self.tail
        cdef Py_ssize_t limit = most
        if not self.begun:
            self.begin()
            begun = self.tail
        while self.tail != head and len(items) < limit and self.tail - begun < MOST_AT_ONCE:
            if self._next(head, items) == 0:
                self.faults += 1
                self.attach()
                return items
            if self.tail - stored >= STORE_TAIL_EVERY:
                stored = self.tail
                store_release(self.shared + TAIL, stored)
        store_release(self.shared + TAIL, self.tail)
        return items

    cdef int _next(self, uint64_t head, list items) except -1:
        """Read one record, or skip the end of the ring. Return 0 for an impossible value."""
        cdef uint64_t written = head - self.tail
        cdef uint64_t position = self.tail % self.capacity
        cdef uint64_t room = self.capacity - position
        cdef uint64_t first, size, sent_after
        cdef const uint8_t* record = self.data + position
        if written > self.capacity or written % 8 or position % 8:
            return 0
        first = load_acquire(record)
        size = first >> 16
        if first & 0xFF == TAP_SKIP:
            if room > written:
                return 0
            self.tail += room
            return 1
        if room < RECORD or written < RECORD or size > min(room, written) - RECORD or first & 0xFF > <uint64_t>LAST_KIND:
            return 0
        sent_after = load_acquire(record + 24)
        items.append((
            <int>(first & 0xFF),
            load_acquire(record + 8),
            <int>(first >> 8 & 1),
            load_acquire(record + 16),
            PyBytes_FromStringAndSize(<const char*>record + RECORD, size),
            -1 if sent_after == MADE_BY_PROXY else <int64_t>(sent_after & LONGEST),
        ))
        self.tail += _padded(RECORD + size)
        return 1
