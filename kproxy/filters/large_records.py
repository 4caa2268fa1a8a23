"""Records that are costly or impossible to change: which are changed in a thread; counts of batches left unchanged."""

from collections.abc import Collection

from kproxy.filters.contract import Runtime
from kproxy.protocol.records import read_batches

LARGE = 131_072  # bytes of records whose change takes more than a millisecond
RATIO = 8  # by which compressed records usually grow; text with much repetition does
UNREADABLE, TOO_LARGE, TOO_OLD = "cannot be read", "unpack to too much", "are older than headers (magic 0 and 1)"


def take_long(fields: Collection[bytes]) -> bool:
    """Return whether changing the records fields of a message takes more than a millisecond.

    Such fields are changed in a thread: on the event loop, other connections would wait meanwhile.
    """
    size = sum(map(len, fields))
    if size > LARGE or size * RATIO <= LARGE:
        return size > LARGE
    return any(batch.codec for field in fields for batch in read_batches(field))


class BatchCounts:
    """Counts the batches that a filter could not change, by reason, in all workers; logs the first of each reason.

    Args:
        filter_name: name of the filter.
        event: what became of the batches, a shared count of the filter.
        outcome: the same in words, for the log.
    """

    def __init__(self, filter_name: str, event: str, outcome: str) -> None:
        self._filter_name = filter_name
        self._event = event
        self._outcome = outcome
        self._logged: set[str] = set()

    def add(self, runtime: Runtime, reason: str) -> None:
        runtime.shared_count(self._filter_name, self._event, reason).add()
        if reason not in self._logged:
            self._logged.add(reason)
            runtime.warn(f"{self._filter_name}: batches that {reason}", f"{self._outcome}; /metrics counts them")
