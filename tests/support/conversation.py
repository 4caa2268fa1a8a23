"""Scripted conversations: who sends what, in order, and what the session says of it, one readable line an event.

    assert converse(client >> heartbeat(7), broker >> heartbeat_answer(7)) == ["Heartbeat v0 #7 answered"]

Each step happens one microsecond after the one before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import pack

from kproxy.protocol import request_message
from kproxy.session import BadFrame, Cut, Direction, Event, Exchange, Gap, Note, NotKafka, SaslToken, Session
from tests.support.frames import array, batch, record, request, response, sized, string, varint

Step = Callable[[Session, int], list[Event]]


@dataclass(frozen=True)
class Side:
    """One end of the connection; ``side >> data`` sends."""

    direction: Direction

    def __rshift__(self, data: bytes) -> Step:
        return lambda session, at: session.receive(self.direction, data, at)

    def loses(self, size: int | None, cut: Cut = Cut.MISSING) -> Step:
        """Bytes of this side are not here."""
        return lambda session, at: session.gap(self.direction, size, at, cut)

    def finishes(self) -> Step:
        """This side sends FIN."""
        return lambda session, at: session.end(self.direction, at)

    def resets(self) -> Step:
        """This side sends RST, which ends its own direction."""
        return lambda session, at: session.end(self.direction, at, self.direction)

    def is_reset(self) -> Step:
        """The other side's RST ends this side's direction."""
        return lambda session, at: session.end(self.direction, at, 1 - self.direction)


client = Side(Direction.REQUEST)
broker = Side(Direction.RESPONSE)


def closing(session: Session, at: int) -> list[Event]:
    """The step with which a script ends when it tells of the end."""
    return session.close(at)


def new_session(**options: object) -> Session:
    """A session between two made-up addresses."""
    return Session(number=1, client="10.0.0.5:51234", broker="10.0.0.9:9092", **options)  # type: ignore[arg-type]


def events_of(*steps: Step, session: Session | None = None) -> list[Event]:
    """Play the steps; every event that was said."""
    played = new_session() if session is None else session
    return [event for number, step in enumerate(steps, 1) for event in step(played, number * 1_000)]


def converse(*steps: Step, session: Session | None = None) -> list[str]:
    """Play the steps; a line for every event that was said."""
    return [tell(event) for event in events_of(*steps, session=session)]


def tell(event: Event) -> str:
    """An event in one line, with what tests care about."""
    match event:
        case Exchange():
            return _tell_exchange(event)
        case SaslToken():
            return f"token of {event.size} bytes in the {event.direction}"
        case Gap():
            return f"gap in {event.direction}s: {event.size} missing, {event.skipped} skipped, {event.lost_frames} lost"
        case NotKafka():
            return f"not Kafka but {event.kind} in the {event.direction}"
        case Note():
            return f"note on the {event.direction}: {event.what}"
        case BadFrame():
            return f"bad {event.direction}: {event.reason}"
        case _:
            raise AssertionError(f"an unknown event: {event!r}")


def _tell_exchange(exchange: Exchange) -> str:
    message = None if exchange.api_key is None else request_message(exchange.api_key)
    name = "?" if message is None else message.name.removesuffix("Request")
    end = "answered" if exchange.response else "unanswered" if exchange.expects_response else "needs no answer"
    unread = "" if exchange.undecoded is None else ", undecoded"
    return f"{name} v{exchange.api_version} #{exchange.correlation_id} {end}{unread}"


Headers = list[tuple[str, bytes | None]]
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"  # of the specification's examples
PARENT = f"00-{TRACE}-{SPAN}-01".encode()


def headers_of(headers: Headers) -> bytes:
    """The headers of a record, their count first."""
    pairs = (sized(name.encode()) + sized(value) for name, value in headers)
    return varint(len(headers)) + b"".join(pairs)


def records_of(*headers: Headers) -> bytes:
    """A batch with a record for each list of headers."""
    records = (record(b"k", b"v", at, headers_of(each)) for at, each in enumerate(headers))
    return batch(b"".join(records), len(headers))


def produce_exchange(*fields: bytes, error: int = 0, acks: int = -1) -> Exchange:
    """Produce v7 of the topic orders; a records field for each partition, from 0."""
    partitions = (pack(">ii", at, len(data)) + data for at, data in enumerate(fields))
    body = string(None) + pack(">hi", acks, 30_000) + array(string("orders") + array(*partitions))
    sent = client >> request(0, 7, 5, body)
    answers = (pack(">ihqqq", at, error, 41 + at, -1, 0) for at in range(len(fields)))
    answered = broker >> response(5, array(string("orders") + array(*answers)) + pack(">i", 0))
    events = events_of(sent, answered) if acks else events_of(sent)
    [exchange] = [event for event in events if isinstance(event, Exchange)]
    return exchange


def fetch_exchange(data: bytes) -> Exchange:
    """Fetch v4 of partition 3 of orders, in a response with these records."""
    asked = array(string("orders") + array(pack(">iqi", 3, 7, 1 << 20)))
    sent = client >> request(1, 4, 6, pack(">iiiib", -1, 500, 1, 1 << 20, 0) + asked)
    brought = pack(">ihqq", 3, 0, 8, 8) + array() + pack(">i", len(data)) + data
    answered = broker >> response(6, pack(">i", 0) + array(string("orders") + array(brought)))
    [exchange] = [event for event in events_of(sent, answered) if isinstance(event, Exchange)]
    return exchange
