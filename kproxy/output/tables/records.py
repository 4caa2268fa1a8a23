"""Rows of the table records: keys, values and headers, copied out of their batches, with credentials withheld."""

from typing import TYPE_CHECKING, Any

from kproxy.output.rewriting.rewriter import Rewriter
from kproxy.output.tables.arrow import schema_of
from kproxy.output.tables.contracts import RECORDS
from kproxy.output.tables.rows import EARLIEST_US, LATEST_US, RecordsField
from kproxy.protocol.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.protocol.records import Batches, Problem, to_arrow

if TYPE_CHECKING:
    import pyarrow

NO_TIMESTAMP = -1


def record_columns(
    connection_id: str, exchange: int, field: RecordsField, batches: Batches
) -> tuple["pyarrow.RecordBatch", dict[int, str]]:
    """Return the records of a field as rows of the table, and what could not be read, by the position of its batch."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    unread: list[Problem] = []
    records = to_arrow([batch for batch in batches if not batch.is_control], problems=unread)
    count = records.num_rows
    schema = schema_of(RECORDS)
    same: tuple[Any, ...] = (connection_id, exchange, field.direction, field.topic, field.topic_id, field.partition)
    columns = [_repeated(value, schema.field(number).type, count) for number, value in enumerate(same)]
    columns += [
        records["offset"],
        _times(records["timestamp"]),
        records["key"].cast(pa.binary()),
        _values(records["value"].cast(pa.binary()), field),
        _headers(records["headers"], schema.field("headers").type),
    ]
    problems = {problem.position: f"{problem.kind}: {problem.reason}" for problem in unread}
    return pa.RecordBatch.from_arrays(columns, schema=schema), problems


def _values(values: "pyarrow.Array", field: RecordsField) -> "pyarrow.Array":
    """Return the values of records. Credentials in the records of controllers are withheld, as in every output."""
    import pyarrow as pa  # noqa: PLC0415

    if field.topic != METADATA_TOPIC and field.topic_id != METADATA_TOPIC_ID:
        return values
    rewriter = Rewriter()
    withheld = [None if value is None else rewriter.metadata(None, value) for value in values.to_pylist()]
    return pa.array(withheld, pa.binary())


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
    struct = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(headers.offsets, struct, type=kind)
