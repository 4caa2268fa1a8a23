"""Contracts as Arrow schemas. Needs pyarrow: ``pip install kproxy-kafka[parquet]``."""

import functools
import re
from typing import TYPE_CHECKING

from kproxy.errors import UsageError
from kproxy.output.tables.contracts import Column, Table

if TYPE_CHECKING:
    import pyarrow

LIST = re.compile(r"list<(.+)>")
STRUCT = re.compile(r"struct<(.+)>")


def check_available() -> None:
    """Raise UsageError where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - heavy, and an extra
    except ImportError:
        raise UsageError("--format parquet needs pyarrow: pip install 'kproxy-kafka[parquet]'") from None


def arrow_type(text: str) -> "pyarrow.DataType":
    """Return the Arrow type for a type as the contracts write it. Raises KeyError or ValueError for any other text."""
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
    """Return the Arrow schema of a table, with the texts of the contract as metadata."""
    import pyarrow as pa  # noqa: PLC0415

    metadata = {"kproxy.table": table.name, "kproxy.contract": str(table.version), "kproxy.row": table.row}
    metadata["kproxy.since"] = table.since
    return pa.schema(list(map(_field, table.columns)), metadata=metadata)


def _field(column: Column) -> "pyarrow.Field":
    import pyarrow as pa  # noqa: PLC0415

    words = {"comment": column.meaning, "since": column.since, **({"unit": column.unit} if column.unit else {})}
    return pa.field(column.name, arrow_type(column.type), column.nullable, words)
