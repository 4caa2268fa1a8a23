"""The tables in Spark's types, with times in microseconds."""

import pyarrow as pa
from pyarrow.types import is_timestamp
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, Column, Table, Tables, schema_of
from kproxy.spark.file_rows import Options

FILES = "files"
FILES_TABLE = Table(FILES, 1, "an input file", (Column("path", "string", "where it is", nullable=False),))


def contract(name: str, options: Options = Options()) -> Table:  # noqa: B008 - frozen
    """Return the table of this name, with the columns that the options add. Raises UsageError."""
    if name == FILES:
        return FILES_TABLE
    if name not in TABLES:
        raise UsageError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    made = {table.name: table for table in Tables(lambda table, rows: None, bodies=options.bodies, records=True).tables}
    return made[name]


def spark_schema(table: Table) -> StructType:
    """The columns of a table as Spark's."""
    return from_arrow_schema(_micros(schema_of(table)))


def for_spark(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast rows to Spark's types: its only unit of time is the microsecond."""
    arrays = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _micros(schema: pa.Schema) -> pa.Schema:
    micros = pa.timestamp("us", "UTC")
    return pa.schema([field.with_type(micros) if is_timestamp(field.type) else field for field in schema])
