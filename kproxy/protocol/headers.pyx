# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Read request and response headers; which header version belongs to which API version.

Kafka's rule (ApiMessageTypeGenerator): flexible requests have header 2, others 1; flexible responses have header 1, others 0.
Two exceptions: ControlledShutdown v0 has request header 0 (it predates KIP-35), and ApiVersions responses always have header 0,
so that a client that sent too high a version can read them (KIP-511). The client id keeps its int16 size in header 2, so that a
broker can read it without knowing the rest (KIP-511).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

from kproxy.protocol.json_sink cimport put_base64, put_int, put_string, put_word
from kproxy.protocol.program cimport begin, describe_fault, slice_start
from kproxy.protocol.wire cimport be16, be32, Buffer, Cursor, need, put8, read_uvarint

from kproxy.errors import Malformed
from kproxy.protocol.api_keys import ApiKey
from kproxy.protocol.facts import facts

cdef int API_VERSIONS = ApiKey.API_VERSIONS
cdef int CONTROLLED_SHUTDOWN = ApiKey.CONTROLLED_SHUTDOWN

cdef enum:
    NEVER = 32768  # above every version, which is an int16

cdef dict _flexible_from = {}  # (api_key, is_response) -> first flexible version


cdef int flexible_from(int api_key, bint is_response) except -1:
    """Return the first flexible version of an API's request or response; 0 for an API newer than the facts."""
    cdef tuple key = (api_key, is_response)
    version = _flexible_from.get(key)
    if version is None:
        api = facts().apis.get(api_key)
        if api is None:
            return 0 if api_key > max(facts().apis) else NEVER
        ranges = facts().flexible(api.name + ("Response" if is_response else "Request"))
        version = _flexible_from[key] = ranges.lowest if ranges else NEVER
    return version


cpdef int request_header_version(int api_key, int api_version) except -1:
    """Return the version of the request header: 0, 1 or 2."""
    if api_key == CONTROLLED_SHUTDOWN and api_version == 0:
        return 0
    return 2 if api_version >= flexible_from(api_key, False) else 1


def response_header_version(int api_key, int api_version) -> int:
    """Return the version of the response header: 0 or 1."""
    if api_key == API_VERSIONS:
        return 0
    return 1 if api_version >= flexible_from(api_key, True) else 0


cdef class RequestHeader:
    """The header of a request: which API, which client, and the correlation id of its response."""

    def __repr__(self):
        return (
            f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )

    def to_json(self) -> bytes:
        """Return Kafka's JSON of it, UTF-8."""
        cdef Buffer out
        memset(&out, 0, sizeof(Buffer))
        try:
            put_request_header(&out, self)
            return PyBytes_FromStringAndSize(<char *>out.data, out.size)
        finally:
            free(out.data)


cdef class ResponseHeader:
    """The header of a response."""

    def __repr__(self):
        return f"ResponseHeader(correlation_id={self.correlation_id})"

    def to_json(self) -> bytes:
        """Return Kafka's JSON of it, UTF-8."""
        cdef Buffer out
        memset(&out, 0, sizeof(Buffer))
        try:
            put_response_header(&out, self)
            return PyBytes_FromStringAndSize(<char *>out.data, out.size)
        finally:
            free(out.data)


cdef int put_request_header(Buffer *out, RequestHeader header) except -1:
    """Append Kafka's JSON of a request's header to *out*."""
    put_word(out, b'{"requestApiKey":')
    put_int(out, header.api_key)
    put_word(out, b',"requestApiVersion":')
    put_int(out, header.api_version)
    put_word(out, b',"correlationId":')
    put_int(out, header.correlation_id)
    if header.header_version > 0:
        put_word(out, b',"clientId":')
        if header.client_id_bytes is None:
            put_word(out, b"null")
        else:
            put_string(out, <const unsigned char *>PyBytes_AS_STRING(header.client_id_bytes), len(header.client_id_bytes))
    return put_tags(out, header.unknown_tags)


cdef int put_response_header(Buffer *out, ResponseHeader header) except -1:
    """Append Kafka's JSON of a response's header to *out*."""
    put_word(out, b'{"correlationId":')
    put_int(out, header.correlation_id)
    return put_tags(out, header.unknown_tags)


cpdef RequestHeader read_request_header(bytes data, Py_ssize_t start=0):
    """Return the header at *start* of a request frame (without its size field). Raises DecodeError.

    A negative size of the client id means null, as in Kafka.
    """
    cdef Cursor c
    cdef RequestHeader header = RequestHeader.__new__(RequestHeader)
    cdef const unsigned char *base = slice_start(data, &start)
    cdef int size
    begin(&c, base, PyBytes_GET_SIZE(data) - start)
    if need(&c, 8) < 0:
        raise refused("RequestHeader", "", &c)
    header.api_key = <int16_t>be16(c.at)
    header.api_version = <int16_t>be16(c.at + 2)
    header.correlation_id = <int32_t>be32(c.at + 4)
    header.header_version = request_header_version(header.api_key, header.api_version)
    header.unknown_tags = ()
    c.at += 8
    if header.header_version > 0:
        if need(&c, 2) < 0:
            raise refused("RequestHeader", "clientId", &c)
        size = <int16_t>be16(c.at)
        c.at += 2
        if size >= 0:
            if need(&c, size) < 0:
                raise refused("RequestHeader", "clientId", &c)
            header.client_id_bytes = c.at[:size]
            header.client_id = header.client_id_bytes.decode("utf-8", "surrogateescape")
            c.at += size
    if header.header_version > 1:
        header.unknown_tags = read_tags("RequestHeader", &c)
    header.size = c.at - base
    return header


cpdef ResponseHeader read_response_header(bytes data, int header_version, Py_ssize_t start=0):
    """Return the header at *start* of a response frame (without its size field). Raises DecodeError."""
    cdef Cursor c
    cdef ResponseHeader header = ResponseHeader.__new__(ResponseHeader)
    cdef const unsigned char *base = slice_start(data, &start)
    begin(&c, base, PyBytes_GET_SIZE(data) - start)
    if need(&c, 4) < 0:
        raise refused("ResponseHeader", "correlationId", &c)
    header.correlation_id = <int32_t>be32(c.at)
    header.header_version = header_version
    c.at += 4
    header.unknown_tags = read_tags("ResponseHeader", &c) if header_version > 0 else ()
    header.size = c.at - base
    return header


cdef object refused(str name, str path, Cursor *c):
    kind, reason = describe_fault(c)
    if kind is Malformed:
        return Malformed(reason, message=name, path=path, position=c.at - c.base)
    return kind(reason, message=name, path=path, position=c.at - c.base, needed=c.needed, left=c.left)


cdef tuple read_tags(str name, Cursor *c):
    """Return the tagged fields as (tag, data): no release knows any in headers, so all are kept unread."""
    cdef uint32_t count, tag, size
    cdef list tags
    if c.at < c.limit and c.at[0] == 0:
        c.at += 1
        return ()
    if read_uvarint(c, &count) < 0:
        raise refused(name, "", c)
    if count > (c.limit - c.at) // 2:
        raise Malformed(
            f"claims {count} tagged fields, more than the {c.limit - c.at} bytes left can hold", message=name,
            position=c.at - c.base, needed=count, left=c.limit - c.at,
        )  # fmt: skip
    tags = []
    for _ in range(count):
        if read_uvarint(c, &tag) < 0 or read_uvarint(c, &size) < 0 or need(c, size) < 0:
            raise refused(name, "", c)
        tags.append((tag, PyBytes_FromStringAndSize(<const char *>c.at, size)))
        c.at += size
    return tuple(tags)


cdef int put_tags(Buffer *out, tuple tags) except -1:
    cdef bytes data
    if tags:
        put_word(out, b',"_unknownTaggedFields":[')
        for i, (tag, data) in enumerate(tags):
            put_word(out, b',{"tag":' if i else b'{"tag":')
            put_int(out, tag)
            put_word(out, b',"data":')
            put_base64(out, <const unsigned char *>PyBytes_AS_STRING(data), len(data))
            put8(out, b"}")
        put8(out, b"]")
    return put8(out, b"}")
