"""Record batches as JSON to edit, and back: records by key, value and headers, each batch with a valid CRC.

    {"baseOffset": 0, "magic": 2, "compression": "gzip", "attributes": 0, "baseTimestamp": ..., "partitionLeaderEpoch": -1,
     "producerId": -1, "producerEpoch": -1, "baseSequence": -1,
     "records": [{"offset": 0, "timestamp": ..., "key": null, "value": "text", "headers": [{"key": "k", "value": "v"}]}]}

Keys and values that are UTF-8 are text, others {"base64": "..."}. Of the numbers outside of records, magic 0 and 1 have only
``attributes``. ``lastOffset`` appears if it is not that of the last record, as in compacted topics; ``maxTimestamp`` if it does
not follow from the records (LogAppendTime: readers see it, while timestamps are the producer's). A batch that cannot be read to
its end, whose CRC is wrong or that is a control batch is {"base64": "..."}; so are bytes behind the last batch, as brokers cut
off the last batch of a Fetch response.

A value in the JSON for which a batch has no place is a mistake. A batch that was not changed keeps its bytes.
"""

import json
from typing import Any

from kproxy.errors import EncodeError
from kproxy.filters.breakpoints.batch_values import (
    BatchMistake,
    from_base64,
    read_codec,
    read_number,
    read_record,
    shown_record,
    to_base64,
)
from kproxy.protocol.records import Codec, Limits, OpenBatch, open_batches, read_batches
from kproxy.protocol.records.editing import CONTROL, LOG_APPEND_TIME, RecordBatch, read_batch, write_batches

NEWEST_MAGIC = 2
MAGIC_AT, CRC_AT, LEGACY_CRC_AT = 16, 17, 12
LIMITS = Limits(decompressed=4 << 20, total=8 << 20, records=10_000)  # more text is too much to edit
MOST_RECORDS = 20_000  # of a field
NUMBERS = {  # name in JSON -> attribute of RecordBatch, bits
    "baseOffset": ("base_offset", 64),
    "attributes": ("attributes", 16),
    "baseTimestamp": ("base_timestamp", 64),
    "partitionLeaderEpoch": ("partition_leader_epoch", 32),
    "producerId": ("producer_id", 64),
    "producerEpoch": ("producer_epoch", 16),
    "baseSequence": ("base_sequence", 32),
}
OPTIONAL = {"lastOffset": ("last_offset", 64), "maxTimestamp": ("max_timestamp", 64)}
NO_PLACE = "has no place in a batch of magic {}"
WHY_NOT = {  # name -> why it cannot be what the JSON says
    "lastOffset": "is less than the offset of a record",
    "maxTimestamp": "follows from the timestamps of the records",
    "attributes": "has bits that this batch cannot have: the codec is compression, and bit 32 makes a control batch of it",
}


def shown_field(data: bytes) -> list[dict[str, Any]]:
    """Return a records field as a list of batches; batches beyond LIMITS and MOST_RECORDS as base64."""
    batches = read_batches(data)
    room = MOST_RECORDS
    shown = []
    for opened in open_batches(batches, LIMITS):
        room -= max(opened.batch.count or 1, 0)
        shown.append(_shown_batch(opened) if room >= 0 else {"base64": to_base64(opened.batch.raw)})
    if batches.tail is not None:
        shown.append({"base64": to_base64(data[batches.tail.position :])})
    return shown


def _shown_batch(opened: OpenBatch) -> dict[str, Any]:
    batch = opened.batch
    read = read_batch(opened)
    if not _is_whole(read) or not batch.crc_valid or batch.compression is None:
        return {"base64": to_base64(batch.raw)}
    shown: dict[str, Any] = {"magic": read.magic, "compression": batch.compression}
    for name, (attribute, _) in NUMBERS.items():
        if read.magic == NEWEST_MAGIC or name == "attributes":
            shown[name] = getattr(read, attribute)
    last = read.records[-1].offset if read.records else None
    if read.last_offset != last:
        shown["lastOffset"] = read.last_offset
    if read.attributes & LOG_APPEND_TIME or not read.records:
        shown["maxTimestamp"] = read.max_timestamp
    shown["records"] = [shown_record(record) for record in read.records]
    return shown


def _is_whole(read: RecordBatch) -> bool:
    return read.error is None and read.skipped is None and not read.is_control


def written_field(shown: Any, unchanged: "Unchanged", *, renumber: bool) -> bytes:
    """Return the bytes of a records field. Raises BatchMistake.

    Args:
        shown: what ``shown_field`` returned, edited; or base64.
        unchanged: the batches of the message as it came.
        renumber: number the records of changed batches without gaps, as brokers demand of a producer.
    """
    if isinstance(shown, str):
        return unchanged.with_checksums(from_base64(shown, ""))
    if not isinstance(shown, list):
        raise BatchMistake("", "is neither a list of batches nor base64")
    return b"".join(_written_batch(one, f"[{at}]", unchanged, renumber) for at, one in enumerate(shown))


def _written_batch(shown: Any, path: str, unchanged: "Unchanged", renumber: bool) -> bytes:
    if not isinstance(shown, dict):
        raise BatchMistake(path, "is no batch: an object with records")
    if set(shown) == {"base64"}:
        return unchanged.with_checksums(from_base64(shown["base64"], f"{path}.base64"))
    kept = unchanged.as_it_was(shown)
    if kept is not None:
        return kept
    batch = _batch(shown, path)
    if renumber:
        if batch.magic < NEWEST_MAGIC and batch.codec == Codec.NONE and batch.records:
            batch.base_offset = batch.records[0].offset  # each message is a batch
        batch.renumber()
    try:
        written = write_batches([batch])
    except EncodeError as error:
        raise BatchMistake(path, str(error)) from error
    _check_kept(shown, batch, written, path, renumber)
    return written


def _check_kept(shown: dict[str, Any], batch: RecordBatch, written: bytes, path: str, renumber: bool) -> None:
    """Raise BatchMistake for values that batches of that magic have no place for: an edit must not be lost silently."""
    read = [read_batch(opened) for opened in open_batches(read_batches(written), LIMITS)]
    if not all(_is_whole(one) for one in read):
        bits = bool(batch.attributes & CONTROL)
        raise BatchMistake(
            f"{path}.attributes" if bits else path, WHY_NOT["attributes"] if bits else "cannot be read again"
        )
    records = [record for one in read for record in one.records]
    wanted = map(shown_record, batch.records)
    for at, (want, got) in enumerate(zip(wanted, map(shown_record, records), strict=True)):
        for name in want:
            if want[name] != got[name]:
                raise BatchMistake(f"{path}.records[{at}].{name}", NO_PLACE.format(batch.magic))
    if not read:
        return
    for name in () if renumber else ("lastOffset", "maxTimestamp"):
        _check_number(name, shown, batch, read[-1], path)
    for name in NUMBERS:
        if not (renumber and name == "baseOffset"):
            _check_number(name, shown, batch, read[0], path)


def _check_number(name: str, shown: dict[str, Any], batch: RecordBatch, read: RecordBatch, path: str) -> None:
    attribute, _ = {**NUMBERS, **OPTIONAL}[name]
    if shown.get(name) is not None and shown[name] != getattr(read, attribute):
        reason = WHY_NOT.get(name, NO_PLACE.format(batch.magic))
        raise BatchMistake(f"{path}.{name}", reason)


def _batch(shown: dict[str, Any], path: str) -> RecordBatch:
    left = dict(shown)
    batch = RecordBatch(magic=read_number(left.pop("magic", 2), f"{path}.magic", 8))
    batch.codec = read_codec(left.pop("compression", "none"), f"{path}.compression")
    if batch.codec == Codec.ZSTD and batch.magic < NEWEST_MAGIC:
        raise BatchMistake(f"{path}.compression", f"zstd needs magic {NEWEST_MAGIC}")
    records = left.pop("records", None)
    if not isinstance(records, list):
        raise BatchMistake(f"{path}.records", "is missing, or no list")
    for name, (attribute, bits) in {**NUMBERS, **OPTIONAL}.items():
        if left.get(name) is not None:
            setattr(batch, attribute, read_number(left[name], f"{path}.{name}", bits))
        left.pop(name, None)
    if left:
        raise BatchMistake(path, f"has no field {', '.join(map(repr, left))}")
    batch.records = [read_record(one, f"{path}.records[{at}]") for at, one in enumerate(records)]
    with_headers = next((at for at, record in enumerate(batch.records) if record.headers), None)
    if batch.magic in (0, 1) and with_headers is not None:
        raise BatchMistake(f"{path}.records[{with_headers}].headers", NO_PLACE.format(batch.magic))
    return batch


class Unchanged:
    """The batches of a message as it came; those that a person has not changed leave with the same bytes."""

    def __init__(self, fields: list[bytes]) -> None:
        self._raw: set[bytes] = set()
        self._shown: dict[str, bytes] = {}
        for field in fields:
            batches = read_batches(field)
            self._raw.update(batch.raw for batch in batches)
            for shown, batch in zip(shown_field(field), batches, strict=False):  # *shown* may also have the cut-off end
                self._shown[_canonical(shown)] = batch.raw

    def as_it_was(self, shown: dict[str, Any]) -> bytes | None:
        """Return the bytes of the batch that has this JSON; None if it was changed."""
        return self._shown.get(_canonical(shown))

    def with_checksums(self, data: bytes) -> bytes:
        """Return a records field with a valid CRC in each batch, except batches that came with a wrong one."""
        out = bytearray()
        for batch in read_batches(data):
            raw = batch.raw
            out += raw if raw in self._raw or batch.crc_valid else _with_crc(raw, batch.computed_crc)
        return bytes(out) + data[len(out) :]


def _with_crc(raw: bytes, crc: int) -> bytes:
    at = CRC_AT if raw[MAGIC_AT] == 2 else LEGACY_CRC_AT
    return raw[:at] + (crc & 0xFFFFFFFF).to_bytes(4, "big") + raw[at + 4 :]


def _canonical(shown: dict[str, Any]) -> str:
    return json.dumps(shown, sort_keys=True)
