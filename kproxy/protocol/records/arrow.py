"""Records as Arrow columns. Needs pyarrow: ``pip install kproxy-kafka[arrow]``.

offset      int64
timestamp   int64, milliseconds since the epoch, -1 for none
key, value  binary_view into the bytes of the batch, null where the record has none
headers     list of struct(key: binary_view, value: binary_view), never null; correct producers write UTF-8 keys

Nothing is copied: the arrays keep the records field and decompressed batches alive.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kproxy.errors import Malformed
from kproxy.protocol.records.batches import Batch, OpenBatch, count_plain, next_batch
from kproxy.protocol.records.columns import Columns
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits
from kproxy.protocol.records.reading import open_batches, tail_of

if TYPE_CHECKING:
    import pyarrow

LARGEST_FIELD = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class Problem:
    """Why not all records of a batch are in the columns."""

    position: int  # of the batch, in the field
    kind: str  # "error" or "skipped"
    reason: str


@functools.cache
def schema() -> "pyarrow.Schema":
    """Return the columns, as the module's docstring lists them."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    view = pa.binary_view()
    header = pa.struct([pa.field("key", view, nullable=False), pa.field("value", view)])
    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.int64(), nullable=False),
            pa.field("key", view),
            pa.field("value", view),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
        ]
    )


def to_arrow(
    data: bytes | Iterable[Batch], *, limits: Limits = DEFAULT_LIMITS, problems: list[Problem] | None = None
) -> "pyarrow.RecordBatch":
    """Return the records of a records field, or of some of its batches, as columns.

    Args:
        data: the field, or batches from ``read_batches``, also of several fields.
        problems: a Problem is appended for each batch that could not be read; checksums are not checked (``Batch.crc_valid``).

    Raises Malformed for a field of 2 GiB or more, which no frame can hold, and ImportError without pyarrow.
    """
    columns = Columns()
    adding = _add_field(columns, data, limits) if isinstance(data, bytes) else _add_batches(columns, data, limits)
    unread = list(adding)
    if problems is not None:
        problems += unread
    return _record_batch(columns)


def _add_field(columns: Columns, data: bytes, limits: Limits) -> Iterator[Problem]:
    """Add the batches of a field: runs of uncompressed batches together, the others one by one."""
    _refuse_larger(data)
    columns.expect(count_plain(data)[0], len(data))
    position, spent = 0, 0
    while position < len(data):
        position, error = columns.add_plain(data, position, limits.records)
        batches: list[Batch] = []
        end = next_batch(data, position, batches, 1)
        if error is not None:
            yield Problem(position, "error", error)
        elif batches:
            opened = batches[0].open(limits.after(spent))
            spent += opened.unpacked_size
            problem = _add(columns, opened)
            if problem is not None:
                yield problem
        else:
            break
        position = end
    tail = tail_of(data, position, len(data))
    if tail is not None and tail.kind == "error":
        yield Problem(tail.position, "error", tail.reason)


def _add_batches(columns: Columns, batches: Iterable[Batch], limits: Limits) -> Iterator[Problem]:
    for opened in open_batches(batches, limits):
        problem = _add(columns, opened)
        if problem is not None:
            yield problem


def _add(columns: Columns, opened: OpenBatch) -> Problem | None:
    _refuse_larger(opened.content)
    error = columns.add(opened)
    if opened.skipped is not None:
        return Problem(opened.batch.position, "skipped", opened.skipped)
    return None if error is None else Problem(opened.batch.position, "error", error)


def _refuse_larger(content: bytes | bytearray) -> None:
    if len(content) > LARGEST_FIELD:
        raise Malformed(f"{len(content)} bytes of records, more than a frame can hold")


def _record_batch(columns: Columns) -> "pyarrow.RecordBatch":
    import pyarrow as pa  # noqa: PLC0415

    buffers = [pa.py_buffer(content) for content in columns.contents]
    make, buffer, count = pa.Array.from_buffers, pa.py_buffer, columns.count
    key_validity = buffer(columns.key_validity) if columns.null_keys else None
    value_validity = buffer(columns.value_validity) if columns.null_values else None
    arrays = [
        make(pa.int64(), count, [None, buffer(columns.offsets)], 0),
        make(pa.int64(), count, [None, buffer(columns.timestamps)], 0),
        make(pa.binary_view(), count, [key_validity, buffer(columns.keys), *buffers], columns.null_keys),
        make(pa.binary_view(), count, [value_validity, buffer(columns.values), *buffers], columns.null_values),
        _headers(columns, buffers),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def _headers(columns: Columns, buffers: list[Any]) -> "pyarrow.Array":
    import pyarrow as pa  # noqa: PLC0415

    kind = schema().field("headers").type
    ends = [None, pa.py_buffer(columns.header_ends)]
    if not columns.header_count:
        return pa.Array.from_buffers(kind, columns.count, ends, 0, children=[_no_headers()])
    make, buffer, view = pa.Array.from_buffers, pa.py_buffer, pa.binary_view()
    count, nulls = columns.header_count, columns.null_header_values
    keys = make(view, count, [None, buffer(columns.header_keys), *buffers], 0)
    validity = buffer(columns.header_validity) if nulls else None
    values = make(view, count, [validity, buffer(columns.header_values), *buffers], nulls)
    struct = make(kind.value_type, count, [None], 0, children=[keys, values])
    return make(kind, columns.count, ends, 0, children=[struct])


@functools.cache
def _no_headers() -> "pyarrow.Array":
    import pyarrow as pa  # noqa: PLC0415

    return pa.array([], type=schema().field("headers").type.value_type)
