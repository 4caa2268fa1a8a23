"""Record batches as JSON and back, judged by aiokafka's own reader, which checks sizes and CRCs."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.record import MemoryRecords

from kproxy.filters.breakpoints.batch_values import BatchMistake
from kproxy.filters.breakpoints.batches_json import Unchanged, shown_field, written_field
from kproxy.protocol.records import Codec, Record, RecordBatch, write_batches

RECORDS = [
    Record(
        offset=0, timestamp=1_700_000_000_000, key=b"k", value=b"plain text", headers=[("h", b"\xff\x00"), ("n", None)]
    ),
    Record(offset=1, timestamp=1_700_000_000_005, key=None, value="grün ☃".encode()),
    Record(offset=2, timestamp=1_700_000_000_001, key=b"\x00\xfe", value=None),
]


def field(codec: int = Codec.NONE, magic: int = 2, **fields: Any) -> bytes:
    return write_batches([RecordBatch(list(RECORDS), magic=magic, codec=codec, **fields)])


def read_by_another(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record, as aiokafka reads them; each CRC must be right."""
    batches = MemoryRecords(data)
    found = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(record.offset, record.key, record.value) for record in batch]
    return found


def edited(data: bytes, edit: Callable[[Any], None], *, renumber: bool = False) -> bytes:
    shown = json.loads(json.dumps(shown_field(data)))
    edit(shown)
    return written_field(shown, Unchanged([data]), renumber=renumber)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_not_edited_keeps_its_bytes(codec: Codec) -> None:
    data = field(codec, producer_id=7, producer_epoch=1, base_sequence=3)
    assert edited(data, lambda shown: None) == data


@pytest.mark.parametrize("codec", list(Codec))
def test_an_edited_value_is_read_by_another_implementation(codec: Codec) -> None:
    data = field(codec)

    def edit(shown: Any) -> None:
        assert shown[0]["compression"] == codec.name.lower()
        shown[0]["records"][0]["value"] = "edited ☃"
        shown[0]["records"][1]["key"] = {"base64": base64.b64encode(b"\xff\x01").decode()}
        shown[0]["records"][2]["value"] = "no tombstone"

    values = [(0, b"k", "edited ☃".encode()), (1, b"\xff\x01", "grün ☃".encode()), (2, b"\x00\xfe", b"no tombstone")]
    assert read_by_another(edited(data, edit)) == values


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_messages_are_edited_too(magic: int, codec: Codec) -> None:
    records = [Record(offset=0, timestamp=5 if magic else -1, key=b"k", value=b"old")]
    data = write_batches([RecordBatch(records, magic=magic, codec=codec)])
    assert edited(data, lambda shown: None) == data

    def edit(shown: Any) -> None:
        shown[0]["records"][0]["value"] = "new"

    assert read_by_another(edited(data, edit)) == [(0, b"k", b"new")]


def test_records_are_taken_out_and_added() -> None:
    def edit(shown: Any) -> None:
        del shown[0]["records"][1]
        shown[0]["records"].append({"offset": 9, "timestamp": 5, "key": None, "value": "added", "headers": []})

    kept = edited(field(), edit)
    assert [offset for offset, _, _ in read_by_another(kept)] == [0, 2, 9]
    numbered = edited(field(), edit, renumber=True)
    assert read_by_another(numbered) == [(0, b"k", b"plain text"), (1, b"\x00\xfe", None), (2, None, b"added")]
    assert MemoryRecords(numbered).next_batch().next_offset == 3


def test_one_of_two_batches_is_edited_and_the_other_keeps_its_bytes() -> None:
    first, second = field(Codec.LZ4), field(Codec.ZSTD, base_offset=3)

    def edit(shown: Any) -> None:
        shown[1]["records"][0]["value"] = "edited"

    written = edited(first + second, edit)
    assert written.startswith(first)
    assert len(read_by_another(written)) == 6


def test_a_batch_with_a_wrong_crc_is_opaque_and_stays_as_it_is() -> None:
    good = field()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    assert shown_field(bad) == [{"base64": base64.b64encode(bad).decode()}]
    assert edited(bad, lambda shown: None) == bad
    assert edited(bad + good, lambda shown: shown[1]["records"][0].update(value="x")).startswith(bad)


def test_edited_base64_gets_its_crc_made_right() -> None:
    data = field()
    changed = data.replace(b"plain text", b"PLAIN TEXT")
    with pytest.raises(AssertionError):
        read_by_another(changed)
    for shown in (base64.b64encode(changed).decode(), [{"base64": base64.b64encode(changed).decode()}]):
        written = written_field(shown, Unchanged([data]), renumber=False)
        assert read_by_another(written)[0] == (0, b"k", b"PLAIN TEXT")


def test_a_batch_that_is_cut_off_stays_behind_the_others() -> None:
    whole, cut = field(), field()[:40]
    assert shown_field(whole + cut)[1] == {"base64": base64.b64encode(cut).decode()}
    assert edited(whole + cut, lambda shown: None) == whole + cut
    assert edited(whole + cut, lambda shown: shown[0]["records"].pop()).endswith(cut)


def test_a_compacted_batch_keeps_its_last_offset() -> None:
    data = field(last_offset=10)
    assert shown_field(data)[0]["lastOffset"] == 10
    written = edited(data, lambda shown: shown[0]["records"][0].update(value="x"))
    assert MemoryRecords(written).next_batch().next_offset == 11


def test_the_time_of_the_broker_and_those_of_the_producer_are_both_kept() -> None:
    """LogAppendTime: readers see the batch's own time; those of the records stay, as they came, behind it."""
    data = field(attributes=8, max_timestamp=1_800_000_000_000)
    shown = shown_field(data)[0]
    assert shown["maxTimestamp"] == 1_800_000_000_000
    assert [one["timestamp"] for one in shown["records"]] == [one.timestamp for one in RECORDS]
    written = edited(data, lambda shown: shown[0]["records"][0].update(value="edited"))
    assert {record.timestamp for record in MemoryRecords(written).next_batch()} == {1_800_000_000_000}
    assert [one["timestamp"] for one in shown_field(written)[0]["records"]] == [one.timestamp for one in RECORDS]
    later = edited(data, lambda shown: shown[0].update(maxTimestamp=1_900_000_000_000))
    assert {record.timestamp for record in MemoryRecords(later).next_batch()} == {1_900_000_000_000}


def test_a_control_batch_is_opaque() -> None:
    control = RecordBatch([Record(offset=0, timestamp=1, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")], attributes=0x20)
    data = write_batches([control])
    assert list(shown_field(data)[0]) == ["base64"]


@pytest.mark.parametrize(
    ("shown", "path", "words"),
    [
        (7, "", "neither a list of batches nor base64"),
        ("!", "", "is not base64"),
        ([7], "[0]", "is no batch"),
        ([{"base64": 7}], "[0].base64", "is not base64"),
        ([{"magic": 2}], "[0].records", "is missing"),
        ([{"magic": 3, "records": []}], "[0]", "no batch has magic 3"),
        ([{"compression": "zip", "records": []}], "[0].compression", "none of none, gzip, snappy, lz4, zstd"),
        ([{"records": [], "colour": 1}], "[0]", "has no field 'colour'"),
        ([{"records": [{"key": 7}]}], "[0].records[0].key", "neither text"),
        ([{"records": [], "producerId": "7"}], "[0].producerId", "is no whole number"),
        ([{"records": [], "producerEpoch": 70_000}], "[0].producerEpoch", "70000 is not within -32768 and 32767"),
        ([{"magic": 1, "compression": "zstd", "records": [{}]}], "[0].compression", "zstd needs magic 2"),
        ([{"magic": 0, "records": [{"timestamp": 5}]}], "[0].records[0].timestamp", "no place in a batch of magic 0"),
        (
            [{"magic": 1, "records": [{}, {"headers": [{"key": "k", "value": None}]}]}],
            "[0].records[1].headers",
            "magic 1",
        ),
        ([{"magic": 1, "records": [{}], "producerId": 5}], "[0].producerId", "no place in a batch of magic 1"),
        ([{"records": [{"offset": 5}], "lastOffset": 4}], "[0].lastOffset", "less than the offset of a record"),
        ([{"records": [{"timestamp": 5}], "maxTimestamp": 9}], "[0].maxTimestamp", "follows from the timestamps"),
        ([{"records": [{}], "attributes": 3}], "[0].attributes", "the codec is compression"),
        ([{"records": [{}], "attributes": 32}], "[0].attributes", "control batch"),
    ],
)
def test_a_mistake_says_where_it_is(shown: Any, path: str, words: str) -> None:
    with pytest.raises(BatchMistake) as mistake:
        written_field(shown, Unchanged([]), renumber=False)
    assert mistake.value.path == path
    assert words in mistake.value.reason


def test_what_is_shown_is_bounded() -> None:
    zeroes = RecordBatch([Record(offset=0, timestamp=1, value=bytes(8 << 20))], codec=Codec.GZIP)
    assert list(shown_field(write_batches([zeroes]))[0]) == ["base64"]
    many = write_batches([RecordBatch([Record(offset=n, timestamp=1) for n in range(9_000)])])
    assert [next(iter(one)) for one in shown_field(many * 3)] == ["magic", "magic", "base64"]
