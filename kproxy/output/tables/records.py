"""Rows made of records fields: records (keys, values and headers, credentials withheld), and record_batches of a decoded log.

Keys and values are copied as columns; only those that may have a schema, or are JSON, are looked at one by one.

A decoded log has the headers of batches as JSON instead of bytes. Anyone may have written a line, so a value that does not fit
its column becomes null.
"""

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kproxy.encryption.envelope import HEADER, KEY, envelope_of
from kproxy.encryption.envelope import MARKER as ENCRYPTED
from kproxy.encryption.fields import BYTES_BEGINNING, TEXT_BEGINNING, envelope_in
from kproxy.output.escaping import well_formed
from kproxy.output.tables.contracts import RECORDS
from kproxy.output.tables.parquet import schema_of
from kproxy.output.tables.rows import EARLIEST_US, LATEST_US, RecordsField, record_instant
from kproxy.protocol.constants import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.protocol.embedded.viewers import Content
from kproxy.protocol.records import Batches
from kproxy.protocol.records.arrow import Problem, to_arrow
from kproxy.protocol.records.columns import rows_beginning
from kproxy.schemas.framings import MARKS, schema_headers
from kproxy.schemas.journal import JOURNAL_TOPIC
from kproxy.schemas.viewer import SchemaViewer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow

    from kproxy.protocol.embedded.viewers import Decrypted, Viewers

NO_TIMESTAMP = -1
MOST_JSON = 64 * 1024 * 1024  # characters of all keys or all values of one field, which may take a byte each
TOO_MUCH = f"the records before it take {MOST_JSON:,} characters as JSON"
BEGINNINGS = MARKS + ENCRYPTED[:1] + b"{[ \t\r\n"


def record_columns(
    connection_id: str,
    broker: str | None,
    exchange: int,
    field: RecordsField,
    batches: Batches,
    viewers: "Viewers | None" = None,
) -> tuple["pyarrow.RecordBatch", dict[int, str]]:
    """Return the records of a field as rows of the table, and what could not be read, by the position of its batch."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    unread: list[Problem] = []
    records = to_arrow([batch for batch in batches if not batch.is_control], problems=unread)
    count = records.num_rows
    schema = schema_of(RECORDS)
    of_field = field.direction, field.topic, field.topic_id, field.partition
    same: tuple[Any, ...] = (connection_id, broker, exchange, *of_field)
    columns = [_repeated(value, schema.field(number).type, count) for number, value in enumerate(same)]
    keys, values = (records[part].cast(pa.binary()) for part in ("key", "value"))
    headers = _headers(records["headers"], schema.field("headers").type)
    sealed_keys, sealed_values = (_encrypted(records[part]) for part in ("key", "value"))
    envelopes = [_envelopes(keys, sealed_keys, partial(envelope_of, part=KEY))]
    envelopes += [_envelopes(values, _with_fields(values, sealed_values), envelope_in)]
    headers = _decrypted_headers(keys, headers, viewers)
    if viewers is not None:
        values = _decrypted(values, sealed_values, lambda row, value: viewers.decrypt(keys[row].as_py(), value, None))
        keys = _decrypted(keys, sealed_keys, lambda row, key: viewers.decrypt_key(key))
    columns += [records["offset"], _times(records["timestamp"]), keys, _values(values, field), headers]
    offsets = records["offset"] if field.topic == JOURNAL_TOPIC and field.direction != "produce" else None
    for part, data in (("key", keys), ("value", values)):
        views = _views(records[part])
        columns += _described(data, views, headers, offsets, Content(field.topic, part), viewers, keys)
    columns += envelopes
    problems = {problem.position: f"{problem.kind}: {problem.reason}" for problem in unread}
    return pa.RecordBatch.from_arrays(columns, schema=schema), problems


def _values(values: "pyarrow.Array", field: RecordsField) -> "pyarrow.Array":
    """Return the values of records. Credentials in the records of controllers are withheld, as in every output."""
    import pyarrow as pa  # noqa: PLC0415

    if field.topic != METADATA_TOPIC and field.topic_id != METADATA_TOPIC_ID:
        return values
    from kproxy.output.rewriting.rewriter import Rewriter  # noqa: PLC0415 - few captures have records of controllers

    rewriter = Rewriter()
    withheld = [None if value is None else rewriter.metadata(None, value) for value in values.to_pylist()]
    return pa.array(withheld, pa.binary())


def _views(column: "pyarrow.Array") -> "pyarrow.Buffer":
    """Return the memory of a column of ``to_arrow``, which has no offset."""
    return column.buffers()[1]


def _encrypted(column: "pyarrow.Array") -> list[int]:
    """Return the rows of a column of ``to_arrow`` that may be encrypted."""
    return rows_beginning(_views(column), ENCRYPTED[:1])


def _with_fields(values: "pyarrow.Array", rows: list[int]) -> list[int]:
    """Return *rows*, and those whose values may have encrypted fields."""
    import pyarrow.compute as pc  # noqa: PLC0415

    found = set(rows)
    for beginning in (TEXT_BEGINNING, BYTES_BEGINNING):
        found.update(pc.indices_nonzero(pc.fill_null(pc.match_substring(values, beginning), False)).to_pylist())
    return sorted(found)


def _envelopes(data: "pyarrow.Array", rows: list[int], envelope: "Callable[[bytes], bytes | None]") -> "pyarrow.Array":
    import pyarrow as pa  # noqa: PLC0415

    if not rows:
        return pa.nulls(len(data), pa.binary())
    made: list[bytes | None] = [None] * len(data)
    for row in rows:
        made[row] = envelope(data[row].as_py())
    return pa.array(made, pa.binary())


def _decrypted(
    data: "pyarrow.Array", rows: list[int], decrypt: "Callable[[int, bytes], Decrypted | None]"
) -> "pyarrow.Array":
    """Return keys or values of records, those of *rows* decrypted if they are encrypted and a key service has their keys."""
    import pyarrow as pa  # noqa: PLC0415

    plain = None
    for row in rows:
        decrypted = decrypt(row, data[row].as_py())
        if decrypted is not None and decrypted.value is not None:
            plain = plain or data.to_pylist()
            plain[row] = decrypted.value
    return data if plain is None else pa.array(plain, pa.binary())


def _decrypted_headers(keys: "pyarrow.Array", headers: "pyarrow.Array", viewers: "Viewers | None") -> "pyarrow.Array":
    """Return the headers of records, those decrypted that are encrypted and whose keys a key service has."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    names, values, *_ = headers.flatten().flatten()
    rows = pc.indices_nonzero(pc.fill_null(pc.starts_with(values, ENCRYPTED[:1]), False)).to_pylist()
    if not rows:
        return headers
    parents, plain = headers.value_parent_indices(), values.to_pylist()
    envelopes: list[bytes | None] = [None] * len(plain)
    problems: list[str | None] = [None] * len(plain)
    for row in rows:
        envelopes[row] = envelope_of(plain[row], HEADER)
        decrypted = None
        if viewers is not None and envelopes[row] is not None:
            decrypted = viewers.decrypt(keys[parents[row].as_py()].as_py(), plain[row], names[row].as_py())
        if decrypted is not None:
            problems[row] = decrypted.problem
            plain[row] = plain[row] if decrypted.value is None else decrypted.value
    columns = [names, *(pa.array(one, pa.binary()) for one in (plain, envelopes)), pa.array(problems, pa.string())]
    structs = pa.StructArray.from_arrays(columns, fields=list(headers.type.value_type))
    return pa.ListArray.from_arrays(headers.offsets, structs, type=headers.type)


Described = tuple[str | None, str | None, str | None, int | None, bool | None, str | None]
NOTHING: Described = (None, None, None, None, None, None)


def _described(
    data: "pyarrow.Array",
    views: "pyarrow.Buffer",
    headers: "pyarrow.Array",
    offsets: "pyarrow.Array | None",
    content: Content,
    viewers: "Viewers | None",
    keys: "pyarrow.Array",
) -> "list[pyarrow.Array]":
    """Return the columns of keys or values by their schemas: JSON, id, subject, version, whether it fits, problem."""
    import pyarrow as pa  # noqa: PLC0415

    kinds = (pa.string(), pa.string(), pa.string(), pa.int32(), pa.bool_(), pa.string())
    is_viewed = viewers is not None and content.topic not in INTERNAL_TOPICS
    rows = _worth_viewing(data, views, headers, content, viewers) if viewers is not None and is_viewed else []
    if viewers is None or not rows:
        return [pa.nulls(len(data), kind) for kind in kinds]
    shown: list[Described] = [NOTHING] * len(data)
    size = 0
    for row in rows:
        if size > MOST_JSON:
            shown[row] = (*NOTHING[:5], TOO_MUCH)
            continue
        named = [(_name(pair["key"]), pair["value"]) for pair in headers[row].as_py()] if len(headers.values) else ()
        offset = None if offsets is None else offsets[row].as_py()
        value, key = data[row].as_py(), None
        if content.part == "value" and value is not None and viewers.may_have_fields(value):
            key = keys[row].as_py()
        view = viewers.view(value, Content(content.topic, content.part, named, key, offset))
        shown[row] = _columns_of(view or {})
        size += len(shown[row][0] or "")
    return [pa.array(values, kind) for values, kind in zip(zip(*shown, strict=True), kinds, strict=True)]


def _worth_viewing(
    data: "pyarrow.Array", views: "pyarrow.Buffer", headers: "pyarrow.Array", content: Content, viewers: "Viewers"
) -> list[int]:
    """Return the rows whose key or value may have a schema or be JSON, mostly by its first byte."""
    import pyarrow.compute as pc  # noqa: PLC0415

    pairs, chosen = headers.values, SchemaViewer.of(viewers).schemas.chosen
    names = {_name(name).lower() for name in pc.unique(pairs.field("key")).to_pylist()} if len(pairs) else set()
    if (content.topic, content.part) in chosen or names & schema_headers(content.part):
        rows: list[int] = pc.indices_nonzero(pc.is_valid(data)).to_pylist()
        return rows
    return rows_beginning(views, BEGINNINGS)


def _name(header: bytes) -> str:
    return header.decode("utf-8", "surrogateescape")


def _columns_of(view: dict[str, Any]) -> Described:
    schema = view.get("schema", {})
    value = next((holder[form] for holder in (schema, view) for form in ("value", "json") if form in holder), None)
    text = None if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    number, version = schema.get("id"), schema.get("version")
    version = version if isinstance(version, int) and -(1 << 31) <= version < 1 << 31 else None
    of_fields = next((one["problem"] for one in view.get("encryptedFields", ()) if "problem" in one), None)
    problem = schema.get("problem") or view.get("encrypted", {}).get("problem") or of_fields
    named = (None if number is None else str(number), schema.get("subject"), problem)
    schema_id, subject, problem = (None if one is None else well_formed(one) for one in named)
    fits = schema.get("fits", True if "value" in schema else None)
    return text, schema_id, subject, version, fits, problem


def _repeated(value: object, kind: "pyarrow.DataType", count: int) -> "pyarrow.Array":
    import pyarrow as pa  # noqa: PLC0415

    return pa.repeat(pa.scalar(value, kind), count)


def _times(timestamps: "pyarrow.Array") -> "pyarrow.Array":
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    known = pc.and_(
        pc.not_equal(timestamps, NO_TIMESTAMP),
        pc.and_(pc.greater_equal(timestamps, EARLIEST_US // 1000), pc.less_equal(timestamps, LATEST_US // 1000)),
    )
    return pc.if_else(known, timestamps, pa.scalar(None, pa.int64())).cast(pa.timestamp("ms", "UTC"))


def _headers(headers: "pyarrow.Array", kind: "pyarrow.DataType") -> "pyarrow.Array":
    import pyarrow as pa  # noqa: PLC0415

    pairs = headers.values
    arrays = [pairs.field(name).cast(pa.binary()) for name in ("key", "value")]
    arrays += [pa.nulls(len(pairs), pa.binary()), pa.nulls(len(pairs), pa.string())]  # envelope, problem
    struct = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(headers.offsets, struct, type=kind)


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
