"""find_headers finds what the records, read as objects, have."""

import pytest

from kproxy.protocol.records import read_batches
from kproxy.protocol.records.header_search import find_headers
from kproxy.protocol.records.objects import read_objects
from tests.support.record_batches import batch, golden, record, varint
from tests.support.traced import records_of

NAMES = (b"traceparent", b"b3")


def found(data: bytes, names: tuple[bytes, ...] = NAMES, most: int = 100) -> list[dict[bytes, bytes]]:
    [opened] = [each.open() for each in read_batches(data)]
    return find_headers(opened, names, most)


def test_names_are_compared_whatever_their_case() -> None:
    data = records_of([("TraceParent", b"1"), ("other", b"2")], [], [("b3", b"3"), ("B3", b"4")], [("b3x", b"5")])
    assert found(data) == [{b"traceparent": b"1"}, {b"b3": b"4"}]


def test_values_that_are_null_or_long_are_passed_over() -> None:
    assert found(records_of([("b3", None)], [("b3", b"x" * 513)], [("b3", b"x" * 512)], [("b3", b"")])) == [
        {b"b3": b"x" * 512},
        {b"b3": b""},
    ]


def test_no_more_records_are_read_than_asked_for() -> None:
    assert len(found(records_of(*[[("b3", b"1")]] * 10), most=3)) == 3


@pytest.mark.parametrize("line", [line for line in golden() if "hex" in line], ids=lambda line: line.get("kind", "?"))
def test_what_kafka_wrote_has_the_headers_that_its_records_have(line: dict[str, str]) -> None:
    for each in read_batches(bytes.fromhex(line["hex"])):
        opened = each.open()
        records, _ = read_objects(each.open())
        names = tuple({name.lower().encode() for record in records for name, _ in record.headers})
        expected = [
            {name.lower().encode(): value for name, value in record.headers if value is not None and len(value) <= 512}
            for record in records
        ]
        assert find_headers(opened, names, 1_000_000) == [each for each in expected if each]


def test_broken_records_end_the_search() -> None:
    good = record(b"k", b"v", 0, varint(1) + varint(2) + b"b3" + varint(1) + b"1")
    for cut in range(len(good)):
        assert found(batch(good + good[:cut], 2))[:1] == [{b"b3": b"1"}]
