"""Records that are costly or impossible to change: which are changed in a thread; counts of batches left unchanged."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from kproxy.filters.contract import Runtime
from kproxy.protocol.records import Batch, Batches, Codec, read_batches
from kproxy.protocol.records.editing import HEADER
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits

LARGE_FRAME = 4_194_304  # bytes that take more than a millisecond to copy
AT_ONCE_OF_GZIP = 65_536  # bytes that gzip compresses in about a millisecond
MOST_BLOCKS = 16  # of a zstd frame that is changed at once: 10 of full size are 1.3 MB
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


class TakesLong(Exception):
    """What has to be done takes more than about a millisecond."""


def limits_at_once(frame: bytes, fields: Sequence[Batches], most: int) -> Limits | None:
    """Return the limits under which all batches of these fields decompress to *most* bytes at most; None if they have more."""
    batches = [batch for field in fields for batch in field]
    if len(frame) > LARGE_FRAME or sum(batch.size for batch in batches) > most:
        return None
    packed = [batch for batch in batches if batch.codec != Codec.NONE]
    if any(batch.codec == Codec.ZSTD and not _is_one_frame(batch) for batch in packed):
        return None
    most = min(most, AT_ONCE_OF_GZIP) if any(batch.codec == Codec.GZIP for batch in packed) else most
    return replace(DEFAULT_LIMITS, decompressed=most // max(len(packed), 1))


def _is_one_frame(batch: Batch) -> bool:
    from kproxy.protocol.records.zstd_frames import is_one_frame  # noqa: PLC0415 - the library takes memory

    records = memoryview(batch.data)[batch.position + HEADER.size : batch.position + batch.size]
    return is_one_frame(records, MOST_BLOCKS)


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
