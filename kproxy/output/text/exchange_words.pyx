# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""What a line says of an exchange, and the comments on its packets; compiled, as every exchange of a capture or text passes here."""

from functools import lru_cache

from libc.stdint cimport INT64_MIN, int64_t

from kproxy.session.exchanges cimport Exchange, Frame, is_plain

from kproxy.output.bodies import Bodies, count_errors, HOLDING_APIS, notes
from kproxy.output.escaping import printable, word
from kproxy.output.exchange_line import has_errors, read_bodies
from kproxy.output.text.key_facts import key_facts
from kproxy.output.times import render_duration, render_second
from kproxy.protocol.embedded import RECORDS_OF
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts

cdef int64_t SECOND = 1_000_000_000
cdef enum:
    CLIENT_ID = 24  # characters
    SMALL_BODIES = 1024  # bytes
    MOST_TAILS = 2048

cdef int64_t _second = INT64_MIN  # the latest rendered second
cdef str _second_text = ""
cdef dict _tails = {}  # what bodies without payloads or credentials say -> the ends of both comments


cpdef str clock_words(int64_t at):
    """Render the time of day in UTC, to the microsecond: 09:30:00.000123."""
    global _second, _second_text
    cdef int64_t fraction = at % SECOND
    cdef int64_t second = at // SECOND
    if fraction < 0:
        fraction += SECOND
        second -= 1
    if second != _second:
        _second_text = render_second(second)[11:]
        _second = second
    return f"{_second_text}.{fraction // 1000:06d}"


def plain_line(Exchange exchange not None, bodies: Bodies, str time, str route) -> str:
    """Return the line of an exchange, without colours and of any width."""
    cdef str tail = _joined("  ", trouble_words(exchange.unanswered, bodies), fact_words(exchange, bodies), _notes(exchange))
    cdef str head = f"{time}  {route}  {latency_words(exchange):>7}"
    return f"{head}  {api_words(exchange.api_key, exchange.api_version):<22}  {client_words(exchange.client_id):<16}  {tail}".rstrip()


def comments(Exchange exchange not None, bodies: Bodies | None = None) -> tuple[str, str]:
    """Return the comment on a request, which says only what it shows, and the one on its response; "" for a missing frame.

    Each is the line of that moment with single spaces. *bodies*: with payloads that were decoded without a memory, if at all.
    """
    cdef Frame first = exchange.response if exchange.request is None else exchange.request
    cdef str on_request = ""
    cdef str on_response = ""
    cdef str head = f"{clock_words(exchange.at if first is None else first.started_at)} {_route(exchange.connection)}"
    cdef str what = _what(exchange.api_key, exchange.api_version, exchange.client_id)
    cdef tuple ends = _ends(exchange, bodies)
    if exchange.request is not None:
        on_request = f"{head} - {what}{ends[0]}"
    if exchange.response is not None:
        on_response = f"{head} {latency_words(exchange)} {what}{ends[1]}"
    return on_request, on_response


cdef tuple _ends(Exchange exchange, bodies):
    """Return what follows the client id in both comments, each with a space before it, or ""."""
    cdef tuple said = _said(exchange)
    cdef tuple ends = None if said is None else _tails.get(said)
    if ends is not None:
        return ends
    if bodies is None:
        bodies = read_bodies(exchange)
    whole = is_plain(exchange.request) and is_plain(exchange.response)
    ends = (
        _end(exchange, _of_request(bodies), "" if whole else notes(exchange.copy(response=None))),
        _end(exchange, bodies, "" if whole else notes(exchange)),
    )
    if said is not None:
        if len(_tails) >= MOST_TAILS:
            _tails.clear()
        _tails[said] = ends
    return ends


cdef tuple _said(Exchange exchange):
    """Return the bytes that decide the ends of both comments, and how they are read; None if they are many, or secret."""
    cdef Frame request = exchange.request
    cdef Frame response = exchange.response
    if exchange.unanswered is not None or exchange.undecoded is not None or exchange.api_key not in _PLAIN_APIS:
        return None
    if not (_is_small(request) and _is_small(response)) or type(exchange.topic_names) is not dict or exchange.topic_names:
        return None
    return (
        exchange.api_key, request.body_version, request.layout, response.body_version, response.layout,
        request.data[request.body_start:], response.data[response.body_start:],
    )


cdef bint _is_small(Frame frame) except -1:
    """Return whether a frame's bytes say everything of it, and are few and no secret."""
    if type(frame) is not Frame or frame.message is None or frame.error is not None or frame.unread or not is_plain(frame):
        return False
    if len(frame.data) - frame.body_start > SMALL_BODIES or frame.assumed_version is not None:
        return False
    return not frame.layout_program().holds_secrets


_PLAIN_APIS = frozenset(facts().apis) - HOLDING_APIS - RECORDS_OF.keys()


cdef str _end(Exchange exchange, bodies, str noted):
    words = " ".join(" ".join((trouble_words(exchange.unanswered, bodies), fact_words(exchange, bodies), noted)).split())
    return f" {words}" if words else ""


cdef _of_request(bodies):
    """Return what the request alone shows."""
    alone = Bodies(bodies.request, undecoded=bodies.undecoded if bodies.request is None else None)
    if "request" in bodies.beginnings:
        alone.beginnings = {"request": bodies.beginnings["request"]}
    return alone


cpdef str fact_words(Exchange exchange, bodies: Bodies):
    """Return the key facts; many exchanges repeat earlier ones, so they are cached if they depend on small bodies alone."""
    cdef bytes request = bodies.request
    cdef bytes response = bodies.response
    names = exchange.topic_names
    if (
        (0 if request is None else len(request)) + (0 if response is None else len(response)) <= SMALL_BODIES
        and not (bodies.embedded or bodies.beginnings or bodies.sasl_mechanism)
        and isinstance(names, dict)
        and not names
    ):
        return _facts_of_bodies(exchange.api_key, request, response)
    return key_facts(exchange.api_key, bodies, names)


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
    return f"{api_words(api_key, api_version)} {' '.join(client_words(client_id).split())}"


cdef str _route(connection):
    return f"{connection.client} → {connection.broker}"
