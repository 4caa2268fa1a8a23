"""The tap ring: a copy of what passes through a worker, for another process. It never makes the worker wait.

In a memfd: a page of control words, each on a cache line of its own, then the bytes of the ring.

    head    bytes ever written; the writer's
    tail    bytes ever read; the reader's
    epoch   0 while nobody reads; else how many readers there have been; the reader's
    readers how many there have been; the reader's

A record is a header of 24 bytes (size, kind and direction in one word; connection; time), its bytes, and padding to 8. It lies in
one piece: where the end of the ring has no room for it, a word of kind TAP_SKIP says so. The writer stores head after the record
(release), the reader loads it before (acquire), and the other way round with tail.

The reader believes nothing: it takes each word once and checks it against the size of the memory that it mapped. What cannot be is
a fault, after which it begins anew, as a new reader would.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from kproxy.proxy.tap.shared_memory cimport load_acquire, map_shared, store_release, touch_shared, unmap_shared

from kproxy.proxy.tap.sealed import create_sealed, sealed_size
from kproxy.proxy.tap.tapped import TapKind

cdef int TAP_LOST = TapKind.LOST
cdef int LAST_KIND = max(TapKind)

cdef enum:
    TAP_SKIP = 0  # no TapKind: the ring goes on at its start, as the next record does not fit before its end
    PAGE = 4096
    HEAD = 0
    TAIL = 64
    EPOCH = 128
    READERS = 192
    RECORD = 24  # bytes of a record's header
    TELL_EVERY = 65536  # bytes: how often the reader says in the midst of a batch how far it is
    MOST_AT_ONCE = 524_288

SMALLEST_RING = 65_536


def create_ring(size):
    """A memfd with a ring of *size* bytes, made a multiple of a page. Raises ValueError below SMALLEST_RING, OSError."""
    if size < SMALLEST_RING:
        raise ValueError(f"a tap ring of {size} bytes is too small; at least {SMALLEST_RING}")
    return create_sealed("kproxy-tap", PAGE + -(-size // PAGE) * PAGE)


def detach_reader(fd):
    """Say for a reader that died that nobody reads the ring *fd* any more."""
    cdef TapReader reader = TapReader(fd)
    reader.detach()


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


cdef inline uint64_t _padded(uint64_t size) noexcept nogil:
    return (size + 7) & ~<uint64_t>7


cdef class TapWriter:
    """The worker's end of the ring in *fd*, which stays the caller's. Goes on where a writer before it ended.

    Raises ValueError for a file that holds no ring, OSError when it cannot be mapped.
    """

    def __cinit__(self, int fd):
        self.shared = NULL
        self.fd = fd
        self.capacity = _capacity(fd)
        self.shared = _map(fd, self.capacity)
        self.data = self.shared + PAGE
        self.head = _padded(load_acquire(self.shared + HEAD))
        self.tail = load_acquire(self.shared + TAIL)

    def __dealloc__(self):
        if self.shared != NULL:
            unmap_shared(self.shared, self.capacity + PAGE)

    cdef uint64_t reader_epoch(self) noexcept nogil:
        """0 while nobody reads; another number for each reader, which must be told what is open."""
        return load_acquire(self.shared + EPOCH)

    cdef int write(
        self, int kind, uint64_t connection, int direction, uint64_t at, const uint8_t* data, size_t size
    ) noexcept nogil:
        """Write one record. 0, or -1 where there is no room or nobody reads, or where it is more than half the ring."""
        cdef uint64_t need = _padded(RECORD + <uint64_t>size)
        cdef uint64_t position = self.head % self.capacity
        cdef uint64_t skipped = self.capacity - position
        cdef uint8_t* record
        if size > self.capacity // 2 - RECORD or load_acquire(self.shared + EPOCH) == 0:
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
        if size:  # without bytes there may be no address either
            memcpy(record + RECORD, data, size)
        self.head += need
        store_release(self.shared + HEAD, self.head)
        return 0

    cdef int write_lost(self, uint64_t connection, int direction, uint64_t at, uint64_t size) noexcept nogil:
        """Write that *size* bytes of a direction did not fit."""
        return self.write(TAP_LOST, connection, direction, at, <const uint8_t*>&size, sizeof(size))

    def put(self, int kind, uint64_t connection, int direction, uint64_t at, const uint8_t[::1] data):
        """As write. Returns whether there was room."""
        cdef size_t size = data.shape[0]
        return self.write(kind, connection, direction, at, &data[0] if size else NULL, size) == 0

    def put_lost(self, uint64_t connection, int direction, uint64_t at, uint64_t size):
        """As write_lost. Returns whether there was room."""
        return self.write_lost(connection, direction, at, size) == 0

    @property
    def epoch(self):
        """As reader_epoch."""
        return self.reader_epoch()


cdef class TapReader:
    """The analyzer's end of the ring in *fd*, which stays the caller's.

    *faults* counts how often the ring held what cannot be. Raises ValueError for a file that holds no ring, OSError when it
    cannot be mapped.
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

    def attach(self):
        """Become the reader: pass over what is in the ring and have the writer tell what is open. Returns the epoch."""
        cdef uint64_t readers = load_acquire(self.shared + READERS) + 1
        readers += readers == 0  # 0 would say that nobody reads
        self.tail = load_acquire(self.shared + HEAD)
        store_release(self.shared + TAIL, self.tail)
        store_release(self.shared + READERS, readers)
        store_release(self.shared + EPOCH, readers)
        return readers

    def detach(self):
        """Say that nobody reads any more: the writer need not write."""
        store_release(self.shared + EPOCH, 0)

    @property
    def position(self):
        """Bytes of the ring that are read or passed over, ever."""
        return self.tail

    @property
    def waiting(self):
        """Bytes that are written and not read yet."""
        return min(load_acquire(self.shared + HEAD) - self.tail, self.capacity)

    def read(self, most):
        """Up to *most* records, as (kind, connection, direction, at, bytes), in the order in which they were written.

        Fewer, where they are big: about MOST_AT_ONCE bytes are copied out at a time.

        Direction is 0 for client to broker and 1 for broker to client. Bytes of LOST are their number as 8 bytes little-endian.
        """
        cdef list items = []
        cdef uint64_t head = load_acquire(self.shared + HEAD)
        cdef uint64_t told = self.tail
        cdef uint64_t begun = self.tail
        cdef Py_ssize_t limit = most
        while self.tail != head and len(items) < limit and self.tail - begun < MOST_AT_ONCE:
            if self._next(head, items) == 0:
                self.faults += 1
                self.attach()
                return items
            if self.tail - told >= TELL_EVERY:
                told = self.tail
                store_release(self.shared + TAIL, told)
        store_release(self.shared + TAIL, self.tail)
        return items

    cdef int _next(self, uint64_t head, list items) except -1:
        """Read one record, or pass over the end of the ring. 0: there is neither."""
        cdef uint64_t written = head - self.tail
        cdef uint64_t position = self.tail % self.capacity
        cdef uint64_t room = self.capacity - position
        cdef uint64_t first, size
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
        items.append((
            <int>(first & 0xFF),
            load_acquire(record + 8),
            <int>(first >> 8 & 1),
            load_acquire(record + 16),
            PyBytes_FromStringAndSize(<const char*>record + RECORD, size),
        ))
        self.tail += _padded(RECORD + size)
        return 1
