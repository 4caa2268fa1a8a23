"""Headers inserted into records, beside what is written when the records are objects."""

import random

import pytest

from kproxy.protocol.records import Record
from kproxy.protocol.records.inserting import insert_headers
from kproxy.protocol.records.objects import encode_records

ADDED = [("a", b"1"), ("bb", b"x" * 200)]


def encoded(headers: list[tuple[str, bytes | None]]) -> bytes:
    """As in a record: that of one record with these headers, without what is before them."""
    with_them = encode_records([Record(headers=headers)], 0, 0, False)
    return with_them[with_them.index(headers[0][0].encode()) - 1 :]


def records(numbers: random.Random, count: int) -> list[Record]:
    def some(most: int) -> bytes | None:
        return None if numbers.random() < 0.1 else numbers.randbytes(numbers.randint(0, most))

    return [
        Record(
            offset=at,
            timestamp=1_000 + at,
            key=some(100),
            value=some(10_000),
            headers=[(f"h{n}", some(100)) for n in range(numbers.randint(0, 70))],
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_every_record_gets_the_headers_behind_its_own(seed: int) -> None:
    numbers = random.Random(seed)
    plain = records(numbers, numbers.randint(1, 50))
    before = encode_records(plain, 0, 1_000, False)
    for record in plain:
        record.headers = [*record.headers, *ADDED]
    assert insert_headers(before, len(plain), encoded(ADDED), 2) == encode_records(plain, 0, 1_000, False)


def test_a_header_for_those_that_have_none_of_its_name() -> None:
    def two(second: list[tuple[str, bytes | None]]) -> list[Record]:
        return [Record(headers=[("trace", b"own")]), Record(headers=second)]

    before = encode_records(two([("trac", b"x")]), 0, 0, False)
    expected = encode_records(two([("trac", b"x"), ("trace", b"new")]), 0, 0, False)
    assert insert_headers(before, 2, b"", 0, b"trace", encoded([("trace", b"new")])) == expected


def test_what_is_not_so_many_records_is_refused() -> None:
    plain = encode_records([Record(value=b"x", headers=[("a", b"b")])] * 3, 0, 0, False)
    assert insert_headers(plain, 3, b"", 0) == plain
    for count in (2, 4, 0, -1, 1 << 40):
        assert insert_headers(plain, count, encoded(ADDED), 2) is None
    for end in range(len(plain)):
        assert insert_headers(plain[:end], 3, encoded(ADDED), 2) is None


@pytest.mark.parametrize("seed", range(50))
def test_any_bytes(seed: int) -> None:
    numbers = random.Random(seed)
    plain = bytearray(encode_records(records(numbers, 3), 0, 0, False))
    for _ in range(200):
        damaged = bytearray(plain)
        damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
        insert_headers(bytes(damaged), 3, encoded(ADDED), 2, b"h1", encoded(ADDED[:1]))
