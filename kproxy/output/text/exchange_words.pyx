# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""What a line says of an exchange, and the comments on its packets; compiled, as every exchange of a capture or text passes here."""

from functools import lru_cache
from typing import TYPE_CHECKING

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free
from libc.stdint cimport INT64_MIN, int64_t
from libc.string cimport memset

from kproxy.output.exchange_line cimport has_errors, put_bytes, put_digits, read_bodies
from kproxy.protocol.json_sink cimport put_int, put_word
from kproxy.protocol.wire cimport Buffer, empty, put8
from kproxy.session.exchanges cimport Exchange, Frame, is_plain

from kproxy.output.bodies import Bodies, count_errors, notes
from kproxy.output.escaping import printable, word
from kproxy.output.text.key_facts import key_facts
from kproxy.output.times import Clock, render_duration, render_second
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.session import Event

if TYPE_CHECKING:
    from collections.abc import Callable

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char code, int precision, int flags, int *kind) except NULL

cdef int64_t SECOND = 1_000_000_000
cdef int SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE
cdef bytes MICROSECONDS = " µs".encode()
cdef enum:
    CLIENT_ID = 24  # characters
    SMALL_BODIES = 8192  # bytes
    WIDEST_ROUTE = 46  # two IPv4 addresses with ports

cdef Buffer _line  # reused for every line
memset(&_line, 0, sizeof(Buffer))


cdef class PlainLines:
    """Renders exchanges as lines without colours and of any width.

    Args:
        other: renders events that are no exchanges.
        clock: renders the times; None: in UTC, always without the date.
    """

    cdef object other
    cdef Py_ssize_t route_width
    cdef object clock
    cdef int64_t second  # the latest rendered one
    cdef bytes second_text

    def __init__(self, other: Callable[[Event], bytes], clock: Clock | None = None):
        self.other = other
        self.clock = clock
        self.second = INT64_MIN

    cpdef Py_ssize_t widen(self, Py_ssize_t width):
        """Return the width of the column of routes, the widest one so far, with one of *width*: no room for the widest possible."""
        self.route_width = max(self.route_width, min(width, WIDEST_ROUTE))
        return self.route_width

    def line(self, event: Event, bodies: Bodies | None = None) -> bytes:
        """Return the line of an event in UTF-8, newline included."""
        if not isinstance(event, Exchange):
            return self.other(event)
        return self.render(<Exchange>event, read_bodies(<Exchange>event) if bodies is None else bodies)

    cdef bytes render(self, Exchange exchange, bodies: Bodies):
        cdef Buffer *line = &_line
        # All Python code runs here, before the first byte is written to the shared buffer.
        cdef tuple route = _route_text(exchange.connection.client, exchange.connection.broker)
        cdef int64_t at = _time_of(exchange)
        cdef bytes clock = self.second_of(&at)
        cdef bytes what = _named(exchange.api_key, exchange.api_version, exchange.client_id)
        cdef str tail = _joined("  ", trouble_words(exchange.unanswered, bodies), fact_words(exchange, bodies), _notes(exchange))
        cdef bytes end = tail.encode("utf-8", "backslashreplace")
        latency = exchange.latency_ns
        try:
            line.size = 0
            put_time(line, clock, at)
            put_word(line, b"  ")
            put_bytes(line, route[0])
            put_spaces(line, self.widen(route[1]) - <Py_ssize_t>route[1] + 2)
            put_latency(line, latency, 7)
            put_word(line, b"  ")
            put_bytes(line, what)
            put_bytes(line, end)
            while line.size and line.data[line.size - 1] == b" ":
                line.size -= 1
            put8(line, b"\n")
            return PyBytes_FromStringAndSize(<char *>line.data, line.size)
        finally:
            empty(line)

    cdef bytes second_of(self, int64_t *at):
        """Return a time of day without the fraction of its second, which remains in *at*."""
        cdef int64_t fraction = at[0] % SECOND
        cdef int64_t second = at[0] // SECOND
        if fraction < 0:
            fraction += SECOND
            second -= 1
        if second != self.second:
            clock = self.clock
            self.second_text = (render_second(second)[11:] if clock is None else clock.render(at[0], 0)).encode()
            self.second = second
        at[0] = fraction
        return self.second_text


cdef PlainLines _in_utc = PlainLines(None)  # for its clock


def clock_words(int64_t at) -> str:
    """Render the time of day in UTC, to the microsecond: 09:30:00.000123."""
    cdef bytes clock = _in_utc.second_of(&at)
    return f"{clock.decode()}.{at // 1000:06d}"


def comments(Exchange exchange not None, bodies: Bodies | None = None) -> tuple[bytes, bytes]:
    """Return the comment on a request, which says only what it shows, and the one on its response; b"" for a missing frame.

    Each is the line of that moment with single spaces, in UTF-8. *bodies*: with payloads that were decoded without a memory, if
    at all.
    """
    cdef int64_t at = _time_of(exchange)
    cdef bytes clock = _in_utc.second_of(&at)
    cdef bytes route = _route_text(exchange.connection.client, exchange.connection.broker)[0]
    cdef bytes what = _what(exchange.api_key, exchange.api_version, exchange.client_id)
    cdef tuple ends = _ends(exchange, bodies)
    return (
        b"" if exchange.request is None else _comment(clock, at, route, None, what, ends[0]),
        b"" if exchange.response is None else _comment(clock, at, route, exchange.latency_ns, what, ends[1]),
    )


cdef bytes _comment(bytes clock, int64_t fraction, bytes route, latency, bytes what, bytes end):
    cdef Buffer *line = &_line
    try:
        line.size = 0
        put_time(line, clock, fraction)
        put8(line, b" ")
        put_bytes(line, route)
        put8(line, b" ")
        put_latency(line, latency, 0)
        put8(line, b" ")
        put_bytes(line, what)
        put_bytes(line, end)
        return PyBytes_FromStringAndSize(<char *>line.data, line.size)
    finally:
        empty(line)


def time_of(event: Event) -> int:
    """Return the time that a listing shows for an event, in ns since the epoch; for an exchange, when its request began."""
    return _time_of(<Exchange>event) if isinstance(event, Exchange) else event.at


cdef int64_t _time_of(Exchange exchange):
    """Return when the exchange began, as far as it was seen."""
    cdef Frame first = exchange.response if exchange.request is None else exchange.request
    return exchange.at if first is None else first.started_at


cdef int put_time(Buffer *line, bytes clock, int64_t fraction) except -1:
    put_bytes(line, clock)
    put8(line, b".")
    return put_digits(line, fraction // 1000, 6)


cdef int put_latency(Buffer *line, latency, int width) except -1:
    """Write a duration as times.render_duration does, in at least *width* characters: 0 or 7. None becomes a "-"."""
    cdef int64_t duration = -1 if latency is None else latency
    cdef int64_t value = duration // 1000
    cdef char *text
    if 0 <= duration < 999_500:
        put_spaces(line, width - 3 - (1 if value < 10 else 2 if value < 100 else 3))
        put_int(line, value)
        return put_bytes(line, MICROSECONDS)
    if not 0 <= duration < 9_995_000:
        return put_bytes(line, f"{'-' if latency is None else render_duration(latency):>{width}}".encode())
    text = PyOS_double_to_string(duration / 1e6, b"f", 2, 0, NULL)
    put_word(line, text)
    PyMem_Free(text)
    return put_word(line, b" ms")


cdef int put_spaces(Buffer *line, Py_ssize_t count) except -1:
    while count > 0:
        put8(line, b" ")
        count -= 1
    return 0


cdef tuple _ends(Exchange exchange, bodies):
    """Return what follows the client id in both comments, each with a space before it, or b""."""
    if bodies is None:
        bodies = read_bodies(exchange)
    if not is_plain(exchange.request) or not is_plain(exchange.response):
        return _end(exchange, _of_request(bodies), notes(exchange.copy(response=None))), _end(exchange, bodies, notes(exchange))
    if exchange.unanswered is None and bodies.undecoded is None and are_all(exchange, bodies):
        return _ends_of_bodies(exchange.api_key, bodies.request, bodies.response)
    return _end(exchange, _of_request(bodies), ""), _end(exchange, bodies, "")


@lru_cache(maxsize=2048)
def _ends_of_bodies(api_key, request, response):
    both = f"{trouble_words(None, Bodies(None, response))} {_facts_of_bodies(api_key, request, response)}"
    return _end_of(_facts_of_bodies(api_key, request, None)), _end_of(both)


cdef bytes _end(Exchange exchange, bodies, str noted):
    return _end_of(" ".join((trouble_words(exchange.unanswered, bodies), fact_words(exchange, bodies), noted)))


cdef bytes _end_of(str words):
    words = " ".join(words.split())
    return f" {words}".encode("utf-8", "backslashreplace") if words else b""


cdef _of_request(bodies):
    """Return what the request alone shows."""
    alone = Bodies(bodies.request, undecoded=bodies.undecoded if bodies.request is None else None)
    if "request" in bodies.beginnings:
        alone.beginnings = {"request": bodies.beginnings["request"]}
    return alone


cpdef str fact_words(Exchange exchange, bodies: Bodies):
    """Return the key facts; many exchanges repeat earlier ones, so they are cached if they depend on small bodies alone."""
    if are_all(exchange, bodies):
        return _facts_of_bodies(exchange.api_key, bodies.request, bodies.response)
    return key_facts(exchange.api_key, bodies, exchange.topic_names)


cdef bint are_all(Exchange exchange, bodies) except -1:
    """Return whether the JSON of both bodies is small, and all that the key facts are made of."""
    cdef bytes request = bodies.request
    cdef bytes response = bodies.response
    names = exchange.topic_names
    return (
        exchange.api_key != SASL_AUTHENTICATE
        and type(names) is dict
        and not names
        and (0 if request is None else len(request)) + (0 if response is None else len(response)) <= SMALL_BODIES
        and not (bodies.embedded or bodies.beginnings)
    )


@lru_cache(maxsize=2048)
def _facts_of_bodies(api_key, request, response):
    return key_facts(api_key, Bodies(request, response), {})


cpdef str trouble_words(unanswered: str | None, bodies: Bodies):
    """Return what went wrong, in words: undecoded, unanswered, the names of error codes; "" if nothing did."""
    cdef list words = []
    if bodies.undecoded is not None:
        words.append(f"UNDECODED {printable(bodies.undecoded)}")
    if unanswered is not None:
        words.append(f"unanswered: {printable(unanswered)}")
    if has_errors(bodies.response):
        errors = count_errors(bodies.response)
        words += [error_name(code) + (f" x{count}" if count > 1 else "") for code, count in errors.most_common(4)]
        if len(errors) > 4:
            words.append(f"and {len(errors) - 4} other errors")
    return "  ".join(words) if words else ""


cdef str _notes(Exchange exchange):
    return "" if is_plain(exchange.request) and is_plain(exchange.response) else notes(exchange)


cdef str _joined(str gap, str trouble, str known, str noted):
    if not trouble and not noted:
        return known  # nearly always
    return gap.join([words for words in (trouble, known, noted) if words])


cpdef str latency_words(Exchange exchange):
    """Return the time from the request to its response, "-" where it is not known."""
    latency = exchange.latency_ns
    return "-" if latency is None else render_duration(latency)


@lru_cache(maxsize=4096)
def _named(api_key, api_version, client_id):
    """Return API and client id in columns."""
    return f"{api_words(api_key, api_version):<22}  {client_words(client_id):<16}  ".encode("utf-8", "backslashreplace")


@lru_cache(maxsize=4096)
def _route_text(client, broker):
    """Return both addresses in UTF-8, and how many characters they are."""
    text = f"{client} → {broker}"
    return text.encode("utf-8", "backslashreplace"), len(text)


@lru_cache(maxsize=4096)
def api_words(api_key: int | None, api_version: int | None) -> str:
    """Return the name and version of an API."""
    if api_key is None:
        return "(request not seen)"
    api = facts().apis.get(api_key)
    return f"{api.name if api is not None else f'API {api_key}'} v{api_version}"


@lru_cache(maxsize=1024)
def client_words(client_id: str | None) -> str:
    """Return the client id as lines show it."""
    return "-" if client_id is None else word(client_id, CLIENT_ID)


@lru_cache(maxsize=4096)
def _what(api_key, api_version, client_id):
    return _end_of(f"{api_words(api_key, api_version)} {client_words(client_id)}")[1:]
