# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""The bodies of an exchange, and its line of the decoded log; what its fields mean is the contract in jsonl.py.

Compiled, and written into one buffer that all lines share: in Python, this took longer than all other steps of decoding small
requests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MIN, int64_t
from libc.string cimport memset

from kproxy.output.small_bodies cimport keep, small_body
from kproxy.protocol.headers cimport put_request_header, put_response_header, RequestHeader, ResponseHeader
from kproxy.protocol.json_sink cimport put_int, put_word
from kproxy.protocol.wire cimport Buffer, empty, put, put8
from kproxy.session.exchanges cimport Exchange, Frame, is_plain

from functools import lru_cache

import msgspec

from kproxy.errors import DecodeError
from kproxy.output.bodies import (
    begin_body, Bodies, completeness_json, find_errors, find_topic_names, HOLDING_APIS, OPENABLE, Opener,
)
from kproxy.output.escaping import well_formed
from kproxy.output.times import render_second
from kproxy.protocol.embedded.payload import RECORDS_OF
from kproxy.protocol.facts import facts

cdef extern from "<string.h>":
    void *memmem(const void *text, size_t size, const void *sought, size_t sought_size) noexcept nogil

cdef enum:
    MOST_TEXTS = 4096
    LONGEST_TEXT = 256  # characters of a text that is kept

cdef int64_t SECOND = 1_000_000_000
cdef int64_t EXACT = <int64_t>1 << 50  # ns, about 13 days: up to here milliseconds as a float have six exact digits
cdef bytes ERROR_CODE = b'rrorCode":'

cdef Buffer _line  # reused for every line
memset(&_line, 0, sizeof(Buffer))
cdef dict _texts = {}  # str -> JSON, mostly for client ids
cdef dict _known = {}  # small_body -> JSON
cdef int64_t _second = INT64_MIN  # the latest rendered second: the next time is mostly in the same one
cdef bytes _second_text = b""


cdef Py_ssize_t MOST_OPENED = OPENABLE
_HOLDING: frozenset[int] = frozenset({*HOLDING_APIS, *RECORDS_OF})


cpdef object read_bodies(Exchange exchange, opener: Opener | None = None):  # type: (...) -> Bodies
    """Render both bodies of an exchange as JSON; ``undecoded`` says why one cannot be read.

    Payloads inside the bodies are decoded, too, with what *opener* remembers of earlier exchanges; if one body is larger than
    OPENABLE, no payloads of the exchange are decoded.
    """
    bodies = read_json(exchange)
    if exchange.api_key not in _HOLDING and (exchange.request is None or not exchange.request.unread):
        return bodies
    for body in (bodies.request, bodies.response):
        if body is not None and len(<bytes>body) > MOST_OPENED:
            return bodies
    bodies.embedded = (Opener() if opener is None else opener).open(exchange)
    return bodies


cpdef object read_json(Exchange exchange):  # type: (...) -> Bodies
    """As ``read_bodies``, without the payloads inside the bodies."""
    bodies = Bodies(None, None, exchange.undecoded, [], exchange.connection.sasl_mechanism, {})
    if exchange.request is not None:
        bodies.request = _read(exchange.request, "request", bodies)
    if exchange.response is not None:
        bodies.response = _read(exchange.response, "response", bodies)
    return bodies


cdef object _read(Frame frame, str side, bodies):
    if frame.unread:
        return b"{}"  # as the broker reads it
    if frame.cut_code:
        return begin_body(frame, side, bodies)
    if frame.message is None or frame.error is not None:
        if bodies.undecoded is None:
            bodies.undecoded = str(frame.error) if frame.error is not None else "nothing is known about its layout"
        return None
    try:
        return _to_json(frame)
    except DecodeError as error:
        if bodies.undecoded is None:
            bodies.undecoded = str(error)
        return None


cdef object _to_json(Frame frame):
    """Return a body's JSON; that of a small one without credentials is kept, so that equal bodies have the same object."""
    cdef tuple body = small_body(frame)
    if body is None:
        return frame.to_json()
    json = _known.get(body)
    return keep(_known, body, frame.to_json()) if json is None else json


def exchange_line(Exchange exchange not None, bodies: Bodies | None = None) -> bytes:
    """Return the line of an exchange in the decoded log, in UTF-8, newline included."""
    cdef Frame request = exchange.request
    cdef Frame response = exchange.response
    cdef Buffer *line = &_line
    if bodies is None:
        bodies = read_bodies(exchange)
    connection = exchange.connection
    # All Python code runs here, before the first byte is written to the shared buffer.
    cdef bytes head = _head(connection.number, connection.client, connection.broker)
    cdef bytes api = _api(exchange.api_key, exchange.api_version)
    cdef bytes embedded = b",".join([one.to_json() for one in bodies.embedded]) if bodies.embedded else b""
    cdef bytes errors = _encode(find_errors(bodies.response)) if has_errors(bodies.response) else b"[]"
    cdef bytes names = _topic_names(exchange, bodies)
    cdef bytes layout = _layout(request, response)
    cdef bytes ending = _ending(exchange, request, response, bodies)
    try:
        line.size = 0
        put_bytes(line, head)
        put_bytes(line, api)
        put_word(line, b',"correlationId":')
        put_number(line, exchange.correlation_id)
        put_word(line, b',"clientId":')
        put_text(line, exchange.client_id)
        put_times(line, exchange, request, response)
        put_phases(line, request, response)
        put_word(line, b',"requestSize":')
        put_number(line, None if request is None else request.wire_size)
        put_word(line, b',"responseSize":')
        put_number(line, None if response is None else response.wire_size)
        put_word(line, b',"requestHeader":')
        put_header(line, request)
        put_word(line, b',"request":')
        put_bytes(line, bodies.request or b"null")
        put_word(line, b',"responseHeader":')
        put_header(line, response)
        put_word(line, b',"response":')
        put_bytes(line, bodies.response or b"null")
        put_word(line, b',"embedded":[')
        put_bytes(line, embedded)
        put_word(line, b'],"errors":')
        put_bytes(line, errors)
        put_word(line, b',"undecoded":')
        put_text(line, bodies.undecoded)
        put_word(line, b',"unanswered":')
        put_text(line, exchange.unanswered)
        put_word(line, b',"expectsResponse":true' if exchange.expects_response else b',"expectsResponse":false')
        put_word(line, b',"topicNames":')
        put_bytes(line, names)
        put_bytes(line, layout)
        put_bytes(line, ending)
        return PyBytes_FromStringAndSize(<char *>line.data, line.size)
    finally:
        empty(line)


cpdef bint has_errors(bytes response: bytes | None) except -1:
    """Return whether a response's JSON has an error code other than 0. Inside a JSON string the quote would be escaped."""
    cdef const char *at
    cdef const char *end
    if response is None:
        return False
    at = PyBytes_AS_STRING(response)
    end = at + PyBytes_GET_SIZE(response)
    while True:
        at = <const char *>memmem(at, end - at, <const char *>ERROR_CODE, PyBytes_GET_SIZE(ERROR_CODE))
        if at == NULL:
            return False
        at += PyBytes_GET_SIZE(ERROR_CODE)
        if at < end and (at[0] == b'-' or 49 <= at[0] <= 57):
            return True


# Parts that are the same in many lines

_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=4096)
def _head(number, client, broker):
    return b'{"event":"exchange","connection":%d,"client":%b,"broker":%b' % (number, _encode(client), _encode(broker))


@lru_cache(maxsize=4096)
def _api(api_key, api_version):
    api = facts().apis.get(api_key) if api_key is not None else None
    name = _encode(api.name if api is not None else None)
    return b',"apiKey":%b,"apiName":%b,"apiVersion":%b' % (_encode(api_key), name, _encode(api_version))


cdef bytes _topic_names(Exchange exchange, bodies):
    names = exchange.topic_names
    if type(names) is dict and not names:
        return b"{}"
    return _encode(find_topic_names(exchange, bodies))


cdef bytes _layout(Frame request, Frame response):
    layout = assumed = None
    for frame in (response, request):
        if frame is not None:
            layout = frame.layout or layout
            assumed = assumed if frame.assumed_version is None else frame.assumed_version
    if layout is None and assumed is None:
        return b',"layout":null,"assumedVersion":null'
    return b',"layout":%b,"assumedVersion":%b' % (_encode(layout), _encode(assumed))


cdef bytes _ending(Exchange exchange, Frame request, Frame response, bodies):
    """Return the fields bodies, trailing, missing and edited."""
    if is_plain(request) and is_plain(response):
        return b',"bodies":null,"trailing":null,"missing":null,"edited":[]}\n'
    return completeness_json(exchange, bodies.beginnings) + b"}\n"


# Values


cdef int put_bytes(Buffer *line, bytes value) except -1:
    return put(line, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


cdef int put_number(Buffer *line, value) except -1:
    return put_word(line, b"null") if value is None else put_int(line, value)


cdef int put_text(Buffer *line, text) except -1:
    """Write a string or null. Lone surrogates, which stand for bytes that were not UTF-8, become U+FFFD."""
    if text is None:
        return put_word(line, b"null")
    cdef bytes known = _texts.get(text)
    if known is None:
        known = _encode(well_formed(text))
        if len(text) > LONGEST_TEXT:
            return put_bytes(line, known)
        if len(_texts) >= MOST_TEXTS:
            _texts.clear()
        _texts[text] = known
    return put_bytes(line, known)


cdef int put_times(Buffer *line, Exchange exchange, Frame request, Frame response) except -1:
    """Write requestAt, responseAt and latencyMs."""
    put_word(line, b',"requestAt":')
    if request is None:
        put_word(line, b"null")
    else:
        put_instant(line, request.started_at)
    put_word(line, b',"responseAt":')
    if response is None:
        put_word(line, b"null")
    else:
        put_instant(line, response.ended_at)
    put_word(line, b',"latencyMs":')
    latency = exchange.latency_ns
    return put_word(line, b"null") if latency is None else put_milliseconds(line, latency)


cdef int put_phases(Buffer *line, Frame request, Frame response) except -1:
    """Write requestInProxyMs, brokerMs and responseInProxyMs: see the properties of Exchange."""
    cdef bint sent = request is not None and request.sent_at > 0
    cdef bint returned = response is not None and response.sent_at > 0
    if not sent and not returned:
        return put_word(line, b',"requestInProxyMs":null,"brokerMs":null,"responseInProxyMs":null')
    put_word(line, b',"requestInProxyMs":')
    if sent:
        put_milliseconds(line, request.sent_at - request.started_at)
    else:
        put_word(line, b"null")
    put_word(line, b',"brokerMs":')
    if sent and response is not None and response.sent_at >= 0:
        put_milliseconds(line, max(response.started_at - request.sent_at, 0))
    else:
        put_word(line, b"null")
    put_word(line, b',"responseInProxyMs":')
    return put_milliseconds(line, response.sent_at - response.started_at) if returned else put_word(line, b"null")


cdef int put_milliseconds(Buffer *line, int64_t duration) except -1:
    """Write a duration in nanoseconds as milliseconds with six decimals."""
    if not -EXACT < duration < EXACT:
        return put_bytes(line, b"%.6f" % (duration / 1e6))
    if duration < 0:
        put8(line, b"-")
        duration = -duration
    put_int(line, duration // 1_000_000)
    put8(line, b".")
    return put_digits(line, duration % 1_000_000, 6)


cdef int put_instant(Buffer *line, int64_t at) except -1:
    """Write a time as times.render_instant does, in quotes."""
    global _second, _second_text
    cdef int64_t fraction = at % SECOND
    cdef int64_t second = at // SECOND
    if fraction < 0:
        fraction += SECOND
        second -= 1
    if second != _second:
        _second_text = render_second(second).encode()
        _second = second
    put8(line, b'"')
    put_bytes(line, _second_text)
    put8(line, b".")
    if fraction % 1000:
        put_digits(line, fraction, 9)
    else:
        put_digits(line, fraction // 1000, 6)
    return put_word(line, b'Z"')


cdef int put_digits(Buffer *line, int64_t value, int count) except -1:
    """Write *value* with *count* digits, at most nine, padded with zeros."""
    cdef char[9] digits
    cdef int i
    for i in range(count - 1, -1, -1):
        digits[i] = <char>(48 + value % 10)
        value //= 10
    return put(line, digits, count)


cdef int put_header(Buffer *line, Frame frame) except -1:
    if frame is None or frame.header is None:
        return put_word(line, b"null")
    if type(frame.header) is RequestHeader:
        return put_request_header(line, <RequestHeader>frame.header)
    if type(frame.header) is ResponseHeader:
        return put_response_header(line, <ResponseHeader>frame.header)
    return put_bytes(line, frame.header.to_json())  # of a decoded log
