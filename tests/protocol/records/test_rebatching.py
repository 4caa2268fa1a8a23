"""Batches with other records and the same header."""

import pytest

from kproxy.filters.json_masks import JsonMask
from kproxy.filters.mask import parse_paths
from kproxy.protocol.records import Codec, Record, read_batches, read_records, write_batches
from kproxy.protocol.records.batches import Batch
from kproxy.protocol.records.editing import TRANSACTIONAL, RecordBatch
from kproxy.protocol.records.rebatching import CONTROL, change_fields, change_plain, change_records, with_header_of


def batch(codec: Codec = Codec.NONE, magic: int = 2, **values: int) -> Batch:
    records = [Record(offset=7 + at, timestamp=1_000 + at, key=b"k", value=b"value %d" % at) for at in range(3)]
    fields = (
        {"producer_id": 5, "producer_epoch": 2, "base_sequence": 40, "partition_leader_epoch": 9} if magic == 2 else {}
    )
    made = RecordBatch(records, magic, base_offset=7, last_offset=20, codec=codec, **{**fields, **values})
    return read_batches(write_batches([made]))[0]


HIDES = JsonMask(parse_paths(["$.a"]), b"0")


def json_batch(codec: Codec, magic: int, **values: int) -> Batch:
    fields = ((b'{"a":1}', b'{"a":2}'), (b'{"b":1}', b'{"b":2}'), (None, None))
    records = [Record(offset=7 + at, timestamp=1, key=key, value=value) for at, (key, value) in enumerate(fields)]
    return read_batches(write_batches([RecordBatch(records, magic, codec=codec, base_offset=7, **values)]))[0]


def upper(record: Record) -> bool:
    assert record.value is not None
    record.value = record.value.upper()
    return True


@pytest.mark.parametrize("codec", Codec)
def test_records_change_and_the_header_does_not(codec: Codec) -> None:
    before = batch(codec, attributes=TRANSACTIONAL)
    changed = change_records(before, upper)
    assert changed is not None
    (after,) = read_records(changed)
    assert [record.value for record in after.records] == [b"VALUE 0", b"VALUE 1", b"VALUE 2"]
    assert [(record.offset, record.timestamp, record.sequence) for record in after.records] == [
        (7, 1_000, 40),
        (8, 1_001, 41),
        (9, 1_002, 42),
    ]
    (source,) = read_batches(changed)
    assert source.crc_valid
    assert changed[:8] + changed[12:17] + changed[21:61] == before.raw[:8] + before.raw[12:17] + before.raw[21:61]
    assert (after.last_offset, after.is_transactional, after.codec) == (20, True, codec)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_older_magics(magic: int, codec: Codec) -> None:
    changed = change_records(batch(codec, magic), upper)
    assert changed is not None
    found = [record.value for each in read_records(changed) for record in each.records]
    assert found[0] == b"VALUE 0"
    assert all(each.crc_valid for each in read_batches(changed))
    assert change_plain(batch(codec, magic), lambda plain: plain) is None


@pytest.mark.parametrize("codec", Codec)
def test_plain_records(codec: Codec) -> None:
    before = batch(codec)
    changed = change_plain(before, lambda plain: plain.replace(b"value", b"other"))
    assert changed is not None
    assert [record.value for record in read_records(changed)[0].records] == [b"other 0", b"other 1", b"other 2"]
    assert read_batches(changed)[0].crc_valid
    assert change_plain(before, lambda plain: None) is None


def test_what_is_not_changed_keeps_its_bytes() -> None:
    before = batch(Codec.GZIP)
    assert change_records(before, lambda record: False) == before.raw
    control = batch(attributes=CONTROL)
    assert change_records(control, upper) == control.raw
    assert change_plain(control, bytes.upper) is None


def test_damage_gets_no_valid_checksum() -> None:
    raw = bytearray(batch().raw)
    raw[-1] ^= 1
    (damaged,) = read_batches(bytes(raw))
    assert change_records(damaged, upper) is None
    assert change_plain(damaged, bytes.upper) is None


def test_the_header_of_another() -> None:
    before = batch()
    assert with_header_of(before.raw, before.raw[61:]) == before.raw


@pytest.mark.parametrize(
    ("codec", "magic"), [(codec, magic) for codec in Codec for magic in (0, 1, 2) if codec < Codec.ZSTD or magic == 2]
)
def test_fields_change_in_every_magic(codec: Codec, magic: int) -> None:
    before = json_batch(codec, magic)
    for keys, key in ((None, b'{"a":1}'), (HIDES, b'{"a":0}')):
        # messages of magic 0 and 1 that are not compressed are a batch each
        changed = b"".join(change_fields(each, HIDES, keys) or b"" for each in read_batches(before.data))
        found = [(record.key, record.value) for each in read_records(changed) for record in each.records]
        assert found == [(key, b'{"a":0}'), (b'{"b":1}', b'{"b":2}'), (None, None)]
        assert all(each.crc_valid and each.codec == codec for each in read_batches(changed))


@pytest.mark.parametrize("codec", Codec)
def test_fields_change_and_the_header_does_not(codec: Codec) -> None:
    fields = {
        "producer_id": 5,
        "producer_epoch": 2,
        "base_sequence": 40,
        "partition_leader_epoch": 9,
        "last_offset": 30,
    }
    before = json_batch(codec, 2, attributes=TRANSACTIONAL, **fields).raw
    changed = change_fields(read_batches(before)[0], HIDES)
    assert changed is not None
    assert changed[:8] + changed[12:17] + changed[21:61] == before[:8] + before[12:17] + before[21:61]
    assert len(changed) == 12 + int.from_bytes(changed[8:12], "big")


def test_fields_that_stay() -> None:
    for before in (json_batch(Codec.GZIP, 2, attributes=CONTROL), batch(Codec.GZIP), batch(Codec.NONE, 1)):
        assert change_fields(before, HIDES) == before.raw
    for magic in (1, 2):
        raw = bytearray(json_batch(Codec.NONE, magic).raw)
        raw[-1] ^= 1
        assert change_fields(read_batches(bytes(raw))[0], HIDES) is None
    cut = json_batch(Codec.ZSTD, 2).raw
    assert change_fields(read_batches(with_header_of(cut, cut[61:-3]))[0], HIDES) is None
    assert change_fields(read_batches(with_header_of(cut[:22] + b"\7" + cut[23:], cut[61:]))[0], HIDES) is None
