# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Find headers by name in the records of an opened batch, without objects for the records.

It is compiled because it examines every produced record: creating objects for all of them would take ten times as long.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset

from kproxy.protocol.records.batches cimport OpenBatch
from kproxy.protocol.records.shape cimport HeaderShape, next_record, read_header, RecordShape, Walker
from kproxy.protocol.wire cimport Cursor

cdef enum:
    LONGEST_VALUE = 512  # bytes; longer values are ignored


cdef bint same(const uint8_t *found, const uint8_t *name, Py_ssize_t size) noexcept nogil:
    """Return whether *found* equals *name* (in lower case), ignoring the case of ASCII letters."""
    cdef Py_ssize_t at
    cdef uint8_t letter
    for at in range(size):
        letter = found[at]
        if 0x41 <= letter <= 0x5A:
            letter += 0x20
        if letter != name[at]:
            return False
    return True


cdef object name_of(HeaderShape *header, tuple names):
    """Return the one of *names* that a header has, or None."""
    cdef bytes name
    for name in names:
        if PyBytes_GET_SIZE(name) == header.key_size and same(header.key, <const uint8_t *>PyBytes_AS_STRING(name), header.key_size):
            return name
    return None


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
    cdef dict found
    memset(&shape, 0, sizeof(RecordShape))
    memset(&c, 0, sizeof(Cursor))
    while len(out) < most and next_record(&w, &shape) > 0:
        if shape.header_count == 0:
            continue
        found = {}
        c.at = c.base = shape.headers
        c.limit = shape.end
        for _ in range(shape.header_count):
            if read_header(&c, &header) < 0:  # cannot happen: next_record has walked them
                break
            if not 0 <= header.value_size <= LONGEST_VALUE:
                continue
            name = name_of(&header, names)
            if name is not None:
                found[name] = PyBytes_FromStringAndSize(<const char *>header.value, header.value_size)
        if found:
            out.append(found)
    return out
