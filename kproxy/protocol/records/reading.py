"""Read the batches of a records field, and the bytes left over at its ends.

A chunk of a snapshot (FetchSnapshot's UnalignedRecords) begins at any byte of a log. It has batches of magic 2 only. A header
in it is accepted if its fields are consistent and the CRC-32C is correct; at the beginning of the chunk, the fields are enough.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kproxy.errors import Malformed
from kproxy.protocol.records.batches import Batch, OpenBatch, count_plain, find_header, next_batch
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits

SIZE_AT, MAGIC_AT = 8, 16
LOG_OVERHEAD = 12
LEAST_SIZE = 14  # LegacyRecord.RECORD_OVERHEAD_V0
LEAST_SIZE_2 = 49  # a header of magic 2 without its offset and size
FILLER = b"\xff" * 8  # offset -1


@dataclass(frozen=True, slots=True)
class Tail:
    """Bytes behind the last complete batch.

    ``kind``: "partial" (an incomplete batch, which is normal at the end of a Fetch response), "overflow" (filler that a broker
    adds behind down-converted batches: LazyDownConversionRecordsSend), or "error" (bytes that cannot be a batch).
    """

    kind: str
    position: int  # in the field
    size: int  # bytes present
    reason: str


class Batches(list[Batch]):
    """The complete batches of a records field, in order, and the bytes around them.

    ``skipped_start``: bytes before the first batch, if the field may begin inside one; ``tail``: the bytes behind the last
    complete batch, or None.
    """

    skipped_start: int = 0
    tail: Tail | None = None

    @property
    def error(self) -> str | None:
        """Why the field could not be read to its end; None, too, if only the last batch is incomplete."""
        return self.tail.reason if self.tail is not None and self.tail.kind == "error" else None


def read_batches(
    data: bytes, *, unaligned: bool = False, limits: Limits = DEFAULT_LIMITS, start: int = 0, end: int | None = None
) -> Batches:
    """Return the batch headers of a records field, of any magic, without decompression.

    With *unaligned* (FetchSnapshot) the field may begin inside a batch, and the first complete one is searched for.
    *start*, *end*: where the field is in *data*; places are those in *data*.
    """
    found_batches: list[Batch] = []
    limit = len(data) if end is None else end
    start = first_batch_at(data) if unaligned else start
    reached = next_batch(data, start, found_batches, limits.batches, limit)
    batches = Batches(found_batches)
    batches.skipped_start = start if unaligned else 0
    if reached == limit:
        return batches
    batches.tail = tail_of(data, reached, limit)
    if batches.tail is not None and len(batches) >= limits.batches:
        batches.tail = Tail(
            "error", reached, limit - reached, f"more than {limits.batches:,} batches (at byte {reached})"
        )
    return batches


def open_batches(batches: Iterable[Batch], limits: Limits) -> Iterator[OpenBatch]:
    """Open the batches one by one, under the limits for one batch and for all together."""
    spent = 0
    for batch in batches:
        opened = batch.open(limits.after(spent))
        spent += opened.unpacked_size
        yield opened


def count_records(data: bytes) -> int:
    """Count the records of a field: magic 2 by the headers, magic 0 and 1 by walking the messages, also in wrappers."""
    count, position = count_plain(data)
    spent = 0
    while position < len(data):
        wrapper: list[Batch] = []
        end = next_batch(data, position, wrapper, 1)
        if end == position:
            break
        opened = wrapper[0].open(DEFAULT_LIMITS.after(spent))
        spent += opened.unpacked_size
        more, position = count_plain(data, end)
        count += opened.claimed + more
    return count


def tail_of(data: bytes, position: int, end: int) -> Tail | None:
    """Describe the bytes from *position* to *end*, where no complete batch begins; None if there are none."""
    rest = data[position : min(position + MAGIC_AT + 1, end)]
    left = end - position
    if left == 0:
        return None
    kind, reason = _what_is_left(rest, left)
    return Tail(kind, position, left, f"{reason} (at byte {position})")


def _what_is_left(rest: bytes, left: int) -> tuple[str, str]:
    """Return kind and reason of a Tail, by the checks of ByteBufferLogInputStream in their order."""
    if len(rest) < LOG_OVERHEAD:
        return "partial", f"{left} bytes of a batch"
    size = int.from_bytes(rest[SIZE_AT:LOG_OVERHEAD], "big", signed=True)
    if size < LEAST_SIZE:
        return "error", f"a batch of {size} bytes, which is less than {LEAST_SIZE}"
    if rest[:SIZE_AT] == FILLER and size + LOG_OVERHEAD > left:
        return "overflow", f"{left} bytes of filler"
    if len(rest) > MAGIC_AT and rest[MAGIC_AT] > 2:
        return "error", f"a batch of magic {int.from_bytes(rest[MAGIC_AT:], 'big', signed=True)}"
    if size + LOG_OVERHEAD > left:
        return "partial", f"{left} of the {size + LOG_OVERHEAD} bytes of a batch"
    return "error", f"a batch of magic 2 of {size} bytes, which is less than {LEAST_SIZE_2}"


MOST_CRC = 4  # bytes checksummed altogether are at most this many times the chunk's size
CANDIDATE = 1024  # the least price of one candidate, in bytes


def first_batch_at(data: bytes) -> int:
    """Return the position of the first batch, or the chunk's size if there is none."""
    position = find_header(data, 0)
    budget = MOST_CRC * len(data) + CANDIDATE
    while position > 0 and budget > 0:
        size = _whole_size(data, position)
        if size and Batch(data, position).crc_valid:
            return position
        budget -= size + CANDIDATE
        position = find_header(data, position + 1)
    return len(data) if position else 0


def _whole_size(data: bytes, position: int) -> int:
    try:
        return Batch(data, position).size
    except Malformed:
        return 0
