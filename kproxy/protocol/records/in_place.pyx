# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Replace keys and values, insert headers and find headers in the records of a batch, without objects for the records.

It is compiled because a record takes 3 to 4 microseconds in Python, which is 30 MB/s for records of 100 bytes. Replacing releases
the interpreter lock, so that other connections do not wait for a large batch.
"""

from collections.abc import Callable

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memmove, memset

from kproxy.protocol.found cimport RecordsField
from kproxy.protocol.records.batches cimport Batch, OpenBatch
from kproxy.protocol.records.shape cimport (
    BATCH_HEADER, HeaderShape, LOG_OVERHEAD, next_record, read_header, read_varint, read_varlong, RecordShape, Walker,
)  # fmt: skip
from kproxy.protocol.wire cimport be32, Buffer, Cursor, put, put_uvarint

from kproxy.errors import Malformed
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.records.limits import NoRoom

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **, Py_ssize_t) except -1

cdef enum:
    SIZE_AT = 8  # in the header of a batch of magic 2
    CRC_AT = 17
    COVERED_AT = 21  # by the CRC, to the end
    LONGEST_FIELD = 0x7FFFFFFF
    FRAME_SIZE = 4  # bytes of a frame's size
    TURN = 65_536  # bytes of records that are edited until other threads have their turn
    LONGEST_VALUE = 512  # bytes of a header's value that is searched for; longer values are ignored

# Keys and values


cdef struct Marker:
    bint is_set
    uint8_t[5] data


cdef int set_marker(Marker *marker, bytes data: bytes | None) except -1:
    marker.is_set = data is not None
    if data is not None:
        if len(data) != sizeof(marker.data):
            raise ValueError("a marker has 5 bytes")
        memcpy(marker.data, PyBytes_AS_STRING(data), sizeof(marker.data))
    return 0


cdef bint may_be_marked(const Marker *marker, const uint8_t *data, size_t size) noexcept nogil:
    """Return whether the bytes begin with the first four of the marker, or have its fifth there; True if it is not set."""
    if not marker.is_set:
        return True
    return size >= 4 and (memcmp(data, marker.data, 4) == 0 or (size > 4 and data[4] == marker.data[4]))


cdef class Editor:
    """Changes keys or values; derived classes say how. The base class changes nothing."""

    cdef int edit(self, const uint8_t *data, size_t size, Buffer *out) except -1 nogil:
        """Write the replacement for the bytes to *out* and return 1; return 0 to keep them, whatever *out* has."""
        return 0

    cdef int edit_value(self, const RecordShape *record, Buffer *out) except -1 nogil:
        """Do the same with the value of a record."""
        return self.edit(record.value, record.value_size, out)

    cdef int64_t size_of(self, const RecordShape *record) noexcept nogil:
        """Return how many bytes ``write_value`` would write; -1: it cannot."""
        return -1

    cdef bint write_value(self, const RecordShape *record, uint8_t *at) except -1 nogil:
        """Write ``size_of`` bytes in place of the value of a record; return False if ``edit_value`` has to be asked."""
        return False

    cdef bint accepts(self, const uint8_t *data, size_t size) except -1 nogil:
        """Return whether the bytes need no other look; for ``find_schema_ids``."""
        return False

    def edited(self, bytes data not None, bytes key=None) -> bytes | None:
        """Return the changed bytes; None if they stay. *key*: of the record, for editors of values that use it."""
        cdef Buffer out
        memset(&out, 0, sizeof(Buffer))
        try:
            if not self.edit(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), &out):
                return None
            return PyBytes_FromStringAndSize(<char *>out.data, out.size)
        finally:
            free(out.data)


cdef class CallingEditor(Editor):
    """Changes keys or values by a function, which gets their bytes and returns the same object where they stay.

    Args:
        change: what it raises, the edit raises.
        marker: 5 bytes; it is only called for what may_be_marked with them. None: for each key or value.
    """

    cdef object change
    cdef Marker marker

    def __init__(self, change: Callable[[bytes], bytes], bytes marker=None):
        self.calls_python = True
        self.change = change
        set_marker(&self.marker, marker)

    cdef int edit(self, const uint8_t *data, size_t size, Buffer *out) except -1 nogil:
        if not may_be_marked(&self.marker, data, size):
            return 0
        with gil:
            given = PyBytes_FromStringAndSize(<const char *>data, size)
            changed = <bytes?>self.change(given)
            if changed is given:
                return 0
            put(out, PyBytes_AS_STRING(changed), PyBytes_GET_SIZE(changed))
            return 1


cdef class ValueEditor(Editor):
    """Changes values by a function, which gets the record's key (None if it has none) and the value.

    Args:
        change: it returns the same object where the value stays; what it raises, the edit raises.
    """

    cdef object change

    def __init__(self, change: Callable[..., bytes]):
        self.calls_python = True
        self.change = change

    def edited(self, bytes data not None, bytes key=None) -> bytes | None:
        """Return the changed value of a record without headers; None if it stays."""
        changed = self.changed(key, data, NULL)
        return None if changed is data else changed

    cdef object changed(self, object key, bytes value, const RecordShape *record):
        """Return what the function makes of a value. *record*: it, for its headers; NULL: it has none."""
        return self.change(key, value)

    cdef int edit_value(self, const RecordShape *record, Buffer *out) except -1 nogil:
        with gil:
            key = None
            if record.key_size >= 0:
                key = PyBytes_FromStringAndSize(<const char *>record.key, record.key_size)
            given = PyBytes_FromStringAndSize(<const char *>record.value, record.value_size)
            changed = <bytes?>self.changed(key, given, record)
            if changed is given:
                return 0
            put(out, PyBytes_AS_STRING(changed), PyBytes_GET_SIZE(changed))
            return 1


cdef class RecordEditor(ValueEditor):
    """Changes values by a function, which gets the record's key, the value, and all headers as Record has them."""

    cdef object changed(self, object key, bytes value, const RecordShape *record):
        return self.change(key, value, [] if record == NULL else headers_of(record))


cdef list headers_of(const RecordShape *record):
    cdef Cursor c
    cdef HeaderShape header
    cdef int32_t _
    cdef list headers = []
    if record.header_count == 0:
        return headers
    begin_headers(&c, record)
    for _ in range(record.header_count):
        if read_header(&c, &header) < 0:
            break  # the walker has read them
        name = PyUnicode_DecodeUTF8(<const char *>header.key, header.key_size, "surrogateescape")
        value = None
        if header.value_size >= 0:
            value = PyBytes_FromStringAndSize(<const char *>header.value, header.value_size)
        headers.append((name, value))
    return headers


cdef class HeaderEditor:
    """Changes the values of headers by a function, which gets the record's key (or None), the header's name and its value.

    Args:
        change: it returns the same object where the value stays; what it raises, the edit raises.
        marker: 5 bytes; it is only called for values that may_be_marked with them. None: for each that is not null.
    """

    cdef object change
    cdef Marker marker

    def __init__(self, change: Callable[[bytes | None, bytes, bytes], bytes], bytes marker=None):
        self.change = change
        set_marker(&self.marker, marker)

    cdef bint wants(self, const HeaderShape *header) noexcept nogil:
        """Return whether the function is called for the header."""
        return header.value_size >= 0 and may_be_marked(&self.marker, header.value, header.value_size)

    cdef int edit_headers(self, const RecordShape *record, Buffer *out) except -1 nogil:
        """Write the count and all headers to *out* and return 1; return 0 if they stay."""
        cdef Cursor c
        cdef HeaderShape header
        cdef bint is_changed = False
        cdef int32_t _
        begin_headers(&c, record)
        for _ in range(record.header_count):
            if read_header(&c, &header) < 0:
                break  # the walker has read them
            if self.wants(&header):
                is_changed = True
                break
        if not is_changed:
            return 0
        with gil:
            return self.call(record, out)

    cdef int call(self, const RecordShape *record, Buffer *out) except -1:
        cdef Cursor c
        cdef HeaderShape header
        cdef bint is_changed = False
        cdef bytes changed
        cdef int32_t _
        key = None
        if record.key_size >= 0:
            key = PyBytes_FromStringAndSize(<const char *>record.key, record.key_size)
        begin_headers(&c, record)
        put_uvarint(out, <uint32_t>record.header_count << 1)
        for _ in range(record.header_count):
            if read_header(&c, &header) < 0:
                break
            put_uvarint(out, <uint32_t>header.key_size << 1)
            put(out, header.key, header.key_size)
            if self.wants(&header):
                given = PyBytes_FromStringAndSize(<const char *>header.value, header.value_size)
                changed = self.change(key, PyBytes_FromStringAndSize(<const char *>header.key, header.key_size), given)
                is_changed |= changed is not given
                put_uvarint(out, <uint32_t>PyBytes_GET_SIZE(changed) << 1)
                put(out, PyBytes_AS_STRING(changed), PyBytes_GET_SIZE(changed))
            elif header.value_size < 0:
                put_uvarint(out, 1)  # -1: null
            else:
                put_uvarint(out, <uint32_t>header.value_size << 1)
                put(out, header.value, header.value_size)
        return is_changed


cdef struct Output:
    PyObject *made  # the bytes object that is written; there is no other reference to it
    uint8_t *out
    size_t size  # bytes that were written
    size_t capacity
    size_t expected  # bytes that it will take: growing step by step, they would be copied once more
    size_t most  # bytes that it may take; 0: any number


cdef struct Edits:
    Output *to
    Buffer key  # the changed key of the current record
    Buffer value
    Buffer headers  # all of them, and their count
    const uint8_t *copied  # end of the bytes that are in *to*
    const uint8_t *record  # beginning of the current record: its size
    const uint8_t *body  # behind the size: the record's attributes
    const uint8_t *kept_until  # beginning of the first replaced field
    const uint8_t *rest  # end of the last replaced field
    const uint8_t *kept_rest  # end of the bytes behind it that are kept: of the record, or of its value if headers are replaced


cdef class FrameEdit:
    """A frame that gets other batches; all else stays as it came, and is copied once.

    Call ``begin`` with each records field, in the order of the frame, ``put`` with each of its batches, ``end``, and then
    ``finish``. A batch that raises an exception may be put again.

    Args:
        frame: complete.
        growth: bytes by which all of it may grow; NoRoom is raised before more is allocated.
    """

    cdef bytes frame
    cdef Output output
    cdef size_t most
    cdef Py_ssize_t copied  # bytes of the frame that are in the output, or left out
    cdef Py_ssize_t copied_before  # the field
    cdef size_t size_before
    cdef RecordsField field
    cdef size_t size_at  # of the size of the field in the output
    cdef bint has_size  # it is in the output already
    cdef bint is_changed

    def __init__(self, bytes frame not None, Py_ssize_t growth=LONGEST_FIELD):
        self.frame = frame
        self.most = PyBytes_GET_SIZE(frame) + growth
        self.output.expected = PyBytes_GET_SIZE(frame) + PyBytes_GET_SIZE(frame) // 4

    def __dealloc__(self):
        Py_XDECREF(self.output.made)

    def begin(self, RecordsField field not None) -> None:
        """Begin a records field of the frame, which is behind the one before."""
        if field.message is not self.frame or field.size_at < self.copied:
            raise ValueError("this is no field of the frame, or one behind which another was edited")
        self.field = field
        self.has_size = False
        self.copied_before, self.size_before = self.copied, self.output.size

    cdef void leave_room(self, Batch batch) noexcept:
        """Let what is put in place of a batch take no room that the rest of the frame needs."""
        self.output.most = self.most - (PyBytes_GET_SIZE(self.frame) - batch.position - batch.size)

    cdef int copy(self, Py_ssize_t until) except -1:
        """Copy the frame up to there. The size of a field gets as many bytes as it had."""
        cdef Py_ssize_t size = until - self.copied
        if until < self.copied:
            raise ValueError("a frame is edited from its beginning to its end")
        self.output.most = 0
        make_room(&self.output, size)
        if self.field is not None and not self.has_size:
            self.has_size = True
            self.size_at = self.output.size + (self.field.size_at - self.copied)
        write(&self.output, <const uint8_t *>PyBytes_AS_STRING(self.frame) + self.copied, size)
        self.copied = until
        return 0

    def put(self, Batch batch not None, bytes by not None) -> None:
        """Put these bytes in place of a batch of the field."""
        self.copy(batch.position)
        self.leave_room(batch)
        make_room(&self.output, PyBytes_GET_SIZE(by))
        write(&self.output, <const uint8_t *>PyBytes_AS_STRING(by), PyBytes_GET_SIZE(by))
        self.copied += batch.size
        self.is_changed = True

    def end(self, Py_ssize_t until) -> None:
        """End the field; of its bytes, those from *until* on are left out."""
        cdef Py_ssize_t end = self.field.start + self.field.size
        if until < end:
            self.copy(until)
            self.copied = end
            self.is_changed = True
        elif self.has_size:
            self.copy(end)
        if self.has_size:
            self.write_field_size()
        self.field = None

    def empty(self) -> None:
        """End the field without any of its bytes, whatever was put there."""
        self.go_back((self.copied_before, self.size_before, False))
        self.end(self.field.start)

    def state(self) -> tuple[int, int, bool]:
        """Return what ``go_back`` needs to undo what is done from now on, up to the end of the field."""
        return self.copied, self.output.size, self.has_size

    def go_back(self, state: tuple[int, int, bool]) -> None:
        """Undo what was done since then."""
        self.copied, self.output.size, self.has_size = state

    cdef int write_field_size(self) except -1:
        """Write the size of the field, which may take another number of bytes now."""
        cdef size_t width = self.field.start - self.field.size_at
        cdef size_t at = self.size_at + width
        cdef size_t size = self.output.size - at
        cdef size_t needed = 4
        cdef uint32_t number
        cdef uint8_t *out
        self.output.most = 0
        if size >= LONGEST_FIELD:
            raise Malformed("a records field would be larger than 2 GiB")
        if self.field.is_compact:
            needed = uvarint_size(size + 1)
        if needed > width:
            make_room(&self.output, needed - width)
        out = self.output.out + self.size_at
        if needed != width:
            memmove(out + needed, out + width, size)
            self.output.size += needed - width
        if not self.field.is_compact:
            number = size
            number = be32(<const uint8_t *>&number)
            memcpy(out, &number, sizeof(number))
            return 0
        size += 1
        while size > 0x7F:
            out[0] = <uint8_t>(size | 0x80)
            out += 1
            size >>= 7
        out[0] = <uint8_t>size
        return 0

    def finish(self) -> bytes:
        """Return the frame; the same object if nothing changed."""
        cdef uint32_t size
        if not self.is_changed:
            return self.frame
        self.copy(PyBytes_GET_SIZE(self.frame))
        if self.output.size != self.output.capacity:
            resize(&self.output, self.output.size)
        size = self.output.size - FRAME_SIZE
        size = be32(<const uint8_t *>&size)
        memcpy(self.output.out, &size, sizeof(size))
        made = <bytes><object>self.output.made
        Py_CLEAR(self.output.made)
        return made


def replace_fields(
    OpenBatch opened not None, Editor values: Editor | None, Editor keys=None, HeaderEditor headers=None, *,
    bint with_header=False, FrameEdit into=None, size_t most=0,
) -> bytes | None:
    """Return the decompressed records of a batch of magic 2 after editing them; None if nothing changed.

    All other bytes of a record stay the same: deltas, attributes, and varints longer than necessary. Null keys and values are not
    edited. Raises Malformed if the records cannot be read to their end.

    *with_header*: return the batch, with a new size and CRC; it must not be compressed. *into*: write it there, and return b"".
    *most*: bytes that it may take, 0: any number; before it takes more, NoRoom is raised.
    """
    cdef Output output
    cdef Edits edits
    cdef Walker w = opened.walker
    cdef const uint8_t *end = w.c.limit
    cdef tuple state = () if into is None else into.state()
    cdef size_t header_at
    cdef size_t begin
    if opened.batch.magic != 2:
        raise Malformed("only records of magic 2 are edited in place", position=opened.batch.position)
    if opened.error is not None or opened.skipped is not None or (w.left == 0 and w.c.at != end):
        reason = opened.error or opened.skipped or "bytes in a batch of no records"
        raise Malformed(reason, position=opened.batch.position)
    memset(&edits, 0, sizeof(Edits))
    memset(&output, 0, sizeof(Output))
    edits.copied = w.c.at
    edits.to = &output
    output.expected = (end - w.c.at) + (end - w.c.at) // 4
    output.most = most
    if into is not None:
        edits.to = &into.output
        into.copy(opened.batch.position + BATCH_HEADER)
        into.leave_room(opened.batch)
        begin = into.output.size
        header_at = begin - BATCH_HEADER
    else:
        header_at = 0
        begin = output.size = BATCH_HEADER if with_header else 0
    try:
        edit_all(opened, &edits, &w, values, keys, headers)
        if edits.to.size == begin:
            if into is not None:
                into.go_back(state)
            return None
        make_room(edits.to, end - edits.copied)
        write(edits.to, edits.copied, end - edits.copied)
        if into is not None:
            into.copied = opened.batch.position + opened.batch.size
            into.is_changed = True
        elif output.size != output.capacity:
            resize(&output, output.size)
        if with_header:
            write_header(edits.to, header_at, opened.batch.at)
        return b"" if into is not None else <bytes><object>output.made
    except Exception:
        if into is not None:  # the batch may be put there otherwise
            into.go_back(state)
        raise
    finally:
        Py_XDECREF(output.made)
        free(edits.key.data)
        free(edits.value.data)
        free(edits.headers.data)


cdef int edit_all(
    OpenBatch opened, Edits *edits, Walker *w, Editor values, Editor keys, HeaderEditor headers,
) except -1:
    """Edit all records. Raises Malformed."""
    cdef int64_t count = w.left
    cdef int status = 1
    if (values is not None and values.calls_python) or (keys is not None and keys.calls_python) or headers is not None:
        while status > 0:  # taking the lock of the interpreter for each record costs more than many a change
            status = edit_records(edits, w, values, keys, headers, w.c.at + TURN)
            with nogil:
                pass  # other threads have their turn
    else:
        with nogil:
            status = edit_records(edits, w, values, keys, headers, NULL)
    if status < 0:
        raise Malformed(opened.fault(w, count - w.left - 1), position=opened.batch.position)
    return 0


cdef int resize(Output *to, size_t capacity) except -1:
    if to.made == NULL:
        made = PyBytes_FromStringAndSize(NULL, capacity)
        Py_INCREF(made)
        to.made = <PyObject *>made
    else:
        to.capacity = 0  # if it fails, nothing is left
        _PyBytes_Resize(&to.made, capacity)
    to.out = <uint8_t *>PyBytes_AS_STRING(<object>to.made)
    to.capacity = capacity
    return 0


cdef inline int make_room(Output *to, size_t more) except -1 nogil:
    """Make room for *more* bytes, which ``write`` does not look for. Raises NoRoom."""
    cdef size_t capacity = to.size + more + (to.capacity or to.expected)
    if to.size + more <= to.capacity and (to.most == 0 or to.size + more <= to.most):
        return 0
    with gil:
        if to.most == 0:
            return resize(to, capacity)
        if to.size + more > to.most:
            raise NoRoom(f"would take more than {to.most:,} bytes")
        return resize(to, min(capacity, to.most))


cdef inline void write(Output *to, const uint8_t *data, size_t size) noexcept nogil:
    memcpy(to.out + to.size, data, size)
    to.size += size


cdef inline void write_size(Output *to, size_t size) noexcept nogil:
    """Write a size of at most LONGEST_FIELD as a zigzag varint."""
    size <<= 1
    while size > 0x7F:
        to.out[to.size] = <uint8_t>(size | 0x80)
        to.size += 1
        size >>= 7
    to.out[to.size] = <uint8_t>size
    to.size += 1


cdef int write_header(Output *to, size_t at, const uint8_t *header) except -1:
    """Write the batch's header there, with the size and the CRC of all that is behind it."""
    cdef uint32_t number
    cdef uint8_t *out = to.out + at
    cdef size_t size = to.size - at
    memcpy(out, header, BATCH_HEADER)
    number = size - LOG_OVERHEAD
    number = be32(<const uint8_t *>&number)
    memcpy(out + SIZE_AT, &number, sizeof(number))
    number = crc32c(PyMemoryView_FromMemory(<char *>out + COVERED_AT, size - COVERED_AT, PyBUF_READ))
    number = be32(<const uint8_t *>&number)
    memcpy(out + CRC_AT, &number, sizeof(number))
    return 0


cdef int edit_records(
    Edits *edits, Walker *w, Editor values, Editor keys, HeaderEditor headers, const uint8_t *until,
) except -2 nogil:
    """Edit the records that begin before *until* (NULL: all); return 1 if others may follow, -1 if the walker has a fault."""
    cdef RecordShape shape
    cdef int status
    memset(&shape, 0, sizeof(RecordShape))
    while until == NULL or w.c.at < until:
        edits.record = w.c.at
        status = next_record(w, &shape)
        if status <= 0:
            return status
        if edit_record(edits, &shape, values, keys, headers) < 0:
            return -2
    return 1


cdef int edit_record(Edits *edits, RecordShape *shape, Editor values, Editor keys, HeaderEditor headers) except -1 nogil:
    cdef bint has_key = False
    cdef bint has_value = False
    cdef bint has_headers = False
    cdef int64_t size = -1
    if keys is not None and shape.key_size >= 0:
        edits.key.size = 0
        has_key = keys.edit(shape.key, shape.key_size, &edits.key)
    if headers is not None and shape.header_count > 0:
        edits.headers.size = 0
        has_headers = headers.edit_headers(shape, &edits.headers)
    if values is not None and shape.value_size >= 0:
        size = values.size_of(shape)
        if size >= 0 and put_record(edits, shape, has_key, values, size, has_headers):
            return 0
        edits.value.size = 0
        has_value = values.edit_value(shape, &edits.value)
    if has_key or has_value or has_headers:
        put_record(edits, shape, has_key, None, edits.value.size if has_value else -1, has_headers)
    return 0


cdef void find_kept(Edits *edits, RecordShape *shape, bint has_key, bint has_value, bint has_headers) noexcept nogil:
    """Find the parts of a record that stay."""
    cdef Cursor c
    cdef int32_t number
    cdef int64_t delta
    cdef const uint8_t *value_end = shape.value + max(shape.value_size, 0)
    memset(&c, 0, sizeof(Cursor))
    c.base = c.at = edits.record
    c.limit = shape.end
    read_varint(&c, &number)  # its size; the walker has read all of this
    edits.body = c.at
    edits.kept_until = edits.rest = shape.key + max(shape.key_size, 0)
    if has_key:
        c.at += 1
        read_varlong(&c, &delta)
        read_varint(&c, &number)
        edits.kept_until = c.at
    if has_value:
        edits.rest = value_end
    edits.kept_rest = value_end if has_headers else shape.end


cdef bint put_record(
    Edits *edits, RecordShape *shape, bint has_key, Editor values, int64_t value_size, bint has_headers,
) except -1 nogil:
    """Write the records that stay, and the edited one behind them.

    *values* writes the value of *value_size* bytes; if it does not, nothing is written, and False returned. None: it is in
    ``edits.value``. -1: the value stays.
    """
    cdef size_t size
    cdef size_t before = edits.to.size
    find_kept(edits, shape, has_key, value_size >= 0, has_headers)
    size = (edits.kept_until - edits.body) + (edits.kept_rest - edits.rest)
    if has_key:
        size += varint_size(edits.key.size) + edits.key.size
    if value_size >= 0:
        size += varint_size(value_size) + value_size
    if has_headers:
        size += edits.headers.size
    if size > LONGEST_FIELD:  # then neither of the two is too large, either
        with gil:
            raise Malformed("a record would be larger than 2 GiB")
    make_room(edits.to, (edits.record - edits.copied) + varint_size(size) + size)
    write(edits.to, edits.copied, edits.record - edits.copied)
    write_size(edits.to, size)
    write(edits.to, edits.body, edits.kept_until - edits.body)
    if has_key:
        write_size(edits.to, edits.key.size)
        write(edits.to, edits.key.data, edits.key.size)
    if value_size >= 0:
        write_size(edits.to, value_size)
        if values is None:
            write(edits.to, edits.value.data, value_size)
        elif values.write_value(shape, edits.to.out + edits.to.size):
            edits.to.size += value_size
        else:
            edits.to.size = before
            return False
    write(edits.to, edits.rest, edits.kept_rest - edits.rest)
    if has_headers:
        write(edits.to, edits.headers.data, edits.headers.size)
    edits.copied = shape.end
    return True


cdef inline size_t varint_size(size_t value) noexcept nogil:
    """Return how many bytes a positive number takes as a zigzag varint."""
    return uvarint_size(value << 1)


cdef inline size_t uvarint_size(size_t value) noexcept nogil:
    cdef size_t size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


# Headers


cdef void begin_headers(Cursor *c, const RecordShape *shape) noexcept nogil:
    """Point the cursor at the headers of a record; next_record has walked them, so read_header cannot fail."""
    memset(c, 0, sizeof(Cursor))
    c.at = c.base = shape.headers
    c.limit = shape.end


def insert_headers(
    bytes plain not None, int64_t count, bytes added not None, int64_t added_count, bytes own_name=None, bytes own=b"",
) -> bytes | None:
    """Return the records with added headers behind their own; None if *plain* is not *count* records of magic 2.

    Args:
        plain: the decompressed records of a batch.
        count: their number.
        added, added_count: encoded headers for each record, and their number.
        own_name, own: one more encoded header, for records that have none of that name.
    """
    cdef Walker w
    cdef RecordShape shape
    cdef Buffer out
    cdef const uint8_t *record
    cdef int status = 1
    memset(&out, 0, sizeof(Buffer))
    memset(&w, 0, sizeof(Walker))
    memset(&shape, 0, sizeof(RecordShape))
    w.magic = 2
    w.left = count
    w.c.base = w.c.at = <const uint8_t *>PyBytes_AS_STRING(plain)
    w.c.limit = w.c.at + PyBytes_GET_SIZE(plain)
    try:
        while status > 0:
            record = w.c.at
            status = next_record(&w, &shape)
            if status > 0:
                status = put_with_headers(&out, record, &shape, added, added_count, own_name, own)
        return None if status < 0 or w.c.at != w.c.limit else PyBytes_FromStringAndSize(<char *>out.data, out.size)
    finally:
        free(out.data)


cdef int put_with_headers(
    Buffer *out, const uint8_t *record, RecordShape *shape, bytes added, int64_t added_count, bytes own_name, bytes own,
) except? -1:
    """Write one record with the added headers and return 1; return -1 if it would be too large."""
    cdef Cursor c
    cdef int32_t number
    cdef const uint8_t *count_at = shape.value + max(shape.value_size, 0)
    cdef bint has_own = own_name is None or has_header(shape, own_name)
    cdef int64_t headers = shape.header_count + added_count + (0 if has_own else 1)
    cdef int64_t size
    memset(&c, 0, sizeof(Cursor))
    c.at = record
    c.limit = shape.end
    read_varint(&c, &number)  # its size; the walker has read all of this
    size = (count_at - c.at) + varint_size(headers) + (shape.end - shape.headers) + PyBytes_GET_SIZE(added)
    if not has_own:
        size += PyBytes_GET_SIZE(own)
    if size > LONGEST_FIELD:
        return -1
    put_uvarint(out, <uint32_t>size << 1)  # zigzag
    put(out, c.at, count_at - c.at)
    put_uvarint(out, <uint32_t>headers << 1)
    put(out, shape.headers, shape.end - shape.headers)
    put(out, PyBytes_AS_STRING(added), PyBytes_GET_SIZE(added))
    if not has_own:
        put(out, PyBytes_AS_STRING(own), PyBytes_GET_SIZE(own))
    return 1


cdef bint has_header(RecordShape *shape, bytes name) noexcept:
    """Return whether one of a record's headers has the name."""
    cdef Cursor c
    cdef HeaderShape header
    cdef int32_t _
    begin_headers(&c, shape)
    for _ in range(shape.header_count):
        if read_header(&c, &header) < 0:
            break
        if header.key_size == PyBytes_GET_SIZE(name) and memcmp(header.key, PyBytes_AS_STRING(name), header.key_size) == 0:
            return True
    return False


def find_headers(
    OpenBatch opened not None, tuple names not None: tuple[bytes, ...], Py_ssize_t most,
) -> list[dict[bytes, bytes]]:
    """Return headers with one of *names* (bytes, lower case): [{name: value}, ...], one entry for each record with any.

    At most *most* entries. Null values and those longer than LONGEST_VALUE are ignored; of duplicates the last one counts. If a
    record is malformed, the headers before it are returned.
    """
    cdef Walker w = opened.walker
    cdef RecordShape shape
    cdef HeaderShape header
    cdef Cursor c
    cdef int32_t _
    cdef list out = []
    cdef dict values
    memset(&shape, 0, sizeof(RecordShape))
    while len(out) < most and next_record(&w, &shape) > 0:
        if shape.header_count == 0:
            continue
        values = {}
        begin_headers(&c, &shape)
        for _ in range(shape.header_count):
            if read_header(&c, &header) < 0:
                break
            if not 0 <= header.value_size <= LONGEST_VALUE:
                continue
            name = name_of(&header, names)
            if name is not None:
                values[name] = PyBytes_FromStringAndSize(<const char *>header.value, header.value_size)
        if values:
            out.append(values)
    return out


def find_schema_ids(
    OpenBatch opened not None, tuple names not None: tuple[bytes, ...], bint keys, Py_ssize_t most,
    dict readers: dict[int, Editor] | None = None,
) -> tuple[dict[int, int], int]:
    """Return the ids that values (or keys) of a batch begin with, by Confluent's framing, each with its first record's number.

    The framing is a byte 0 and the id, INT32, above 0. The second result is the number of the first record that has to be looked
    at otherwise: without this framing, with a header of one of *names* (bytes, lower case), or behind *most* ids; -1: there is
    none. With *readers*, these are also those whose payload the reader of its id does not accept. Null keys and values are skipped.
    Raises Malformed if the records cannot be read to the end.
    """
    cdef Walker w = opened.walker
    cdef RecordShape shape
    cdef HeaderShape header
    cdef Cursor c
    cdef int32_t _, size
    cdef const uint8_t *data
    cdef int64_t number = -1, before = 0, schema_id
    cdef int status
    cdef dict ids = {}
    cdef Editor reader = None
    memset(&shape, 0, sizeof(RecordShape))
    while True:
        status = next_record(&w, &shape)
        if status <= 0:
            break
        number += 1
        data = shape.key if keys else shape.value
        size = shape.key_size if keys else shape.value_size
        if size < 0:
            continue
        if shape.header_count > 0 and names:
            begin_headers(&c, &shape)
            for _ in range(shape.header_count):
                if read_header(&c, &header) < 0:
                    break
                if name_of(&header, names) is not None:
                    return ids, number
        if size < 5 or data[0] != 0:
            return ids, number
        schema_id = <int64_t>data[1] << 24 | <int64_t>data[2] << 16 | <int64_t>data[3] << 8 | data[4]
        if schema_id == 0 or schema_id > LONGEST_FIELD:
            return ids, number
        if schema_id != before:
            if schema_id not in ids:
                if len(ids) >= most:
                    return ids, number
                ids[schema_id] = number
            before = schema_id
            if readers is not None:
                reader = readers.get(schema_id)
                if reader is None:
                    return ids, number
        if reader is not None and not reader.accepts(data + 5, size - 5):
            return ids, number
    if status < 0 or opened.error is not None:
        raise Malformed(opened.error or "the records cannot be read to the end")
    return ids, -1


cdef object name_of(HeaderShape *header, tuple names):
    """Return the one of *names* that a header has, or None."""
    cdef bytes name
    for name in names:
        if PyBytes_GET_SIZE(name) == header.key_size and same(header.key, <const uint8_t *>PyBytes_AS_STRING(name), header.key_size):
            return name
    return None


cdef bint same(const uint8_t *key, const uint8_t *name, Py_ssize_t size) noexcept nogil:
    """Return whether *key* equals *name* (in lower case), ignoring the case of ASCII letters."""
    cdef Py_ssize_t at
    cdef uint8_t letter
    for at in range(size):
        letter = key[at]
        if 0x41 <= letter <= 0x5A:
            letter += 0x20
        if letter != name[at]:
            return False
    return True
