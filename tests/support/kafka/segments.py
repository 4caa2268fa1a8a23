"""What a broker has written to its disk: the batches of a topic, read from its segment files.

The layout of a batch is that of DefaultRecordBatch (magic 2).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_OVERHEAD = 12  # base_offset and batch_length, which does not count itself
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass(frozen=True)
class Batch:
    """The header of one."""

    partition: int
    base_offset: int
    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    transactional: bool
    control: bool


def batches(folder: Path, topic: str) -> list[Batch]:
    """Every batch of *topic* in the log directory *folder* of one broker, control batches too."""
    found: list[Batch] = []
    for segment in sorted(folder.glob(f"{topic}-*/*.log")):
        partition = segment.parent.name.removeprefix(f"{topic}-")
        if partition.isdigit():
            found += _read(segment.read_bytes(), int(partition))
    return found


def _read(data: bytes, partition: int) -> Iterator[Batch]:
    pos = 0
    while pos + _OVERHEAD < len(data):
        base_offset, length = unpack_from(">qi", data, pos)
        if length <= 0:  # preallocated, not written yet
            return
        attributes, producer_id, epoch, sequence, count = unpack_from(">h20xqhii", data, pos + 21)
        yield Batch(
            partition,
            base_offset,
            CODECS[attributes & 7],
            producer_id,
            epoch,
            sequence,
            count,
            bool(attributes & _TRANSACTIONAL),
            bool(attributes & _CONTROL),
        )
        pos += _OVERHEAD + length


def record_count(found: list[Batch]) -> int:
    """Records in *found* that are not control records."""
    return sum(batch.count for batch in found if not batch.control)
