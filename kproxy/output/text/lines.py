"""One line an exchange, for people: time, client → broker, latency, API and version, client id, key facts, errors.

    09:36:37.151234  127.0.0.1:51234 → 127.0.0.1:9092  3.10 ms  Produce v13  orders-producer  orders-0  5.2 KB  acks=all

On a terminal the line is cut to the width, and below 160 columns an address to the last part of its host and the port;
anywhere else nothing is cut but single names. What comes from the wire is made printable: one event, one line.
"""

from functools import lru_cache

from rich.cells import cell_len

from kproxy.output.bodies import Bodies, count_errors, is_plain, notes, read_bodies
from kproxy.output.escaping import printable, word
from kproxy.output.exchange_line import has_errors
from kproxy.output.text.key_facts import key_facts, token_words
from kproxy.output.text.styles import PLAIN, Style, cut
from kproxy.output.times import Clock, render_clock, render_duration, render_size
from kproxy.output.tls import tls_words
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.session import BadFrame, Direction, Event, Exchange, Gap, Note, NotKafka, SaslToken

TINY = 60  # cells; narrower terminals get no route, and times in whole seconds
NARROW = 100
MEDIUM = 160
CLIENT_ID = 24
NARROW_CLIENT_ID = 12
FEWEST_WIDTH = 40
SMALL_BODIES = 1024  # bytes of JSON
WIDEST_ROUTE = 46  # two IPv4 addresses with ports


class TextLines:
    """Renders events as lines.

    Args:
        style: colours, or none.
        width: of the terminal, in cells; None for lines of any length.
        clock: renders the times; None: in UTC, always without the date.
    """

    def __init__(self, style: Style = PLAIN, width: int | None = None, clock: Clock | None = None) -> None:
        self.style = style
        self._clock = clock
        self.width = None if width is None else max(width, FEWEST_WIDTH)
        self.narrow = width is not None and width < NARROW
        self.short = width is not None and width < MEDIUM
        self.tiny = width is not None and width < TINY
        self._route_width = (
            0  # of the widest route so far: columns stay aligned without room for the widest possible one
        )

    def render(self, event: Event, bodies: Bodies | None = None) -> str:
        """Return the line of an event, without a newline."""
        if not isinstance(event, Exchange):
            return self._other(event)
        if bodies is None:
            bodies = read_bodies(event)
        trouble = _trouble(event.unanswered, bodies)
        known = _known(event, bodies)
        client_id = "-" if event.client_id is None else word(event.client_id, CLIENT_ID)
        if self.style is PLAIN and self.width is None:
            head = f"{self._time(event, 6)}  {self._route(event)}  {_latency(event):>7}"
            tail = "  ".join(filter(None, (trouble, known, notes(event))))
            return f"{head}  {_api(event.api_key, event.api_version):<22}  {client_id:<16}  {tail}".rstrip()
        return self._on_terminal(event, client_id, trouble, known)

    def comment(self, event: Event) -> str:
        """Return the line for the comment on a packet: with single spaces, and of any width."""
        return " ".join(self.render(event).split())

    def comments(self, exchange: Exchange, bodies: Bodies) -> tuple[str, str]:
        """As ``comment``: the one on a request, which says only what it shows, and the one on its response."""
        connection = exchange.connection
        head = f"{render_clock(time_of(exchange))} {_addresses(connection.client, connection.broker, False)}"
        what = f"{_api(exchange.api_key, exchange.api_version)} {_client(exchange.client_id)}"
        on_request = on_response = ""
        if exchange.request is not None:
            on_request = f"{head} - {what}{_tail(exchange, _of_request(bodies), alone=True)}"
        if exchange.response is not None:
            on_response = f"{head} {_latency(exchange)} {what}{_tail(exchange, bodies, alone=False)}"
        return on_request, on_response

    def _on_terminal(self, event: Exchange, client_id: str, trouble: str, known: str) -> str:
        """Return a line cut to the width. On a narrow terminal errors come before the client id."""
        style = self.style
        named = (style.key, cut(client_id, NARROW_CLIENT_ID) if self.narrow else f"{client_id:<16}")
        wrong = (style.error, trouble)
        parts = [
            (style.dim, self._time(event, 0 if self.tiny else 3 if self.short else 6)),
            (style.dim, "" if self.tiny else self._route(event)),
            ("", f"{_latency(event):>7}"),
            (style.name, f"{_api(event.api_key, event.api_version):<{14 if self.narrow else 20}}"),
            *((wrong, named) if self.narrow else (named, wrong)),
            ("", known.replace("  ", " ") if self.narrow else known),
            (style.warning, notes(event)),
        ]
        return self._join(parts)

    def _other(self, event: Event) -> str:
        what, severe = _other_words(event)
        parts = [
            (self.style.dim, self._time(event, 3 if self.short else 6)),
            (self.style.dim, self._route(event)),
            (self.style.error if severe else self.style.warning, printable(what, 400)),
        ]
        return self._join(parts)

    def _time(self, event: Event, digits: int) -> str:
        if self._clock is not None:
            return self._clock.render(time_of(event), digits)
        return render_clock(time_of(event))[: 9 + digits if digits else 8]

    def _route(self, event: Event) -> str:
        connection = event.connection
        route = _addresses(connection.client, connection.broker, self.short)
        width = self._route_width = max(self._route_width, min(len(route), WIDEST_ROUTE))
        return f"{route:<{width}}"

    def _join(self, parts: list[tuple[str, str]]) -> str:
        """Join coloured parts with gaps, cut to the width."""
        gap = 1 if self.narrow else 2
        left = 1_000_000 if self.width is None else self.width
        line: list[str] = []
        for code, text in parts:
            if not text or left <= 0:
                continue
            shown = cut(text, left)
            left -= (len(shown) if shown.isascii() else cell_len(shown)) + gap
            line.append(self.style.paint(code, shown))
        return (" " * gap).join(line).rstrip()


def time_of(event: Event) -> int:
    """Return the time that a listing shows for an event, in ns since the epoch; for an exchange, when its request began."""
    frame = event.request or event.response if isinstance(event, Exchange) else None
    return event.at if frame is None else frame.started_at


@lru_cache(maxsize=1024)
def _client(client_id: str | None) -> str:
    """Return the client id as a comment shows it."""
    return "-" if client_id is None else " ".join(word(client_id, CLIENT_ID).split())


def _of_request(bodies: Bodies) -> Bodies:
    """Return what the request alone shows."""
    alone = Bodies(bodies.request, undecoded=bodies.undecoded if bodies.request is None else None)
    if "request" in bodies.beginnings:
        alone.beginnings = {"request": bodies.beginnings["request"]}
    return alone


def _tail(exchange: Exchange, bodies: Bodies, alone: bool) -> str:
    """Return what follows the client id in a comment, with a space before it: trouble, key facts and notes; or ""."""
    is_whole = is_plain(exchange.request) and is_plain(exchange.response)
    noted = "" if is_whole else notes(exchange.copy(response=None) if alone else exchange)
    return _joined(_trouble(exchange.unanswered, bodies), _known(exchange, bodies), noted)


def _known(exchange: Exchange, bodies: Bodies) -> str:
    """Return the key facts; many exchanges repeat earlier ones, so they are cached if they depend on small bodies alone."""
    request, response, names = bodies.request or b"", bodies.response or b"", exchange.topic_names
    if (
        len(request) + len(response) <= SMALL_BODIES
        and not (bodies.embedded or bodies.beginnings or bodies.sasl_mechanism)
        and isinstance(names, dict)
        and not names
    ):
        return _facts_of_bodies(exchange.api_key, bodies.request, bodies.response)
    return key_facts(exchange.api_key, bodies, names)


@lru_cache(maxsize=2048)
def _facts_of_bodies(api_key: int | None, request: bytes | None, response: bytes | None) -> str:
    return key_facts(api_key, Bodies(request, response), {})


def _joined(*parts: str) -> str:
    words = " ".join(" ".join(parts).split())
    return f" {words}" if words else ""


def _latency(exchange: Exchange) -> str:
    return "-" if exchange.latency_ns is None else render_duration(exchange.latency_ns)


@lru_cache(maxsize=4096)
def _addresses(client: str, broker: str, short: bool) -> str:
    return f"{_short(client)}→{_short(broker)}" if short else f"{client} → {broker}"


def _short(address: str) -> str:
    """Shorten an address to the last part of its host: 10.0.0.9:9092 becomes .9:9092, [::1]:9092 becomes :1:9092."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    start = max(host.rfind("."), host.rfind(":"))
    return f"{host[start:] if start >= 0 else host}:{port}"


@lru_cache(maxsize=4096)
def _api(api_key: int | None, api_version: int | None) -> str:
    if api_key is None:
        return "(request not seen)"
    api = facts().apis.get(api_key)
    return f"{api.name if api is not None else f'API {api_key}'} v{api_version}"


def _trouble(unanswered: str | None, bodies: Bodies) -> str:
    """Return what went wrong, in words: undecoded, unanswered, the names of error codes; "" if nothing did."""
    words: list[str] = []
    if bodies.undecoded is not None:
        words.append(f"UNDECODED {printable(bodies.undecoded)}")
    if unanswered is not None:
        words.append(f"unanswered: {printable(unanswered)}")
    if has_errors(bodies.response):
        errors = count_errors(bodies.response)
        words += [error_name(code) + (f" x{count}" if count > 1 else "") for code, count in errors.most_common(4)]
        if len(errors) > 4:
            words.append(f"and {len(errors) - 4} other errors")
    return "  ".join(words)


def _side(direction: Direction) -> str:
    return "client" if direction == Direction.REQUEST else "broker"


def _other_words(event: Event) -> tuple[str, bool]:
    """Describe an event that is no exchange; also return whether it is severe."""
    match event:
        case SaslToken():
            from_client = event.direction == Direction.REQUEST
            words = [] if event.parts is None else token_words(event.parts, from_client=from_client)
            known = f": {event.connection.sasl_mechanism} {' '.join(words)}" if words else ""
            return f"SASL token from {_side(event.direction)}, {render_size(event.size)}, not shown{known}", False
        case Gap():
            return _gap(event), True
        case BadFrame():
            return f"bad frame from {_side(event.direction)}: {event.reason}", True
        case Note():
            return f"{_side(event.direction)}: {event.what}", False
        case NotKafka():
            return f"not Kafka ({event.kind}): {event.what}", False
    tls = event.connection.tls
    return "" if tls is None else tls_words(tls), False


def _gap(event: Gap) -> str:
    side, skipped = _side(event.direction), render_size(event.skipped)
    if event.ends_in_size_field:
        return f"{skipped} of an unfinished size field from {side}: {event.cut.text}"
    passed_over = f"{skipped} from {side} passed over until the next frame"
    if event.size == 0:
        return passed_over
    size = "an unknown number of bytes" if event.size is None else render_size(event.size)
    missing = f"gap: {size} from {side} {event.cut.text}"
    return f"{missing}, {passed_over}" if event.skipped else missing
