"""Values in the JSON of batches: what is read, and where what cannot be read stands."""

from typing import Any

import pytest

from kproxy.filters.breakpoints.batch_values import BatchMistake, read_codec, read_number, read_record, shown_record
from kproxy.protocol.records import Codec, Record


@pytest.mark.parametrize(
    "record",
    [
        Record(
            offset=(1 << 63) - 1,
            timestamp=-(1 << 63),
            key=b"",
            value="☃".encode(),
            headers=[("h", b"\xff"), ("", None)],
        ),
        Record(offset=0, timestamp=0, key=None, value=b"\xed\xa0\x80"),
    ],
)
def test_a_record_is_the_same_after_its_json(record: Record) -> None:
    assert read_record(shown_record(record), "r") == record


@pytest.mark.parametrize(
    ("shown", "path", "words"),
    [
        (7, "r", "is no record"),
        ({"offset": True}, "r.offset", "is no whole number"),
        ({"offset": 1.0}, "r.offset", "is no whole number"),
        ({"offset": 1 << 63}, "r.offset", "is not within -9223372036854775808 and 9223372036854775807"),
        ({"colour": 1}, "r", "is no record"),
        ({"key": {"base64": "!"}}, "r.key.base64", "is not base64"),
        ({"value": "\ud800"}, "r.value", "lone surrogate"),
        ({"headers": {}}, "r.headers", "is no list"),
        ({"headers": [7]}, "r.headers[0]", "is no header"),
        ({"headers": [{"key": "k", "value": 7}]}, "r.headers[0].value", "neither text"),
    ],
)
def test_a_mistake_says_where_it_is(shown: Any, path: str, words: str) -> None:
    with pytest.raises(BatchMistake) as mistake:
        read_record(shown, "r")
    assert mistake.value.path == path
    assert words in mistake.value.reason


def test_numbers_have_bounds_and_codecs_names() -> None:
    assert read_number(-32_768, "n", 16) == -32_768
    with pytest.raises(BatchMistake, match="32768 is not within -32768 and 32767"):
        read_number(32_768, "n", 16)
    assert read_codec("lz4", "c") is Codec.LZ4
    with pytest.raises(BatchMistake, match="none of none, gzip, snappy, lz4, zstd"):
        read_codec(4, "c")
