"""Values to Arrow's memory, against what pyarrow makes of the same values."""

from typing import Any

import pyarrow as pa
import pytest

from kproxy.output.tables.columns import BYTES, ROWS, Rows
from kproxy.output.tables.contracts import Column, Table
from kproxy.output.tables.parquet import arrow_type

TABLE = Table(
    "things", 1, "a thing", (Column("name", "string", "its name"), Column("size", "int64", "how large", "bytes"))
)


def column(kind: str, values: list[Any], *, nullable: bool = True) -> pa.Array:
    written: list[pa.RecordBatch] = []
    table = Table("one", 1, "a value", (Column("value", kind, "it", nullable=nullable),))
    rows = Rows(table, lambda table, batch: written.append(batch))
    for value in values:
        rows.append((value,))
    rows.flush()
    for batch in written:
        batch.validate(full=True)
    return pa.chunked_array([batch["value"] for batch in written], arrow_type(kind)).combine_chunks()


MANY = [None if number % 3 == 0 else number for number in range(1_000)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int8", [-128, None, 127]),
        ("int16", [-(2**15), 2**15 - 1]),
        ("int32", [None, -(2**31), 2**31 - 1]),
        ("int64", [-(2**63), 2**63 - 1, None]),
        ("int64", MANY),
        ("double", [0.5, None, -1e300]),
        ("bool", [number and number % 2 == 0 for number in MANY]),
        ("string", ["", None, "é日", "x" * 100_000, "\0"]),
        ("string", [None]),
        ("timestamp[us, tz=UTC]", [None, 1_763_000_000_000_000, -1]),
        ("timestamp[ms, tz=UTC]", [253_402_300_799_999]),
        ("list<string>", [[], None, ["a", "", "é"], ["b"]]),
        ("list<int16>", [[1, -2], None, [], [32_767]]),
        ("string", []),
        ("list<string>", []),
    ],
)
def test_columns_are_as_pyarrow_makes_them(kind: str, values: list[Any]) -> None:
    ours, theirs = column(kind, values), pa.array(values, arrow_type(kind))
    assert ours.equals(theirs)
    assert ours.null_count == theirs.null_count


def test_bytes_that_were_not_utf8_are_replaced_as_python_replaces_them() -> None:
    text = b"a\xffb\xc3".decode("utf-8", "surrogateescape")
    assert column("string", [text]).to_pylist() == ["a\ufffdb\ufffd"]
    assert column("list<string>", [[text, "c"]]).to_pylist() == [["a\ufffdb\ufffd", "c"]]


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("int8", 128, OverflowError),
        ("int16", -(2**15) - 1, OverflowError),
        ("int64", 2**63, OverflowError),
        ("int32", "1", TypeError),
        ("string", 1, TypeError),
        ("string", b"a", TypeError),
        ("list<string>", [None], TypeError),
    ],
)
def test_values_of_another_type_are_refused(kind: str, value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        column(kind, [value])


def test_no_null_where_the_contract_has_none() -> None:
    with pytest.raises(TypeError, match="null"):
        column("int64", [None], nullable=False)


def test_what_is_held_is_counted() -> None:
    columns = (Column("a", "string", ""), Column("b", "list<string>", ""), Column("c", "int64", ""))
    rows = Rows(Table("three", 1, "", columns), lambda table, batch: None)
    rows.append(("abc", ["de", "é"], 1))
    assert rows.count == 1
    assert 7 <= rows.size <= 7 + 2 * 8


def test_rows_are_written_when_there_are_enough() -> None:
    written: list[pa.RecordBatch] = []
    rows = Rows(TABLE, lambda table, batch: written.append(batch))
    for number in range(ROWS + 1):
        rows.append((f"n{number}", number))
    assert [batch.num_rows for batch in written] == [ROWS]
    rows.flush()
    rows.flush()
    assert [batch.num_rows for batch in written] == [ROWS, 1]
    assert written[1].to_pylist() == [{"name": f"n{ROWS}", "size": ROWS}]


def test_large_rows_are_written_early() -> None:
    written: list[pa.RecordBatch] = []
    rows = Rows(TABLE, lambda table, batch: written.append(batch))
    rows.append(("a" * (BYTES // 2), 1))
    assert not written
    rows.append(("b" * (BYTES // 2), 2))
    assert [batch.num_rows for batch in written] == [2]


def test_a_row_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 2 values"):
        Rows(TABLE, lambda table, batch: None).append(("a", 1, "one too many"))
