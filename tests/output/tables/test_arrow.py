"""Contracts to Arrow schemas."""

import sys

import pyarrow as pa
import pytest

from kproxy.errors import UsageError
from kproxy.output.tables.arrow import arrow_type, check_available


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


def test_without_pyarrow_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r"pip install 'kproxy-kafka\[parquet\]'"):
        check_available()
