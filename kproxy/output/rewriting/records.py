"""Rewrite records fields, record by record, and the messages in records of internal topics.

A batch that is compressed is compressed again with its codec, and may come out in another size: the codec's choices are lost; its
name, the records, offsets and times stay. A batch that cannot be rewritten
record by record, because it is damaged or cut off, keeps its header, and the rest becomes zeros.

Records of internal topics hold messages. __cluster_metadata and __remote_log_metadata: AbstractApiMessageSerde, three unsigned
varints (frame version, type, version) and the message. The coordinators' topics: CoordinatorRecordSerde, an int16 (key: the type;
value: the version) and the message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from kproxy.errors import DecodeError, EncodeError
from kproxy.protocol import Message, message
from kproxy.protocol.constants import COORDINATOR_TOPICS, FRAMED_TOPICS
from kproxy.protocol.embedded.reader import Reader
from kproxy.protocol.facts import facts
from kproxy.protocol.records import DEFAULT_LIMITS, OpenBatch, Record, open_batches, read_batches
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.records.editing import RecordBatch, read_batch, write_batches

HEADER_SIZE = {0: 26, 1: 34, 2: 61}  # of a batch, or of a message down to its key
MAGIC_AT, CRC_AT, COVERED_AT = 16, 17, 21

RewriteRecord: TypeAlias = Callable[[Record, RecordBatch], None]


def rewrite_records(data: bytes, rewrite: RewriteRecord, *, unaligned: bool = False, keeps_size: bool = False) -> bytes:
    """Return a records field after *rewrite* changed each of its records in place.

    Args:
        data: the field.
        rewrite: changes one record.
        unaligned: the field may begin inside a batch (FetchSnapshot); what is before the first whole batch is blanked.
        keeps_size: blank batches that come out in another size.
    """
    batches = read_batches(data, unaligned=unaligned)
    tail = data[batches.tail.position :] if batches.tail is not None else b""
    written = [bytes(batches.skipped_start)]
    for opened in open_batches(batches, DEFAULT_LIMITS):
        written.append(_rewrite(opened, rewrite, keeps_size=keeps_size))
    return b"".join([*written, _blank(tail)])


def _rewrite(opened: OpenBatch, rewrite: RewriteRecord, *, keeps_size: bool) -> bytes:
    """Rewrite a batch; blank it if it cannot be read, or cannot be written with its size."""
    batch, source = read_batch(opened), opened.batch
    if batch.error is not None or batch.skipped is not None or not source.crc_valid:
        return _blank(source.raw)
    changed = batch.copy()
    for record in changed.records:
        rewrite(record, changed)
    if changed.records == read_batch(opened).records:
        return source.raw
    try:
        written = write_batches([changed])
    except EncodeError:
        return _blank(source.raw)
    may_be_written = len(written) == len(source.raw) or not keeps_size
    return _with_header(written, source.raw) if may_be_written else _blank(source.raw)


def _with_header(written: bytes, raw: bytes) -> bytes:
    """Give a written batch its former header back, even one that contradicts its records."""
    if raw[MAGIC_AT] != 2:
        return written
    restored = written[:CRC_AT] + bytes(4) + raw[COVERED_AT : HEADER_SIZE[2]] + written[HEADER_SIZE[2] :]
    return restored[:CRC_AT] + crc32c(restored[COVERED_AT:]).to_bytes(4, "big") + restored[COVERED_AT:]


def _blank(raw: bytes) -> bytes:
    """Return a batch, which may be cut off, with its header and zeros for the rest."""
    magic = raw[MAGIC_AT] if len(raw) > MAGIC_AT else 0
    header = raw[: HEADER_SIZE.get(magic, MAGIC_AT + 1)]
    return header + bytes(len(raw) - len(header))


VERSION_SIZE = 2


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes that hold a message from *start* on."""

    message: Message
    version: int
    start: int


def payload_of_key(topic: str, key: bytes) -> Payload | None:
    """Return the message in the key of a coordinator's record, whose only version is 0; None if it is not known."""
    name = _key_name(topic, key)
    return None if name is None else Payload(message(name), 0, VERSION_SIZE)


def payload_of_value(topic: str, key: bytes | None, value: bytes) -> Payload | None:
    """Return the message in the value of a record; None if it is not known."""
    if topic in FRAMED_TOPICS:
        return _framed(value, FRAMED_TOPICS[topic])
    name = None if key is None else _key_name(topic, key)
    if name is None or len(value) < VERSION_SIZE:
        return None
    name = name.removesuffix("Key") + "Value"
    version = int.from_bytes(value[:VERSION_SIZE], "big")
    return Payload(message(name), version, VERSION_SIZE) if name in _names() else None


def _framed(value: bytes, module: str) -> Payload | None:
    reader = Reader("record of an internal topic", value)
    try:
        _, record_id, version = (reader.uvarint() for _ in range(3))
    except DecodeError:
        return None
    name = _by_id(module, "metadata").get(record_id)
    return None if name is None else Payload(message(name), version, reader.position)


def _key_name(topic: str, key: bytes) -> str | None:
    module = COORDINATOR_TOPICS.get(topic)
    if module is None or len(key) < VERSION_SIZE:
        return None
    return _by_id(module, "coordinator-key").get(int.from_bytes(key[:VERSION_SIZE], "big"))


@cache
def _names() -> frozenset[str]:
    return frozenset(facts().messages())


@cache
def _by_id(module: str, kind: str) -> dict[int, str]:
    """Map record ids to names, for the messages of one kind in one of Kafka's modules."""
    ending = "Key" if kind == "coordinator-key" else "Record"
    layouts = (facts().layouts(name)[0] for name in facts().messages() if name.endswith(ending))
    ids = ((layout.record_id, layout.name) for layout in layouts if layout.module == module and layout.type == kind)
    return {record_id: name for record_id, name in ids if record_id is not None}
