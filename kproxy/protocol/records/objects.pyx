# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Read records from an opened batch as objects, and encode them."""

from collections.abc import Iterable

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from kproxy.protocol.records.batches cimport OpenBatch
from kproxy.protocol.records.shape cimport HeaderShape, next_record, read_header, RecordShape, Walker
from kproxy.protocol.wire cimport be32, Buffer, Cursor, put, put8, put32, put64, put_uvarint, reserve

import zlib

from kproxy.errors import EncodeError
from kproxy.protocol.records.batches import sequence_after

cdef enum:
    LONGEST_FIELD = 0x7FFFFFFF


@cython.no_gc  # a tree: the garbage collector need not visit a million of them
@cython.freelist(256)
cdef class Record:
    """One record, which can be changed.

    ``offset``; ``timestamp`` in milliseconds, -1 for none; ``key`` and ``value``: bytes or None; ``headers``: a list of
    (key, value) with the key as text (bytes that are not UTF-8 are lone surrogates) and the value bytes or None;
    ``create_timestamp``: the producer's, even if ``timestamp`` is the broker's (LogAppendTime); ``attributes``: the record's,
    which no release uses; ``sequence``: the producer's number for it, -1 for none, derived from the batch and not written.
    """

    cdef public int64_t offset
    cdef public int64_t timestamp
    cdef public int64_t create_timestamp
    cdef public object key  # type: bytes | None
    cdef public object value  # type: bytes | None
    cdef list kept_headers  # None: an empty list that was not created yet
    cdef public int attributes
    cdef public int sequence

    def __init__(
        self, *, offset: int = 0, timestamp: int = -1, key: bytes | None = None, value: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (), attributes: int = 0, sequence: int = -1,
    ):
        self.offset = offset
        self.timestamp = timestamp
        self.create_timestamp = timestamp
        self.key = key
        self.value = value
        self.kept_headers = list(headers)
        self.attributes = attributes
        self.sequence = sequence

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        if self.kept_headers is None:
            self.kept_headers = []
        return self.kept_headers

    @headers.setter
    def headers(self, list headers not None: list[tuple[str, bytes | None]]):
        self.kept_headers = headers

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r}, sequence={self.sequence})"
        )

    def __eq__(self, other):
        cdef Record mine = self
        cdef Record theirs
        if type(other) is not Record:
            return NotImplemented
        theirs = other
        return (
            mine.offset == theirs.offset
            and mine.timestamp == theirs.timestamp
            and mine.key == theirs.key
            and mine.value == theirs.value
            and (mine.kept_headers or None) == (theirs.kept_headers or None)
            and mine.attributes == theirs.attributes
        )

    __hash__ = None


def read_objects(OpenBatch opened) -> tuple[list[Record], str | None]:
    """Return the readable records of an opened batch, and why there are no more (or None)."""
    cdef Walker w = opened.walker
    cdef RecordShape shape
    cdef Record record
    cdef list out = []
    cdef int status
    cdef int base_sequence = -1
    memset(&shape, 0, sizeof(RecordShape))
    if opened.batch.magic == 2:
        base_sequence = <int32_t>be32(opened.batch.at + 53)
    while True:
        status = next_record(&w, &shape)
        if status == 0:
            return out, opened.error
        if status < 0:
            return out, opened.fault(&w, len(out))
        record = Record.__new__(Record)
        record.offset = shape.offset
        record.timestamp = shape.timestamp
        record.create_timestamp = shape.create_timestamp
        record.attributes = shape.attributes
        record.sequence = sequence_after(base_sequence, shape.offset_delta) if base_sequence >= 0 else -1
        record.key = bytes_or_none(shape.key, shape.key_size)
        record.value = bytes_or_none(shape.value, shape.value_size)
        if shape.header_count:
            record.kept_headers = read_headers(&shape)
        out.append(record)


cdef inline object bytes_or_none(const uint8_t *start, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *>start, size)


cdef list read_headers(RecordShape *shape):
    cdef list out = []
    cdef Cursor c
    cdef HeaderShape header
    cdef int32_t _
    memset(&c, 0, sizeof(Cursor))
    c.at = c.base = shape.headers
    c.limit = shape.end
    for _ in range(shape.header_count):
        if read_header(&c, &header) < 0:  # not after next_record has walked them
            break
        key = PyUnicode_DecodeUTF8(<const char *>header.key, header.key_size, "surrogateescape")
        out.append((key, bytes_or_none(header.value, header.value_size)))
    return out


def encode_records(list records: list[Record], int64_t base_offset, int64_t base_timestamp, bint append) -> bytes:
    """Encode records of magic 2; with *append*, the producer's timestamps are written. Raises EncodeError."""
    cdef Buffer out, body
    cdef Record record
    cdef int64_t timestamp
    memset(&out, 0, sizeof(Buffer))
    memset(&body, 0, sizeof(Buffer))
    try:
        for item in records:
            if type(item) is not Record:
                raise EncodeError(f"{type(item).__name__} is not a Record")
            record = item
            body.size = 0
            if not -0x80 <= record.attributes <= 0xFF:
                raise EncodeError(f"a record's attributes are a byte, and attributes of {record.attributes} are none")
            put8(&body, <uint8_t>record.attributes)
            timestamp = record.create_timestamp if append else record.timestamp
            put_varlong(&body, <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp))
            delta = int(record.offset) - int(base_offset)
            if not -0x80000000 <= delta <= LONGEST_FIELD:
                raise EncodeError(f"offset {record.offset} is too far from the batch's {base_offset}")
            put_varint(&body, delta)
            put_sized(&body, record.key, "key")
            put_sized(&body, record.value, "value")
            put_headers(&body, record.kept_headers)
            put_varint(&out, <int32_t>fitting(body.size))
            put(&out, body.data, body.size)
        return PyBytes_FromStringAndSize(<char *>out.data, out.size)
    finally:
        free(out.data)
        free(body.data)


def encode_message(Record record, int64_t offset, int64_t timestamp, int magic, int attributes) -> bytes:
    """Encode one message of magic 0 or 1, with its CRC. Raises EncodeError for headers, which it cannot have."""
    cdef Buffer out
    if record.kept_headers:
        raise EncodeError(f"a message of magic {magic} has no headers")
    memset(&out, 0, sizeof(Buffer))
    try:
        put8(&out, magic)
        put8(&out, attributes)
        if magic == 1:
            put64(&out, <uint64_t>timestamp)
        put_field(&out, record.key, "key")
        put_field(&out, record.value, "value")
        covered = PyBytes_FromStringAndSize(<char *>out.data, out.size)
        out.size = 0
        put64(&out, <uint64_t>offset)
        put32(&out, fitting(len(covered) + 4))
        put32(&out, zlib.crc32(covered))
        put(&out, PyBytes_AS_STRING(covered), PyBytes_GET_SIZE(covered))
        return PyBytes_FromStringAndSize(<char *>out.data, out.size)
    finally:
        free(out.data)


cdef int fitting(size_t size) except -1:
    if size > LONGEST_FIELD:
        raise EncodeError(f"{size} bytes are more than a record can hold")
    return <int>size


cdef bytes as_bytes(object value, str name):
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise EncodeError(f"a record's {name} is bytes or None, not {type(value).__name__}")


cdef int put_sized(Buffer *out, object value, str name) except -1:
    """Write bytes behind a varint size; None is size -1."""
    if value is None:
        return put_varint(out, -1)
    cdef bytes data = as_bytes(value, name)
    put_varint(out, fitting(PyBytes_GET_SIZE(data)))
    return put(out, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef int put_field(Buffer *out, object value, str name) except -1:
    """Write bytes behind an int32 size; None is size -1."""
    if value is None:
        return put32(out, 0xFFFFFFFF)
    cdef bytes data = as_bytes(value, name)
    put32(out, fitting(PyBytes_GET_SIZE(data)))
    return put(out, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef int put_headers(Buffer *out, list headers) except -1:
    if headers is None:
        return put_varint(out, 0)
    put_varint(out, fitting(len(headers)))
    for header in headers:
        try:
            key, value = header
            name = key.encode("utf-8", "surrogateescape")
        except (AttributeError, TypeError, ValueError):
            raise EncodeError(f"a record's header is (text, bytes or None), not {header!r}") from None
        put_sized(out, name, "header key")
        put_sized(out, value, "header value")
    return 0


cdef int put_varint(Buffer *out, int32_t value) except -1:
    return put_uvarint(out, (<uint32_t>value << 1) ^ <uint32_t>(value >> 31))


cdef int put_varlong(Buffer *out, int64_t value) except -1:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    reserve(out, 10)
    while rest > 0x7F:
        put8(out, <uint8_t>(rest & 0x7F) | 0x80)
        rest >>= 7
    return put8(out, <uint8_t>rest)
