"""Record batches as JSON to edit, and back: their records by key, value and headers, each batch with its CRC right.

    {"baseOffset": 0, "magic": 2, "compression": "gzip", "attributes": 0, "baseTimestamp": ..., "partitionLeaderEpoch": -1,
     "producerId": -1, "producerEpoch": -1, "baseSequence": -1,
     "records": [{"offset": 0, "timestamp": ..., "key": null, "value": "text", "headers": [{"key": "k", "value": "v"}]}]}

Keys and values that are UTF-8 are text, others {"base64": "..."}. ``lastOffset`` is there where it is not that of the last
record, as in compacted topics; ``maxTimestamp`` where it does not follow from the records (LogAppendTime). A batch that cannot be
read whole, whose CRC is wrong or that is a control batch is {"base64": "..."}, as are bytes behind the last one: brokers cut off
the last batch of a Fetch response.

A batch that is not changed keeps its bytes, whatever they are.
"""

import base64
import binascii
import json
from typing import Any

from kproxy.errors import EncodeError
from kproxy.protocol.records import Codec, Limits, OpenBatch, open_batches, read_batches
from kproxy.protocol.records.editing import LOG_APPEND_TIME, RecordBatch, read_batch, write_batches
from kproxy.protocol.records.objects import Record

MAGIC_AT, CRC_AT, LEGACY_CRC_AT = 16, 17, 12
LIMITS = Limits(decompressed=4 << 20, total=8 << 20, records=10_000)  # more is no text that a person edits
MOST_RECORDS = 20_000  # of a field
NUMBERS = {  # name in JSON -> attribute of RecordBatch
    "baseOffset": "base_offset",
    "attributes": "attributes",
    "baseTimestamp": "base_timestamp",
    "partitionLeaderEpoch": "partition_leader_epoch",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
}
OPTIONAL = {"lastOffset": "last_offset", "maxTimestamp": "max_timestamp"}
OF_RECORDS = ("offset", "timestamp", "key", "value", "headers")


class BatchMistake(ValueError):
    """Something in the JSON of batches that cannot be written; *path* is below the records field ("[0].records[2].key")."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def shown_field(data: bytes) -> list[dict[str, Any]]:
    """A records field as a list of batches; those beyond LIMITS and MOST_RECORDS as base64."""
    batches = read_batches(data)
    room = MOST_RECORDS
    shown = []
    for opened in open_batches(batches, LIMITS):
        room -= max(opened.batch.count or 1, 0)
        shown.append(_shown_batch(opened) if room >= 0 else {"base64": _base64(opened.batch.raw)})
    if batches.tail is not None:
        shown.append({"base64": _base64(data[batches.tail.position :])})
    return shown


def _shown_batch(opened: OpenBatch) -> dict[str, Any]:
    batch = opened.batch
    read = read_batch(opened)
    if not _is_whole(read) or not batch.crc_valid or batch.compression is None:
        return {"base64": _base64(batch.raw)}
    shown: dict[str, Any] = {"magic": read.magic, "compression": batch.compression}
    shown.update((name, getattr(read, attribute)) for name, attribute in NUMBERS.items())
    last = read.records[-1].offset if read.records else None
    if read.last_offset != last:
        shown["lastOffset"] = read.last_offset
    if read.attributes & LOG_APPEND_TIME or not read.records:
        shown["maxTimestamp"] = read.max_timestamp
    shown["records"] = [_shown_record(record) for record in read.records]
    return shown


def _is_whole(read: RecordBatch) -> bool:
    return read.error is None and read.skipped is None and not read.is_control


def _shown_record(record: Record) -> dict[str, Any]:
    headers = [{"key": key, "value": _shown_bytes(value)} for key, value in record.headers]
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _shown_bytes(record.key),
        "value": _shown_bytes(record.value),
        "headers": headers,
    }


def _shown_bytes(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": _base64(value)}


def written_field(shown: Any, unchanged: "Unchanged", *, renumber: bool) -> bytes:
    """The bytes of a records field. Raises BatchMistake.

    Args:
        shown: what ``shown_field`` gave, edited; or base64.
        unchanged: the batches of the message as it came.
        renumber: number the records of changed batches without gaps, as brokers demand of a producer.
    """
    if isinstance(shown, str):
        return unchanged.with_checksums(_from_base64(shown, ""))
    if not isinstance(shown, list):
        raise BatchMistake("", "is neither a list of batches nor base64")
    return b"".join(_written_batch(one, f"[{at}]", unchanged, renumber) for at, one in enumerate(shown))


def _written_batch(shown: Any, path: str, unchanged: "Unchanged", renumber: bool) -> bytes:
    if not isinstance(shown, dict):
        raise BatchMistake(path, "is no batch: an object with records")
    if set(shown) == {"base64"}:
        return unchanged.with_checksums(_from_base64(shown["base64"], f"{path}.base64"))
    kept = unchanged.as_it_was(shown)
    if kept is not None:
        return kept
    batch = _batch(shown, path)
    if renumber:
        batch.renumber()
    try:
        return write_batches([batch])
    except EncodeError as error:
        raise BatchMistake(path, str(error)) from error


def _batch(shown: dict[str, Any], path: str) -> RecordBatch:
    left = dict(shown)
    batch = RecordBatch(magic=_number(left.pop("magic", 2), f"{path}.magic"))
    batch.codec = _codec(left.pop("compression", "none"), f"{path}.compression")
    records = left.pop("records", None)
    if not isinstance(records, list):
        raise BatchMistake(f"{path}.records", "is missing, or no list")
    for name, attribute in {**NUMBERS, **OPTIONAL}.items():
        if left.get(name) is not None:
            setattr(batch, attribute, _number(left[name], f"{path}.{name}"))
        left.pop(name, None)
    if left:
        raise BatchMistake(path, f"has no field {', '.join(map(repr, left))}")
    batch.records = [_record(one, f"{path}.records[{at}]") for at, one in enumerate(records)]
    return batch


def _record(shown: Any, path: str) -> Record:
    if not isinstance(shown, dict) or not set(shown) <= set(OF_RECORDS):
        raise BatchMistake(path, f"is no record: an object with {', '.join(OF_RECORDS)}")
    headers = shown.get("headers", [])
    if not isinstance(headers, list):
        raise BatchMistake(f"{path}.headers", "is no list")
    try:
        return Record(
            offset=_number(shown.get("offset", 0), f"{path}.offset"),
            timestamp=_number(shown.get("timestamp", -1), f"{path}.timestamp"),
            key=_bytes(shown.get("key"), f"{path}.key"),
            value=_bytes(shown.get("value"), f"{path}.value"),
            headers=[_header(one, f"{path}.headers[{at}]") for at, one in enumerate(headers)],
        )
    except OverflowError:
        raise BatchMistake(path, "has a number beyond 64 bits") from None


def _header(shown: Any, path: str) -> tuple[str, bytes | None]:
    if not isinstance(shown, dict) or set(shown) != {"key", "value"} or not isinstance(shown["key"], str):
        raise BatchMistake(path, 'is no header: {"key": text, "value": text or null}')
    return shown["key"], _bytes(shown["value"], f"{path}.value")


def _number(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BatchMistake(path, "is no whole number")
    return value


def _codec(value: Any, path: str) -> Codec:
    names = {codec.name.lower(): codec for codec in Codec}
    if not isinstance(value, str) or value not in names:
        raise BatchMistake(path, f"is none of {', '.join(names)}")
    return names[value]


def _bytes(value: Any, path: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise BatchMistake(path, "holds a lone surrogate, which is no text") from None
    if isinstance(value, dict) and set(value) == {"base64"}:
        return _from_base64(value["base64"], f"{path}.base64")
    raise BatchMistake(path, 'is neither text, {"base64": text} nor null')


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(value: Any, path: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BatchMistake(path, "is not base64") from None


class Unchanged:
    """The batches of a message as it came: what a person has not changed leaves with the same bytes."""

    def __init__(self, fields: list[bytes]) -> None:
        self._raw: set[bytes] = set()
        self._shown: dict[str, bytes] = {}
        for field in fields:
            batches = read_batches(field)
            self._raw.update(batch.raw for batch in batches)
            for shown, batch in zip(shown_field(field), batches, strict=False):  # behind them may be what is cut off
                self._shown[_canonical(shown)] = batch.raw

    def as_it_was(self, shown: dict[str, Any]) -> bytes | None:
        """The bytes of the batch that is shown like this."""
        return self._shown.get(_canonical(shown))

    def with_checksums(self, data: bytes) -> bytes:
        """The bytes of a records field, with the CRC of each batch made right that did not come like this."""
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
