# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Write records into the buffers of Arrow arrays: keys, values and headers as views (BinaryView) into the batch's bytes.

A view is 16 bytes: size int32, then either up to 12 bytes of data, or the first 4 bytes, a buffer number and an offset in it.
Buffer 0 is the records field; every compressed batch adds its decompressed bytes as a buffer.
"""

from cpython.buffer cimport Py_buffer, PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from kproxy.protocol.records.batches cimport Batch, OpenBatch
from kproxy.protocol.records.shape cimport (
    begin_plain, codec_of, HeaderShape, LEAST_MESSAGE, LEAST_RECORD, next_record, read_header, RecordShape, Walker,
    whole_batch,
)  # fmt: skip
from kproxy.protocol.wire cimport Cursor

cdef enum:
    LEAST_CAPACITY = 64
    INLINE = 12  # bytes of data that a view can hold
    LONGEST = 0x7FFFFFFF  # an offset in a view is an int32


cdef struct View:
    int32_t size
    uint32_t a
    uint32_t b
    uint32_t c


cdef class Column:
    """The memory of one Arrow buffer; it must not grow once a reader has its address."""

    cdef uint8_t *data
    cdef size_t size  # bytes in use
    cdef size_t capacity

    def __cinit__(self):
        self.data = <uint8_t *>malloc(LEAST_CAPACITY)  # never NULL: Arrow looks at the address of empty buffers, too
        if self.data == NULL:
            raise MemoryError
        memset(self.data, 0xFF, LEAST_CAPACITY)
        self.capacity = LEAST_CAPACITY

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __len__(self):
        return self.size


cdef int hold(Column column, size_t size) noexcept nogil:
    """Ensure room for *size* bytes altogether; return -1 without enough memory."""
    cdef size_t capacity
    cdef uint8_t *data
    if size <= column.capacity:
        return 0
    capacity = max(size, column.capacity * 2)
    data = <uint8_t *>realloc(column.data, capacity)
    if data == NULL:
        return -1
    column.data = data
    column.capacity = capacity
    return 0


cdef int hold_bits(Column column, size_t count) noexcept nogil:
    """Ensure room for *count* bits altogether, with the new ones set; a null value later clears its bit."""
    cdef size_t before = column.capacity
    if hold(column, (count + 7) // 8) < 0:
        return -1
    memset(column.data + before, 0xFF, column.capacity - before)
    return 0


cdef inline void put_view(View *view, const uint8_t *start, int32_t size, Source *source) noexcept nogil:
    cdef uint64_t low = 0
    cdef uint32_t high = 0
    view.size = size
    if size > INLINE:
        memcpy(&view.a, start, 4)
        view.b = source.number
        view.c = <uint32_t>(start - source.base)
        return
    if source.limit - start >= INLINE:  # load a fixed size and mask the excess
        memcpy(&low, start, 8)
        memcpy(&high, start + 8, 4)
        if size < 8:
            low &= (<uint64_t>1 << (8 * size)) - 1
            high = 0
        elif size < INLINE:
            high &= (<uint32_t>1 << (8 * (size - 8))) - 1
    elif size > 8:
        memcpy(&low, start, 8)
        memcpy(&high, start + 8, size - 8)
    elif size > 0:
        memcpy(&low, start, size)
    view.a = <uint32_t>low
    view.b = <uint32_t>(low >> 32)
    view.c = high


cdef inline void put_null(View *view, uint8_t *validity, int64_t index) noexcept nogil:
    memset(view, 0, sizeof(View))
    validity[index >> 3] &= <uint8_t>~(1 << (index & 7))


cdef struct Source:
    const uint8_t *base
    const uint8_t *limit
    uint32_t number


def rows_beginning(views: object, bytes beginnings not None) -> list[int]:
    """Return the rows whose first byte is one of *beginnings*; empty ones and nulls have none.

    A view holds the first bytes of its data, so nothing else is looked at.

    Args:
        views: the memory of a column of views, from its first row on.
    """
    cdef uint8_t[256] wanted
    cdef Py_buffer memory
    cdef const View *view
    cdef Py_ssize_t row
    cdef list rows = []
    memset(wanted, 0, sizeof(wanted))
    for row in range(len(beginnings)):
        wanted[<uint8_t>beginnings[row]] = 1
    PyObject_GetBuffer(views, &memory, PyBUF_SIMPLE)
    try:
        view = <const View *>memory.buf
        for row in range(memory.len // <Py_ssize_t>sizeof(View)):
            if view[row].size > 0 and wanted[(<const uint8_t *>&view[row].a)[0]]:
                rows.append(row)
    finally:
        PyBuffer_Release(&memory)
    return rows


cdef class Columns:
    """The columns for the records of several batches, in the order in which the batches are added."""

    cdef readonly int64_t count
    cdef readonly int64_t header_count
    cdef readonly int64_t null_keys
    cdef readonly int64_t null_values
    cdef readonly int64_t null_header_values
    cdef readonly list contents  # type: list[bytes | bytearray]  # buffer 0, 1, ... of the views
    cdef readonly Column offsets
    cdef readonly Column timestamps
    cdef readonly Column keys
    cdef readonly Column key_validity
    cdef readonly Column values
    cdef readonly Column value_validity
    cdef readonly Column header_ends
    cdef readonly Column header_keys
    cdef readonly Column header_values
    cdef readonly Column header_validity

    def __init__(self):
        self.contents = []
        self.offsets, self.timestamps = Column(), Column()
        self.keys, self.key_validity = Column(), Column()
        self.values, self.value_validity = Column(), Column()
        self.header_ends, self.header_keys = Column(), Column()
        self.header_values, self.header_validity = Column(), Column()
        memset(self.header_ends.data, 0, 4)
        self.header_ends.size = 4

    def add(self, OpenBatch opened) -> str | None:
        """Add the records of a batch; return why some are missing, or None."""
        cdef Walker w = opened.walker
        cdef Source source
        cdef int64_t before = self.count
        cdef int status
        if w.left == 0:
            return opened.error
        source.base = opened.base
        source.limit = w.c.limit
        source.number = self.number_of(opened.content)
        self.make_room(&w)
        with nogil:
            status = self.fill(&w, &source)
        if status == -2:
            raise MemoryError
        return opened.fault(&w, self.count - before) if status < 0 else opened.error

    def add_plain(self, bytes data not None, Py_ssize_t position, int64_t most) -> tuple[int, str | None]:
        """Add the uncompressed batches of a field from *position* on.

        Returns where this ended, and None; or the position of a batch whose records could not all be added, and why. It ends at
        a compressed batch, one with more than *most* records, or the first bytes that are not a complete batch.
        """
        cdef const uint8_t *base = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t size
        cdef int64_t before
        cdef int magic = 0, status
        cdef Walker w
        cdef Source source
        if not 0 <= position <= end:
            raise IndexError(f"position {position} is not within {end} bytes")
        while True:
            size = whole_batch(base + position, end - position, &magic)
            if size == 0 or codec_of(base + position, magic):
                return position, None
            begin_plain(&w, base, base + position, size, magic)
            if not 0 <= w.left <= most:
                return position, None
            before = self.count
            source.base, source.limit, source.number = base, base + position + size, self.number_of(data)
            self.make_room(&w)
            status = self.fill(&w, &source)
            if status == -2:
                raise MemoryError
            if status < 0:
                opened = Batch(data, position).open()
                return position, (<OpenBatch>opened).fault(&w, self.count - before)
            position += size

    cdef uint32_t number_of(self, object content) except? 0xFFFFFFFF:
        """Return the number of the buffer *content*, adding it if it is new."""
        if len(content) > LONGEST:
            raise ValueError(f"{len(content)} bytes are more than views can point into")
        cdef Py_ssize_t last = len(self.contents) - 1
        if last >= 0 and self.contents[0] is content:
            return 0
        if last < 0 or self.contents[last] is not content:
            self.contents.append(content)
            last += 1
        return last

    def expect(self, int64_t more, Py_ssize_t size) -> None:
        """Reserve room for *more* records, but not for more than *size* bytes can hold."""
        self.grow(max(0, min(more, size // LEAST_RECORD)))

    cdef int make_room(self, const Walker *w) except -1:
        """Reserve room for the claimed number of records, but not for more than the batch's bytes can hold."""
        cdef int64_t least = LEAST_RECORD if w.magic == 2 else LEAST_MESSAGE
        return self.grow(min(w.left, (w.c.limit - w.c.at) // least + 1))

    cdef int grow(self, int64_t more) except -1:
        cdef size_t rows = self.count + more
        cdef bint failed = False
        failed |= hold(self.offsets, rows * 8) < 0
        failed |= hold(self.timestamps, rows * 8) < 0
        failed |= hold(self.keys, rows * sizeof(View)) < 0
        failed |= hold(self.values, rows * sizeof(View)) < 0
        failed |= hold(self.header_ends, (rows + 1) * 4) < 0
        failed |= hold_bits(self.key_validity, rows) < 0
        failed |= hold_bits(self.value_validity, rows) < 0
        if failed:
            raise MemoryError
        return 0

    cdef int fill(self, Walker *walker, Source *source) noexcept nogil:
        """Add the walker's records, for which there is room; return 0 at the end, -1 for a fault, -2 without memory."""
        cdef Walker w = walker[0]
        cdef RecordShape shape
        cdef int64_t row = self.count
        cdef int64_t *offsets = <int64_t *>self.offsets.data
        cdef int64_t *timestamps = <int64_t *>self.timestamps.data
        cdef View *keys = <View *>self.keys.data
        cdef View *values = <View *>self.values.data
        cdef int32_t *header_ends = <int32_t *>self.header_ends.data
        cdef int status = 1
        memset(&shape, 0, sizeof(RecordShape))
        while True:
            status = next_record(&w, &shape)
            if status <= 0:
                break
            offsets[row] = shape.offset
            timestamps[row] = shape.timestamp
            if shape.key_size < 0:
                put_null(&keys[row], self.key_validity.data, row)
                self.null_keys += 1
            else:
                put_view(&keys[row], shape.key, shape.key_size, source)
            if shape.value_size < 0:
                put_null(&values[row], self.value_validity.data, row)
                self.null_values += 1
            else:
                put_view(&values[row], shape.value, shape.value_size, source)
            if shape.header_count > 0 and self.put_headers(&shape, source) < 0:
                status = -2
                break
            row += 1
            header_ends[row] = <int32_t>self.header_count
        self.count = row
        self.set_sizes()
        walker[0] = w
        return status

    cdef void set_sizes(self) noexcept nogil:
        """Set how much of the memory is in use."""
        self.offsets.size = self.timestamps.size = self.count * 8
        self.keys.size = self.values.size = self.count * sizeof(View)
        self.header_ends.size = (self.count + 1) * 4
        self.key_validity.size = self.value_validity.size = (self.count + 7) // 8
        self.header_keys.size = self.header_values.size = self.header_count * sizeof(View)
        self.header_validity.size = (self.header_count + 7) // 8

    cdef int put_headers(self, RecordShape *shape, Source *source) noexcept nogil:
        cdef Cursor c
        cdef HeaderShape header
        cdef size_t rows = self.header_count + shape.header_count
        cdef int32_t _
        if hold(self.header_keys, rows * sizeof(View)) < 0 or hold(self.header_values, rows * sizeof(View)) < 0:
            return -1
        if hold_bits(self.header_validity, rows) < 0:
            return -1
        memset(&c, 0, sizeof(Cursor))
        c.base = c.at = shape.headers
        c.limit = shape.end
        for _ in range(shape.header_count):
            if read_header(&c, &header) < 0:  # cannot happen: next_record has walked them
                break
            put_view(&(<View *>self.header_keys.data)[self.header_count], header.key, header.key_size, source)
            if header.value_size < 0:
                put_null(&(<View *>self.header_values.data)[self.header_count], self.header_validity.data, self.header_count)
                self.null_header_values += 1
            else:
                put_view(&(<View *>self.header_values.data)[self.header_count], header.value, header.value_size, source)
            self.header_count += 1
        return 0
