"""Keys and values replaced, headers inserted and found: as reading and writing records as objects does it."""

import random
from struct import pack

import pytest

from kproxy.errors import Malformed
from kproxy.filters.json_masks import JsonMask
from kproxy.filters.mask import parse_paths
from kproxy.protocol.records import Codec, Record, read_batches
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.protocol.records.in_place import Editor, ValueEditor, find_headers, insert_headers, replace_fields
from kproxy.protocol.records.objects import encode_records, read_objects
from tests.support.conversation import records_of
from tests.support.corpus import golden_lines
from tests.support.frames import batch, varint
from tests.support.frames import record as encoded_record

HIDES = JsonMask(parse_paths(["$.a"]), b'"***"')
SECRET, HIDDEN = b'{"a":"secret"}', b'{"a":"***"}'


def batch_of(count: int, records: bytes) -> bytes:
    covered = pack(">hiqqqhii", 0, max(count - 1, 0), 0, 0, -1, -1, -1, count) + records
    return pack(">qiibI", 0, 49 + len(records), 0, 2, crc32c(covered)) + covered


def replaced(data: bytes, values: Editor | None = HIDES, keys: Editor | None = None) -> bytes | None:
    return replace_fields(read_batches(data)[0].open(), values, keys)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("with_keys", [False, True])
def test_records_are_those_that_objects_give(codec: Codec, with_keys: bool) -> None:
    chance = random.Random(f"{codec} {with_keys}")
    choices = (SECRET, b"5", b"", None, b'{"a":"%b","b":0}' % (b"x" * 200))
    records = [
        Record(
            offset=at,
            timestamp=chance.randrange(1 << 40),
            key=chance.choice(choices),
            value=chance.choice(choices),
            headers=[("h", chance.choice((None, b"", b"x")))] * chance.randrange(3),
        )
        for at in range(500)
    ]
    data = write_batches([RecordBatch(records, codec=codec, base_timestamp=0)])
    plain = replaced(data, HIDES, HIDES if with_keys else None)
    assert plain is not None
    for record in records:
        record.value = record.value and (HIDES.edited(record.value) or record.value)
        record.key = (record.key and with_keys and (HIDES.edited(record.key) or record.key)) or record.key
    assert read_records(batch_of(500, plain))[0].records == records
    assert plain == write_batches([RecordBatch(records, base_timestamp=0)])[61:]


def test_bytes_of_records_that_stay_and_varints_that_are_too_long() -> None:
    # attributes, timestamp delta, offset delta in three bytes, no key, value size in two bytes, value, no headers
    head = b"\x55\x02\x82\x80\x00\x01"
    odd = head + b"\x9c\x00" + SECRET + b"\x00"
    kept = b"\x00\x00\x02\x01\x02x\x00"
    data = batch_of(2, bytes([len(odd) * 2 | 0x80, 0]) + odd + b"\x8e\x00" + kept)
    new = head + bytes([len(HIDDEN) * 2]) + HIDDEN + b"\x00"
    assert replaced(data) == bytes([len(new) * 2]) + new + b"\x8e\x00" + kept


def test_records_are_changed_by_a_function_to_the_last_whatever_their_sizes() -> None:
    """Other threads have a turn every 64 KiB: records end there, or begin, or are longer."""
    values = [b"x" * size for size in (*range(65_430, 65_445), *[1_000] * 300, 200_000, 0)]
    records = [Record(offset=at, key=b"%d" % at, value=value) for at, value in enumerate(values)]
    changed = [Record(offset=at, key=one.key, value=b"%d" % at) for at, one in enumerate(records)]
    made = replaced(write_batches([RecordBatch(records)]), ValueEditor(lambda key, value: key or b""))
    assert made == write_batches([RecordBatch(changed)])[61:]


def test_a_batch_without_a_change() -> None:
    assert replaced(write_batches([RecordBatch([Record(value=b"1"), Record(offset=1, value=None)])])) is None
    assert replaced(write_batches([RecordBatch([Record(value=SECRET)])]), Editor(), Editor()) is None
    assert replaced(batch_of(0, b"")) is None


@pytest.mark.parametrize(
    ("count", "records", "reason"),
    [
        (2, b"\x0e\x00\x00\x00\x01\x02x\x00", "record 1"),
        (1, b"\x0e\x00\x00\x00\x01\x02x\x00\x00", "left over"),
        (0, b"\x0e\x00\x00\x00\x01\x02x\x00", "no records"),
        (-1, b"", "claims -1 records"),
        (1, b"\x0e\x00\x00\x00\x01\x7fx\x00", "record 0"),
    ],
)
def test_records_that_cannot_be_read_to_their_end(count: int, records: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        replaced(batch_of(count, records))


def test_older_magics_are_not_edited_in_place() -> None:
    with pytest.raises(Malformed, match="magic 2"):
        replaced(write_batches([RecordBatch([Record(value=SECRET)], 1)]))


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


def test_every_record_gets_the_headers_behind_its_own() -> None:
    for seed in range(20):
        numbers = random.Random(seed)
        plain = records(numbers, numbers.randint(1, 50))
        before = encode_records(plain, 0, 1_000, False)
        for record in plain:
            record.headers = [*record.headers, *ADDED]
        assert insert_headers(before, len(plain), encoded(ADDED), 2) == encode_records(plain, 0, 1_000, False), seed


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


def test_any_bytes() -> None:
    for seed in range(50):
        numbers = random.Random(seed)
        plain = bytearray(encode_records(records(numbers, 3), 0, 0, False))
        for _ in range(200):
            damaged = bytearray(plain)
            damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
            insert_headers(bytes(damaged), 3, encoded(ADDED), 2, b"h1", encoded(ADDED[:1]))


NAMES = (b"traceparent", b"b3")


def headers_found(data: bytes, most: int = 100) -> list[dict[bytes, bytes]]:
    [opened] = [each.open() for each in read_batches(data)]
    return find_headers(opened, NAMES, most)


def test_names_are_compared_whatever_their_case() -> None:
    data = records_of([("TraceParent", b"1"), ("other", b"2")], [], [("b3", b"3"), ("B3", b"4")], [("b3x", b"5")])
    assert headers_found(data) == [{b"traceparent": b"1"}, {b"b3": b"4"}]


def test_values_that_are_null_or_long_are_passed_over() -> None:
    assert headers_found(records_of([("b3", None)], [("b3", b"x" * 513)], [("b3", b"x" * 512)], [("b3", b"")])) == [
        {b"b3": b"x" * 512},
        {b"b3": b""},
    ]


def test_no_more_records_are_read_than_asked_for() -> None:
    assert len(headers_found(records_of(*[[("b3", b"1")]] * 10), most=3)) == 3


def test_what_kafka_wrote_has_the_headers_that_its_records_have() -> None:
    for line in golden_lines("records"):
        for each in read_batches(bytes.fromhex(line["hex"])):
            opened = each.open()
            records, _ = read_objects(each.open())
            names = tuple({name.lower().encode() for record in records for name, _ in record.headers})
            expected = [
                {
                    name.lower().encode(): value
                    for name, value in record.headers
                    if value is not None and len(value) <= 512
                }
                for record in records
            ]
            assert find_headers(opened, names, 1_000_000) == [each for each in expected if each], line.get("kind")


def test_broken_records_end_the_search() -> None:
    good = encoded_record(b"k", b"v", 0, varint(1) + varint(2) + b"b3" + varint(1) + b"1")
    for cut in range(len(good)):
        assert headers_found(batch(good + good[:cut], 2))[:1] == [{b"b3": b"1"}]
