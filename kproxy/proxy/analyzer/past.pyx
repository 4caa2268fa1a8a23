# cython: language_level=3, auto_pickle=False
"""PastEvents: the last exchanges and ends of connections, for a page that a browser opens later; compiled as every exchange passes."""

from collections import deque
from heapq import merge
from typing import TYPE_CHECKING

from libc.stdint cimport int64_t

from kproxy.session.exchanges cimport Exchange

from kproxy.pipeline.output import End, Output, Source
from kproxy.protocol import ApiKey
from kproxy.session import Event

if TYPE_CHECKING:
    from kproxy.output.bodies import Bodies

OVERHEAD: int = 1_500  # about how many bytes an exchange takes in addition to its frames
cdef int64_t EXCHANGE_OVERHEAD = OVERHEAD
RARE_SHARE: int = 4  # one in so many bytes is only for exchanges of groups and transactions
# APIs of groups and transactions whose exchanges analyses need one and all
ALWAYS: frozenset[int] = frozenset({
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.LEAVE_GROUP,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
})


cdef class _Kept:
    cdef int64_t order
    cdef int64_t size  # bytes
    cdef object source
    cdef object event  # or an End


cdef class _Bounded:
    """A queue with a bound in bytes: the oldest entries give way."""

    cdef object kept  # type: deque[_Kept]
    cdef int64_t size
    cdef int64_t most

    def __init__(self, int64_t most):
        self.kept = deque()
        self.most = most

    cdef int add(self, _Kept entry) except -1:
        """Add an entry, and release the oldest ones that do not fit."""
        self.kept.append(entry)
        self.size += entry.size
        while self.size > self.most and self.kept:
            self.size -= (<_Kept>self.kept.popleft()).size
        return 0


cdef class PastEvents:
    """The last exchanges and ends of connections.

    Args:
        most: about how many bytes all of them may take.
    """

    cdef _Bounded _rare
    cdef _Bounded _others
    cdef object _source
    cdef int64_t _count

    def __init__(self, most: int) -> None:
        rare = most // RARE_SHARE
        self._rare = _Bounded(rare)
        self._others = _Bounded(most - rare)
        self._source = Source(0, "")

    @property
    def size(self) -> int:
        """About how many bytes are kept."""
        return self._rare.size + self._others.size

    def start_source(self, source: Source) -> None:
        """See Output."""
        self._source = source

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        cdef Exchange exchange
        cdef int64_t size = EXCHANGE_OVERHEAD
        if type(event) is Exchange:
            exchange = event
            if exchange.request is not None:
                size += len(exchange.request.data)
            if exchange.response is not None:
                size += len(exchange.response.data)
            self._keep(self._rare if exchange.api_key in ALWAYS else self._others, event, size)

    def end(self, end: End) -> None:
        """See Output."""
        self._keep(self._others, end, EXCHANGE_OVERHEAD // 4)

    cdef int _keep(self, _Bounded into, event, int64_t size) except -1:
        cdef _Kept entry = _Kept.__new__(_Kept)
        self._count += 1
        entry.order, entry.size, entry.source, entry.event = self._count, size, self._source, event
        return into.add(entry)

    def replay(self, output: Output) -> None:
        """Write what is kept to another output, in the order in which it came."""
        cdef _Kept one
        source = None
        for entry in merge(self._rare.kept, self._others.kept, key=_order):
            one = entry
            if one.source is not source:
                output.start_source(one.source)
                source = one.source
            if isinstance(one.event, End):
                output.end(one.event)
            else:
                output.write(one.event, None)


def _order(_Kept one) -> int:
    return one.order
