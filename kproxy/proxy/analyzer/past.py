"""Past: the last exchanges, kept in memory so that the live page begins with them and not with its first visitor.

Nothing is decoded or copied for it: an exchange owns its bytes, and is released when newer ones need the room. Exchanges of
groups and transactions are few and explain what comes later, so they have room of their own and stay longer than fetches.
"""

from collections import deque
from heapq import merge

from kproxy.output.bodies import Bodies
from kproxy.pipeline.output import End, Output, Source
from kproxy.proxy.analyzer.rare_exchanges import ALWAYS
from kproxy.session import Event, Exchange

OVERHEAD = 1_500  # about how many bytes an exchange takes in addition to its frames
RARE_SHARE = 4  # one in so many bytes is only for exchanges of groups and transactions

_Kept = tuple[int, Source, Event | End, int]  # order, source, event, bytes


class Past(Output):
    """The last exchanges and ends of connections.

    Args:
        most: about how many bytes all of them may take.
    """

    def __init__(self, most: int) -> None:
        rare = most // RARE_SHARE
        self._rare = _Bounded(rare)
        self._others = _Bounded(most - rare)
        self._source = Source(0, "")
        self._count = 0

    @property
    def size(self) -> int:
        """About how many bytes are kept."""
        return self._rare.size + self._others.size

    def start_source(self, source: Source) -> None:
        """See Output."""
        self._source = source

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        if type(event) is Exchange:
            request, response = event.request, event.response
            size = OVERHEAD + (len(request.data) if request else 0) + (len(response.data) if response else 0)
            self._keep(self._rare if event.api_key in ALWAYS else self._others, event, size)

    def end(self, end: End) -> None:
        """See Output."""
        self._keep(self._others, end, OVERHEAD // 4)

    def flush(self) -> None:
        """See Output."""

    def close(self, error: BaseException | None = None) -> None:
        """See Output."""

    def replay(self, output: Output) -> None:
        """Write event is kept to another output, in the order in which it came."""
        source = None
        for _, kept_source, event, _ in merge(self._rare.kept, self._others.kept, key=lambda one: one[0]):
            if kept_source is not source:
                output.start_source(kept_source)
                source = kept_source
            if isinstance(event, End):
                output.end(event)
            else:
                output.write(event, None)

    def _keep(self, into: "_Bounded", what: Event | End, size: int) -> None:
        self._count += 1
        into.add((self._count, self._source, what, size))


class _Bounded:
    """A queue with a bound in bytes: the oldest entries give way."""

    def __init__(self, most: int) -> None:
        self.kept: deque[_Kept] = deque()
        self.size = 0
        self._most = most

    def add(self, kept: _Kept) -> None:
        """Add an entry, and release the oldest ones that do not fit."""
        self.kept.append(kept)
        self.size += kept[3]
        while self.size > self._most and self.kept:
            self.size -= self.kept.popleft()[3]
