"""One line an exchange, for people: time, client → broker, latency, API and version, client id, key facts, errors.

    09:36:37.151234  127.0.0.1:51234 → 127.0.0.1:9092  3.10 ms  Produce v13  orders-producer  orders-0  5.2 KB  acks=all

On a terminal the line is cut to the width, and below 160 columns an address to the last part of its host and the port;
anywhere else nothing is cut but single names. What comes from the wire is made printable: one event, one line.
"""

from collections.abc import Callable
from functools import lru_cache

from rich.cells import cell_len

from kproxy.output.bodies import Bodies, notes
from kproxy.output.escaping import printable
from kproxy.output.exchange_line import read_bodies
from kproxy.output.text.exchange_words import (
    PlainLines,
    api_words,
    client_words,
    clock_words,
    fact_words,
    latency_words,
    time_of,
    trouble_words,
)
from kproxy.output.text.key_facts import token_words
from kproxy.output.text.styles import PLAIN, Style, cut
from kproxy.output.times import Clock, render_size
from kproxy.output.tls import tls_words
from kproxy.session import BadFrame, Direction, Event, Exchange, Gap, Note, NotKafka, SaslToken

TINY = 60  # cells; narrower terminals get no route, and times in whole seconds
NARROW = 100
MEDIUM = 160
NARROW_CLIENT_ID = 12
FEWEST_WIDTH = 40


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
        self._lines = PlainLines(self._other, clock)
        # line(event, bodies) returns the line of an event in UTF-8, newline included
        self.line: Callable[[Event, Bodies | None], bytes] = (
            self._lines.line if style is PLAIN and width is None else self._on_terminal
        )

    def render(self, event: Event, bodies: Bodies | None = None) -> str:
        """Return the line of an event, without a newline."""
        return self.line(event, bodies)[:-1].decode()

    def comment(self, event: Event) -> str:
        """Return the line for the comment on a packet: with single spaces, and of any width."""
        return " ".join(self.render(event).split())

    def _on_terminal(self, event: Event, bodies: Bodies | None = None) -> bytes:
        """Return a line cut to the width. On a narrow terminal errors come before the client id."""
        if not isinstance(event, Exchange):
            return self._other(event)
        if bodies is None:
            bodies = read_bodies(event)
        style = self.style
        client_id, known = client_words(event.client_id), fact_words(event, bodies)
        named = (style.key, cut(client_id, NARROW_CLIENT_ID) if self.narrow else f"{client_id:<16}")
        wrong = (style.error, trouble_words(event.unanswered, bodies))
        parts = [
            (style.dim, self._time(event, 0 if self.tiny else 3 if self.short else 6)),
            (style.dim, "" if self.tiny else self._route(event)),
            ("", f"{latency_words(event):>7}"),
            (style.name, f"{api_words(event.api_key, event.api_version):<{14 if self.narrow else 20}}"),
            *((wrong, named) if self.narrow else (named, wrong)),
            ("", known.replace("  ", " ") if self.narrow else known),
            (style.warning, notes(event)),
        ]
        return self._join(parts)

    def _other(self, event: Event) -> bytes:
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
        return clock_words(time_of(event))[: 9 + digits if digits else 8]

    def _route(self, event: Event) -> str:
        connection = event.connection
        route = _addresses(connection.client, connection.broker, self.short)
        return f"{route:<{self._lines.widen(len(route))}}"

    def _join(self, parts: list[tuple[str, str]]) -> bytes:
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
        return f"{(' ' * gap).join(line).rstrip()}\n".encode("utf-8", "backslashreplace")


@lru_cache(maxsize=4096)
def _addresses(client: str, broker: str, short: bool) -> str:
    return f"{_short(client)}→{_short(broker)}" if short else f"{client} → {broker}"


def _short(address: str) -> str:
    """Shorten an address to the last part of its host: 10.0.0.9:9092 becomes .9:9092, [::1]:9092 becomes :1:9092."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    start = max(host.rfind("."), host.rfind(":"))
    return f"{host[start:] if start >= 0 else host}:{port}"


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
