"""Keys and values of records replaced. The referee is the reader of records, and a batch written by hand."""

import random
from struct import pack

import pytest

from kproxy.errors import Malformed
from kproxy.filters.json_masks import JsonMask
from kproxy.filters.mask import parse_paths
from kproxy.protocol.records import Codec, Record, read_batches, read_records, write_batches
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.records.editing import RecordBatch
from kproxy.protocol.records.replacing import Editor, replace_fields

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
