"""Hold events back until the topics in them have names, where names come late: in a shuffled capture, or one that starts late.

Since Kafka 3.1 requests name topics by id, and only a few responses tell which name goes with which id. They come first on the
wire, but not always in the file. Order is kept: behind an event that waits all others wait, too. Waiting ends for good with the
first of: NAMED exchanges in a row that had all names, HELD events or HELD_SIZE bytes held, the end of the source.
"""

from collections import deque
from collections.abc import Callable

from kproxy.pipeline.output import End
from kproxy.session import Event, Exchange
from kproxy.session.cluster import TopicNames

NAMED = 512  # exchanges with topic ids in a row, all named when they came: names do not come late here
HELD = 4_096  # events
HELD_SIZE = 32 * 1024 * 1024  # bytes of their frames
LARGEST = 2 * 1024 * 1024  # bytes of an exchange that is looked into: as objects it would be many times its size


class LateNames:
    """Takes events, and the ends of connections between them, and passes them on in the same order.

    Args:
        write: takes an event.
        end: takes the end of a connection, or of one side of it.
        waits: False where events are watched live, and none is to be held back.
    """

    def __init__(self, write: Callable[[Event], None], end: Callable[[End], None], *, waits: bool = True) -> None:
        self._write = write
        self._end = end
        self._held: deque[Event | End] = deque()
        self._held_size = 0
        self._waits = waits
        self._named = 0
        self.before_holding: Callable[[], None] = lambda: None  # called before an event is held; may raise

    @property
    def waits(self) -> bool:
        """Whether an event may still be held."""
        return self._waits

    @property
    def holds(self) -> bool:
        """Whether events are held."""
        return bool(self._held)

    def write(self, event: Event) -> None:
        """Pass an event on, with those held before it, or hold it."""
        if not self._held and not (self._waits and self._lacks_names(event)):
            self._write(event)
            return
        self.before_holding()
        self._held.append(event)
        self._held_size += _size(event)
        if len(self._held) > HELD or self._held_size > HELD_SIZE:
            self._waits = False
        self._release()

    def end(self, end: End) -> None:
        """Pass on that a connection, or one side of it, has ended; behind events that are held it is held, too."""
        if self._held:
            self._held.append(end)
        else:
            self._end(end)

    def close(self) -> None:
        """Pass on all that is held: the source has ended."""
        waits, self._waits = self._waits, False
        self._release()
        self._waits = waits

    def _release(self) -> None:
        """Pass on what is held, up to the first event that still lacks names."""
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
        """Whether a topic in the event has no name yet."""
        if not isinstance(event, Exchange) or type(event.topic_names) is not TopicNames:  # an ABC: isinstance is slow
            return False
        if _size(event) > LARGEST:
            return False
        if event.topic_names.nameless:
            self._named = 0
            return True
        self._named += 1
        self._waits &= self._named < NAMED
        return False


def _size(event: Event) -> int:
    if not isinstance(event, Exchange):
        return 0
    return sum(frame.wire_size for frame in (event.request, event.response) if frame is not None)
