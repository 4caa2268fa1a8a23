"""Batches changed and written back: what nobody changed keeps its bytes, what was changed is whole again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import EncodeError
from kproxy.filters.json_masks import JsonMask
from kproxy.filters.mask import parse_paths
from kproxy.protocol.records.batches import Batch
from kproxy.protocol.records.compression import Codec
from kproxy.protocol.records.editing import (
    CONTROL,
    TRANSACTIONAL,
    RecordBatch,
    change_fields,
    change_plain,
    change_records,
    read_records,
    with_header_of,
    write_batches,
)
from kproxy.protocol.records.limits import Limits
from kproxy.protocol.records.objects import Record
from kproxy.protocol.records.reading import read_batches
from tests.support.corpus import golden_bytes, golden_lines
from tests.support.frames import batch, message, record

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3)
RECORDS = st.lists(
    st.builds(Record, offset=st.integers(0, 1 << 30), timestamp=INT64, key=BYTES, value=BYTES, headers=HEADERS),
    max_size=6,
)


def test_what_nobody_changed_goes_out_as_it_came() -> None:
    for line in golden_lines("records"):
        data = bytes.fromhex(line["hex"])
        assert write_batches(read_records(data)) == data[: line["wholeBytes"]], line["kind"]


def test_batches_that_are_not_compressed_are_written_as_kafka_wrote_them() -> None:
    written = 0
    for line in golden_lines("records"):
        data = bytes.fromhex(line["hex"])
        for one, kafkas in zip(read_records(data), line["batches"], strict=True):
            unused_bits = kafkas["magic"] == 2 and kafkas["attributes"] > 0x7F
            if kafkas["compression"] != "none" or "recordsError" in kafkas or not kafkas["crcValid"] or unused_bits:
                continue
            start = kafkas["position"]
            assert write_batches([one.copy()]) == data[start : start + kafkas["sizeInBytes"]], line["kind"]
            written += 1
    assert written > 150


def test_compressed_batches_say_the_same_when_written_anew() -> None:
    written = 0
    for line in golden_lines("records"):
        for one in read_records(bytes.fromhex(line["hex"])):
            if one.codec == Codec.NONE or one.error is not None or line["kind"].startswith("foreign"):
                continue
            data = write_batches([one.copy()])
            header = read_batches(data)[0]
            assert header.crc_valid and header.codec == one.codec
            assert read_records(data) == [one], line["kind"]
            written += 1
    assert written > 100


@pytest.mark.parametrize("kind", [f"magic{m}-{c}-create" for m in (1, 2) for c in ("none", "gzip", "snappy", "lz4")])
def test_a_changed_value_is_read_back_and_the_rest_is_the_same(kind: str) -> None:
    batches = read_records(golden_bytes(kind))
    batches[-1].records[-1].value = b"changed"
    batches[-1].records[-1].headers = []
    data = write_batches(batches)
    assert read_records(data) == batches
    assert all(header.crc_valid for header in read_batches(data))
    assert [h.compression for h in read_batches(data)] == [h.compression for h in read_batches(golden_bytes(kind))]


def test_a_codec_can_be_told() -> None:
    one = read_records(golden_bytes("magic2-none-large"))[0]
    one.codec = Codec.ZSTD
    data = write_batches([one])
    assert Batch(data, 0).compression == "zstd" and len(data) < len(golden_bytes("magic2-none-large"))
    assert read_records(data)[0].records == one.records


def test_records_taken_out_leave_the_last_offset_where_it_was() -> None:
    # A consumer goes on behind the batch's last offset: a compacted batch keeps it (DefaultRecordBatch, KAFKA-5443).
    one = read_records(golden_bytes("magic2-none-create"))[0]
    last = one.last_offset
    del one.records[-1]
    header = Batch(write_batches([one]), 0)
    assert (header.last_offset, header.count) == (last, len(one.records))


def test_a_producers_records_are_renumbered() -> None:
    one = RecordBatch([Record(value=b"a"), Record(value=b"b"), Record(value=b"c")], base_offset=0)
    del one.records[0]
    one.renumber()
    header = Batch(write_batches([one]), 0)
    assert (header.base_offset, header.last_offset_delta, header.count) == (0, 1, 2)
    assert [r.offset for r in one.records] == [0, 1]


def test_a_batch_from_nothing_is_what_the_layout_says() -> None:
    one = RecordBatch([Record(key=b"k", value=b"v", timestamp=1_000)], base_timestamp=1_000)
    built = bytearray(batch(record(b"k", b"v"), 1))
    header = Batch(write_batches([one]), 0)
    assert header.max_timestamp == 1_000
    assert header.raw[61:] == built[61:]
    assert header.crc_valid


def test_batches_and_headers_mix() -> None:
    data = golden_bytes("several-batches-mixed-magic")
    headers, batches = read_batches(data), read_records(data)
    assert write_batches([*headers[:3], *batches[3:]]) == data


def test_messages_of_a_wrapper_keep_their_offsets() -> None:
    for kind in ("magic0-gzip-offset-gaps", "magic1-gzip-offset-gaps", "magic1-lz4-offset-gaps"):
        one = read_records(golden_bytes(kind))[0]
        one.records[0].value = b"changed"
        again = read_records(write_batches([one]))[0]
        assert [r.offset for r in again.records] == [r.offset for r in one.records]
        assert again.last_offset == one.last_offset


def test_control_and_transactional_batches_say_so() -> None:
    one = read_records(golden_bytes("control-commit"))[0]
    assert one.is_control and one.is_transactional
    assert not read_records(golden_bytes("magic0-none-large"))[0].is_control


def change(one: RecordBatch) -> RecordBatch:
    one.records.append(Record(value=b"more"))
    return one


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (change(read_records(golden_bytes("bad-crc-field-magic2-none"))[0]), "its CRC was wrong before"),
        (change(read_records(golden_bytes("malformed-count-too-large"))[0]), "not all of it could be read"),
        (
            change(read_records(golden_bytes("magic2-gzip-large"), limits=Limits(decompressed=9))[0]),
            "more than 9 bytes",
        ),
        (RecordBatch(magic=3), "no batch has magic 3"),
        (RecordBatch(magic=1, codec=Codec.ZSTD), "codec 4 is not one of magic 1"),
        (RecordBatch(codec=7), "codec 7 is not one of magic 2"),
        (RecordBatch(producer_id=1 << 63), "a field that does not fit"),
        (RecordBatch(base_timestamp=1 << 63), "a field that does not fit"),
        (RecordBatch(records=["record"]), "something in it that is no Record"),  # type: ignore[list-item]
        (RecordBatch(records=[Record(headers=[("a", b"")])], magic=0), "has no headers"),
        (RecordBatch(records=[Record(attributes=300)]), "attributes of 300"),
    ],
)
def test_what_cannot_be_written_is_refused(one: RecordBatch, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        write_batches([one])


def test_what_a_limit_kept_closed_goes_out_as_it_came() -> None:
    data = golden_bytes("magic2-gzip-large")
    small = Limits(decompressed=9)
    assert write_batches(read_records(data, limits=small), limits=small) == data
    assert write_batches(read_records(data * 2, limits=Limits(total=5_000))) == data * 2


@given(RECORDS, st.sampled_from(sorted(Codec)), st.sampled_from([0, 0x08, 0x10, 0x30, 0x40]))
def test_any_batch_is_read_back_as_it_was_written(records: list[Record], codec: Codec, attributes: int) -> None:
    one = RecordBatch(records, codec=codec, attributes=attributes, base_offset=0, max_timestamp=77)
    data = write_batches([one])
    again = read_records(data)[0]
    assert again.error is None and Batch(data, 0).crc_valid
    if attributes & 0x08:
        assert [r.timestamp for r in again.records] == [77] * len(records)
        again.records = [fields(r, timestamp=r.create_timestamp) for r in again.records]
    assert again.records == records


def fields(one: Record, **changed: Any) -> Record:
    names = ("offset", "timestamp", "key", "value", "headers", "attributes")
    return Record(**{name: getattr(one, name) for name in names} | changed)


@given(RECORDS, st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]), st.sampled_from([0, 1]))
def test_any_messages_are_read_back_as_they_were_written(records: list[Record], codec: Codec, magic: int) -> None:
    records = sorted((fields(r, headers=[]) for r in records), key=lambda r: r.offset)
    if magic == 0:
        records = [fields(r, timestamp=-1) for r in records]
    again = [
        r for b in read_records(write_batches([RecordBatch(records, magic=magic, codec=codec)])) for r in b.records
    ]
    assert again == records


@given(st.binary(max_size=80), st.integers(-1, 5), st.integers(0, 15))
def test_any_damage_goes_out_as_it_came(records: bytes, count: int, attributes: int) -> None:
    data = batch(records, count, attributes=attributes) + message(records, attributes=attributes) + records
    batches = read_batches(data)
    end = len(data) if batches.tail is None else batches.tail.position
    assert write_batches(read_records(data)) == data[:end]


def made_batch(codec: Codec = Codec.NONE, magic: int = 2, **values: int) -> Batch:
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
    before = made_batch(codec, attributes=TRANSACTIONAL)
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
    changed = change_records(made_batch(codec, magic), upper)
    assert changed is not None
    found = [record.value for each in read_records(changed) for record in each.records]
    assert found[0] == b"VALUE 0"
    assert all(each.crc_valid for each in read_batches(changed))
    assert change_plain(made_batch(codec, magic), lambda plain: plain) is None


@pytest.mark.parametrize("codec", Codec)
def test_plain_records(codec: Codec) -> None:
    before = made_batch(codec)
    changed = change_plain(before, lambda plain: plain.replace(b"value", b"other"))
    assert changed is not None
    assert [record.value for record in read_records(changed)[0].records] == [b"other 0", b"other 1", b"other 2"]
    assert read_batches(changed)[0].crc_valid
    assert change_plain(before, lambda plain: None) is None


def test_what_is_not_changed_keeps_its_bytes() -> None:
    before = made_batch(Codec.GZIP)
    assert change_records(before, lambda record: False) == before.raw
    control = made_batch(attributes=CONTROL)
    assert change_records(control, upper) == control.raw
    assert change_plain(control, bytes.upper) is None


def test_damage_gets_no_valid_checksum() -> None:
    raw = bytearray(made_batch().raw)
    raw[-1] ^= 1
    (damaged,) = read_batches(bytes(raw))
    assert change_records(damaged, upper) is None
    assert change_plain(damaged, bytes.upper) is None


def test_the_header_of_another() -> None:
    before = made_batch()
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
    for before in (json_batch(Codec.GZIP, 2, attributes=CONTROL), made_batch(Codec.GZIP), made_batch(Codec.NONE, 1)):
        assert change_fields(before, HIDES) == before.raw
    for magic in (1, 2):
        raw = bytearray(json_batch(Codec.NONE, magic).raw)
        raw[-1] ^= 1
        assert change_fields(read_batches(bytes(raw))[0], HIDES) is None
    cut = json_batch(Codec.ZSTD, 2).raw
    assert change_fields(read_batches(with_header_of(cut, cut[61:-3]))[0], HIDES) is None
    assert change_fields(read_batches(with_header_of(cut[:22] + b"\7" + cut[23:], cut[61:]))[0], HIDES) is None
