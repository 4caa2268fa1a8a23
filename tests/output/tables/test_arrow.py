"""Contracts to Arrow schemas, tuples to columns."""

import sys

import pyarrow as pa
import pytest

from kproxy.errors import UsageError
from kproxy.output.tables.arrow import BYTES, ROWS, Rows, arrow_type, check_available
from kproxy.output.tables.contracts import Column, Table

TABLE = Table(
    "things", 1, "a thing", (Column("name", "string", "its name"), Column("size", "int64", "how large", "bytes"))
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int8", pa.int8()),
        ("double", pa.float64()),
        ("bool", pa.bool_()),
        ("binary", pa.binary()),
        ("timestamp[us, tz=UTC]", pa.timestamp("us", "UTC")),
        ("timestamp[ms, tz=UTC]", pa.timestamp("ms", "UTC")),
        ("list<string>", pa.list_(pa.field("element", pa.string(), nullable=False))),
    ],
)
def test_types(text: str, kind: pa.DataType) -> None:
    assert arrow_type(text) == kind


def test_headers_have_keys_that_are_never_null() -> None:
    struct = arrow_type("list<struct<key: binary, value: binary>>").value_type
    assert [(field.name, field.nullable) for field in struct] == [("key", False), ("value", True)]


def test_rows_are_given_on_when_there_are_enough() -> None:
    given: list[pa.RecordBatch] = []
    rows = Rows(TABLE, lambda table, batch: given.append(batch))
    for number in range(ROWS + 1):
        rows.append((f"n{number}", number))
    assert [batch.num_rows for batch in given] == [ROWS]
    rows.flush()
    rows.flush()
    assert [batch.num_rows for batch in given] == [ROWS, 1]
    assert given[1].to_pylist() == [{"name": f"n{ROWS}", "size": ROWS}]


def test_large_rows_are_given_on_early() -> None:
    given: list[pa.RecordBatch] = []
    rows = Rows(TABLE, lambda table, batch: given.append(batch))
    rows.append(("a" * (BYTES // 2), 1))
    assert not given
    rows.append(("b" * (BYTES // 2), 2))
    assert [batch.num_rows for batch in given] == [2]


def test_a_row_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="3 values for 2 columns"):
        Rows(TABLE, lambda table, batch: None).append(("a", 1, "one too many"))


def test_without_pyarrow_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r"pip install 'kproxy\[parquet\]'"):
        check_available()
