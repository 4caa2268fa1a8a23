"""Holds events back until the topics in them have names, where names come late: in a shuffled capture, or one that starts late.

Since Kafka 3.1 requests name topics by id, and only a few responses tell which name goes with which id. They come first on the
wire, but not always in the file. Order is kept: behind an event that waits all others wait, too. Soon enough names are there
or will never come; from then on nothing is looked at.
"""

from collections import deque
from collections.abc import Callable

from kproxy.capture import Closed, Ended
from kproxy.session import Event, Exchange
from kproxy.session.cluster import TopicNames

Item = Event | tuple[int, Ended | Closed]
NAMED = 512  # exchanges with topic ids in a row, all named when they came: names do not come late here
HELD = 4_096  # events
HELD_SIZE = 32 * 1024 * 1024  # bytes of their frames
LARGEST = 2 * 1024 * 1024  # bytes of an exchange that is looked into: as objects it would be many times its size


class LateNames:
    """Takes events, and the ends of connections between them; gives them on, in the same order.

    Args:
        give: takes an event.
        ended: takes the number of a connection, and how it or one side of it ended.
        waits: False where somebody watches and nothing is to be held back.
    """

    def __init__(
        self, give: Callable[[Event], None], ended: Callable[[int, Ended | Closed], None], *, waits: bool = True
    ) -> None:
        self._give = give
        self._ended = ended
        self._held: deque[Item] = deque()
        self._held_size = 0
        self._waits = waits
        self._named = 0
        self._missing: set[str] = set()  # topic ids of the first that is held

    def take(self, event: Event) -> None:
        """Take an event; those whose turn it is are given on."""
        if not self._held and not (self._waits and self._lacks_names(event)):
            self._give(event)
            return
        self._held.append(event)
        self._held_size += _size(event)
        if len(self._held) > HELD or self._held_size > HELD_SIZE:
            self._waits = False
        self._give_on()

    def end(self, number: int, item: Ended | Closed) -> None:
        """Take the end of a connection, or of one side of it."""
        if self._held:
            self._held.append((number, item))
        else:
            self._ended(number, item)

    def close(self) -> None:
        """Nothing more will come: give everything on."""
        waits, self._waits = self._waits, False
        self._give_on()
        self._waits = waits

    def _give_on(self) -> None:
        while self._held:
            item = self._held[0]
            if isinstance(item, Event):
                if self._waits and self._lacks_names(item):
                    return
                self._held_size -= _size(item)
                self._give(item)
            else:
                self._ended(*item)
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
