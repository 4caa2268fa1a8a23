"""Make rows of record_batches from a decoded log, which has the headers of batches as JSON instead of bytes.

Anyone may have written a line, so a value that does not fit its column becomes null.
"""

from typing import Any, NamedTuple

from kproxy.output.tables.rows import RecordsField, record_instant

Row = tuple[Any, ...]

NO_PRODUCER = -1


class LoggedBatches(NamedTuple):
    """What the log has of a records field."""

    rows: list[Row]  # the columns of record_batches from direction on
    batches: int  # including those that the log leaves out
    records: int


def logged_batches(field: RecordsField, opened: dict[str, Any]) -> LoggedBatches:
    """Read the batches of a records field from its JSON *opened*.

    The JSON has no counts below magic 2: the number of records in a compressed message is known only if no other is compressed.
    """
    headers = [each for each in _list(opened.get("batches")) if isinstance(each, dict)]
    where = field.direction, field.topic, field.topic_id, field.partition, field.error_code
    total = max(_integer(opened.get("count"), 63) or 0, 0)
    uncounted = [each for each in headers if "count" not in each and each.get("compression") != "none"]
    rest = total - (len(headers) - len(uncounted)) if len(uncounted) == 1 else None
    offset = field.appended_offset
    rows: list[Row] = []
    for header in headers:
        count = _count(header, rest)
        rows.append((*where, offset, *_header(header, count)))
        if offset is not None:
            offset = None if count is None or count < 0 or offset + count >= 1 << 63 else offset + count
    error = opened.get("error")
    if isinstance(error, str):
        rest_size = _integer(opened.get("trailingBytes"), 63) or 0
        rows.append((*where, None, None, None, None, rest_size, *(None,) * 12, error))
    left_out = max(_integer(opened.get("batchesLeftOut"), 31) or 0, 0)
    return LoggedBatches(rows, len(headers) + left_out, total)


def _count(header: dict[str, Any], rest: int | None) -> int | None:
    if "count" in header:
        return _integer(header["count"], 31)
    return 1 if header.get("compression") == "none" else rest


def _header(header: dict[str, Any], count: int | None) -> Row:
    """Return the columns of record_batches from base_offset to error."""
    is_new = header.get("magic") == 2
    producer = (NO_PRODUCER,) * 3 if is_new and "producerId" not in header else (None,) * 3
    if "producerId" in header:
        names = (("producerId", 63), ("producerEpoch", 15), ("baseSequence", 31))
        producer = tuple(_integer(header.get(name), bits) for name, bits in names)  # type: ignore[assignment]
    latest = _integer(header.get("maxTimestamp"), 63)
    return (
        _integer(header.get("baseOffset"), 63),
        _integer(header.get("lastOffset"), 63),
        count,
        _integer(header.get("sizeInBytes"), 63) or 0,
        _text(header.get("compression")),
        _integer(header.get("magic"), 7),
        _text(header.get("timestampType")),
        None,
        None if latest is None else record_instant(latest),
        _integer(header.get("partitionLeaderEpoch"), 31),
        *producer,
        _bool(header.get("isTransactional")),
        _bool(header.get("isControl")),
        _bool(header.get("crcValid")),
        None,
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _integer(value: object, bits: int) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    return value if fits else None  # type: ignore[return-value]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
