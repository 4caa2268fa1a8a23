"""Records as objects, against what Kafka's classes read from the same bytes; and their bytes again."""

import gzip
from typing import Any

import pytest

from kproxy.errors import EncodeError
from kproxy.protocol.records.batches import Batch
from kproxy.protocol.records.objects import Record, encode_message, encode_records, read_objects
from tests.support.corpus import golden_lines
from tests.support.frames import batch, message, record, sized, varint


def shown(read: Record, magic: int) -> dict[str, Any]:
    """A record as records.jsonl.gz shows it."""
    hexed = {"keyHex": read.key, "valueHex": read.value}
    return {
        "offset": read.offset,
        "timestamp": read.timestamp,
        **({"sequence": read.sequence} if magic == 2 else {}),
        **{name: None if data is None else data.hex() for name, data in hexed.items()},
        "headers": [{"key": k, "valueHex": None if v is None else v.hex()} for k, v in read.headers],
    }


def test_records_are_what_kafka_reads() -> None:
    seen = 0
    for line in golden_lines("records"):
        data = bytes.fromhex(line["hex"])
        for kafkas in line["batches"]:
            records, error = read_objects(Batch(data, kafkas["position"]).open())
            expected = [{k: v for k, v in r.items() if k != "control"} for r in kafkas["records"]]
            assert [shown(r, kafkas["magic"]) for r in records] == expected, line["kind"]
            assert (error is None) == ("recordsError" not in kafkas), line["kind"]
            seen += len(records)
    assert seen == 1111  # records, as README.md counts them


def read(data: bytes) -> tuple[list[Record], str | None]:
    return read_objects(Batch(data, 0).open())


@pytest.mark.parametrize(
    ("records", "count", "found", "error"),
    [
        (
            record(b"k", b"v"),
            2,
            1,
            "record 1: the batch ends 1 records before its count says (at byte 70 of the field)",
        ),
        (
            record(b"k", b"v") * 2,
            1,
            0,
            "record 0: 9 bytes are left over behind the last record (at byte 70 of the field)",
        ),
        (varint(-3), 1, 0, "record 0: a record of -3 bytes (at byte 62 of the field)"),
        (varint(60) + bytes(9), 1, 0, "record 0: needs 60 bytes, 9 left (at byte 62 of the field)"),
        (record(None, None, headers=varint(-1)), 1, 0, "record 0: claims -1 headers (at byte 68 of the field)"),
        (
            record(None, None, headers=varint(9) + bytes(4)),
            1,
            0,
            "record 0: claims 9 headers, more than the 4 bytes left can hold (at byte 68 of the field)",
        ),
        (
            record(None, None, headers=varint(1) + sized(None) + sized(b"")),
            1,
            0,
            "record 0: a header without a key (at byte 69 of the field)",
        ),
        (
            record(None, None, headers=b"\x00trail"),
            1,
            0,
            "record 0: its fields end 5 bytes before its size says (at byte 68 of the field)",
        ),
        (
            varint(9) + b"\x00\x00\x00" + varint(20) + bytes(5),  # a key over the record's end
            1,
            0,
            "record 0: needs 20 bytes, 5 left (at byte 66 of the field)",
        ),
        (b"\xff" * 6, 1, 0, "record 0: a varint of more than 5 bytes (at byte 61 of the field)"),
    ],
)
def test_what_is_wrong_with_a_record_is_said_with_its_place(records: bytes, count: int, found: int, error: str) -> None:
    got, why = read(batch(records, count))
    assert (len(got), why) == (found, error)


def test_offsets_in_a_wrapper_of_magic_1_are_relative() -> None:
    # AbstractLegacyRecordBatch.DeepRecordsIterator: base = wrapper - last; librdkafka's producer leaves the wrapper's at 0.
    inner = b"".join(message(b"v", offset=offset) for offset in (0, 3, 4))
    for wrapper, offsets in ((104, [100, 103, 104]), (4, [0, 3, 4]), (0, [0, 3, 4])):
        records, error = read(message(gzip.compress(inner), attributes=1, offset=wrapper))
        assert ([r.offset for r in records], error) == (offsets, None)


def test_offsets_in_a_wrapper_of_magic_0_are_absolute() -> None:
    inner = b"".join(message(b"v", magic=0, offset=offset) for offset in (100, 103))
    records, _ = read(message(gzip.compress(inner), magic=0, attributes=1, offset=103))
    assert [r.offset for r in records] == [100, 103]


def test_keys_of_headers_that_are_not_utf_8_survive() -> None:
    headers = varint(1) + sized(b"\xff\xfe") + sized(b"v")
    data = batch(record(b"k", None, headers=headers), 1)
    records, _ = read(data)
    assert records[0].headers == [("\udcff\udcfe", b"v")]
    assert encode_records(records, 0, 1_000, False) == data[61:]


def test_records_are_written_as_kafka_wrote_them() -> None:
    written = 0
    for line in golden_lines("records"):
        data = bytes.fromhex(line["hex"])
        for kafkas in line["batches"]:
            if kafkas["magic"] == 2 and kafkas["compression"] == "none" and "recordsError" not in kafkas:
                source = Batch(data, kafkas["position"])
                records, _ = read_objects(source.open())
                append = kafkas["timestampType"] == "LogAppendTime"
                again = encode_records(records, kafkas["baseOffset"], kafkas["baseTimestamp"], append)
                assert again == source.raw[61:]
                written += 1
    assert written > 50


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_written_as_the_layout_says(magic: int) -> None:
    one = Record(key=b"key", value=None)
    assert encode_message(one, 5, 7, magic, 0) == message(None, key=b"key", magic=magic, offset=5)


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (Record(key="text"), "a record's key is bytes or None, not str"),  # type: ignore[arg-type]
        (Record(value=5), "a record's value is bytes or None, not int"),  # type: ignore[arg-type]
        (Record(headers=[("a",)]), "a record's header is"),  # type: ignore[list-item]
        (Record(headers=[(None, b"")]), "a record's header is"),  # type: ignore[list-item]
        (Record(offset=1 << 40), "offset 1099511627776 is too far from the batch's 0"),
    ],
)
def test_what_cannot_be_written_is_refused(one: Record, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        encode_records([one], 0, 0, False)


def test_messages_have_no_headers() -> None:
    with pytest.raises(EncodeError, match="magic 1 has no headers"):
        encode_message(Record(headers=[("a", b"")]), 0, 0, 1, 0)


def test_records_compare_by_what_they_carry() -> None:
    assert Record(offset=1, key=b"k", sequence=3) == Record(offset=1, key=b"k", sequence=-1)
    assert Record(offset=1) != Record(offset=2)
    assert Record() != "record"
    assert repr(Record(key=b"k")) == "Record(offset=0, timestamp=-1, key=b'k', value=None, headers=[], sequence=-1)"
