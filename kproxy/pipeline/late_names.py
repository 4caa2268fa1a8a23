"""Hold events back until their topics have names, for captures that are shuffled or start late.

Since Kafka 3.1 requests name topics by id, and only a few responses map an id to a name. Those come first on the wire, but not
always in the file. Order is kept: all events behind a waiting one wait, too. Waiting for names that a broker may tell ends when
NAMED exchanges in a row with that broker had all names: a later capture may be of other brokers. It ends for good when HELD
events or HELD_SIZE bytes are held, when BROKERS brokers are known, or when the source ends.
"""

from collections import deque
from collections.abc import Callable

from kproxy.pipeline.output import End
from kproxy.session import Event, Exchange
from kproxy.session.cluster import TopicNames

NAMED = 512  # exchanges of a broker with topic ids in a row whose names were all known: names do not come late here
BROKERS = 4_096
HELD = 4_096  # events
HELD_SIZE = 32 * 1024 * 1024  # bytes of their frames
LARGEST = 2 * 1024 * 1024  # bytes of an exchange whose ids are checked: decoded to objects it takes many times its size


class LateNames:
    """Passes on events and ends of connections in their order, possibly later.

    Args:
        write: receives each event.
        end: receives the end of a connection, or of one side of it.
        waits: False passes everything on immediately, for events that are watched live.
    """

    def __init__(self, write: Callable[[Event], None], end: Callable[[End], None], *, waits: bool = True) -> None:
        self._write = write
        self._end = end
        self._held: deque[Event | End] = deque()
        self._held_size = 0
        self._waits = waits
        self._named: dict[str, int] = {}  # by the address of the broker: exchanges in a row whose names were all known
        self.before_holding: Callable[[], None] = lambda: None  # called before an event is held; may raise

    @property
    def is_settled(self) -> bool:
        """Whether no event of the brokers that were seen so far will be held any more."""
        return not self._waits or (bool(self._named) and min(self._named.values()) >= NAMED)

    @property
    def holds(self) -> bool:
        """Whether events are held."""
        return bool(self._held)

    def write(self, event: Event) -> None:
        """Pass an event on, after those held before it, or hold it."""
        # the test of the type is that of _lacks_names: nearly all exchanges end here
        named = not self._waits or (type(event) is Exchange and type(event.topic_names) is not TopicNames)
        if not self._held and (named or not self._lacks_names(event)):
            self._write(event)
            return
        self.before_holding()
        self._held.append(event)
        self._held_size += _size(event)
        if len(self._held) > HELD or self._held_size > HELD_SIZE:
            self._waits = False
        self._release()

    def end(self, end: End) -> None:
        """Pass on the end of a connection or of one side of it, after the events held before it."""
        if self._held:
            self._held.append(end)
        else:
            self._end(end)

    def close(self) -> None:
        """Pass on everything held, as the source has ended."""
        waits, self._waits = self._waits, False
        self._release()
        self._waits = waits

    def _release(self) -> None:
        """Pass on held events, up to the first one that still lacks names."""
        while self._held:
            item = self._held[0]
            if isinstance(item, Event):
                if self._waits and self._lacks_names(item):
                    return
                self._held_size -= _size(item)
                self._write(item)
            else:
                self._end(item)
            self._held.popleft()

    def _lacks_names(self, event: Event) -> bool:
        """Return whether a topic in the event has no name yet."""
        if not isinstance(event, Exchange) or type(event.topic_names) is not TopicNames:  # an ABC: isinstance is slow
            return False
        if _size(event) > LARGEST:
            return False
        broker = event.connection.broker
        named = self._named.get(broker, 0)
        if named >= NAMED:
            return False
        nameless = event.topic_names.nameless
        self._named[broker] = 0 if nameless else named + 1
        self._waits &= len(self._named) <= BROKERS
        return nameless


def _size(event: Event) -> int:
    if not isinstance(event, Exchange):
        return 0
    return sum(frame.wire_size for frame in (event.request, event.response) if frame is not None)
