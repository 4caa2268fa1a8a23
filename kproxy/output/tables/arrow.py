"""Contracts as Arrow schemas, rows as Arrow columns. Needs pyarrow: ``pip install kproxy[parquet]``."""

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kproxy.errors import UsageError
from kproxy.output.tables.columns import Columns
from kproxy.output.tables.contracts import Column, Table

if TYPE_CHECKING:
    import pyarrow

LIST = re.compile(r"list<(.+)>")
STRUCT = re.compile(r"struct<(.+)>")
ROWS = 8_192  # held until they are given on
BYTES = 4 * 1024 * 1024


def check_available() -> None:
    """Raise UsageError where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - heavy, and an extra
    except ImportError:
        raise UsageError("--format parquet needs pyarrow: pip install 'kproxy[parquet]'") from None


def arrow_type(text: str) -> "pyarrow.DataType":
    """The type that the contracts write so. Raises KeyError, ValueError for what none of them writes."""
    import pyarrow as pa  # noqa: PLC0415

    if inner := LIST.fullmatch(text):
        return pa.list_(pa.field("element", arrow_type(inner[1]), nullable=False))
    if inner := STRUCT.fullmatch(text):
        pairs = (member.split(": ") for member in inner[1].split(", "))
        return pa.struct([pa.field(name, arrow_type(kind), nullable=name != "key") for name, kind in pairs])
    if text.startswith("timestamp["):
        return pa.timestamp(text[10:12], "UTC")
    return pa.type_for_alias(text)


@functools.cache
def schema_of(table: Table) -> "pyarrow.Schema":
    """The Arrow schema of a table; the contract's words are its metadata."""
    import pyarrow as pa  # noqa: PLC0415

    metadata = {"kproxy.table": table.name, "kproxy.contract": str(table.version), "kproxy.row": table.row}
    return pa.schema(list(map(_field, table.columns)), metadata=metadata)


def _field(column: Column) -> "pyarrow.Field":
    import pyarrow as pa  # noqa: PLC0415

    words = {"comment": column.meaning, **({"unit": column.unit} if column.unit else {})}
    return pa.field(column.name, arrow_type(column.type), column.nullable, words)


class Rows:
    """Rows of a table, given on as Arrow's when there are enough."""

    def __init__(self, table: Table, give: Callable[[Table, "pyarrow.RecordBatch"], None]) -> None:
        self.table = table
        self._schema = schema_of(table)
        self._kinds = [(column.type, column.nullable) for column in table.columns]
        self._give = give
        self._columns = Columns(self._kinds)

    def append(self, *parts: tuple[Any, ...]) -> None:
        """Take a row, a value a column in their order; it may come in parts."""
        columns = self._columns
        columns.append(*parts)
        if columns.count >= ROWS or columns.size >= BYTES:
            self.flush()

    def flush(self) -> None:
        """Give on what is held."""
        if not self._columns.count:
            return
        import pyarrow as pa  # noqa: PLC0415

        columns, self._columns = self._columns, Columns(self._kinds)
        self._give(self.table, pa.RecordBatch.from_arrays(columns.arrays(self._schema.types), schema=self._schema))
