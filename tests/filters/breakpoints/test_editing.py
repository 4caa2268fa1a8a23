"""Stopped messages as JSON and back: every message that Kafka's own classes have written, and what is wrong in edited JSON.

Batches are judged by aiokafka's own reader, which checks sizes and CRCs.
"""

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.record import MemoryRecords

from kproxy.errors import EncodeError
from kproxy.filters.breakpoints.editing import Mistake, changed_paths, from_json, place_of, shown, shown_batches
from kproxy.protocol import (
    Message,
    message,
    read_request_header,
    read_response_header,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.protocol.records import Codec, Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from tests.support.canaries import Canaries, record_scenes
from tests.support.corpus import golden_lines
from tests.support.hostile_names import hostile_names
from tests.support.messages import make

SIZE_FIELD = 4
FETCH, PRODUCE = message("FetchResponse"), message("ProduceRequest")
BATCHES = "responses[0].partitions[0].records"
RECORDS = [
    Record(
        offset=0, timestamp=1_700_000_000_000, key=b"k", value=b"plain text", headers=[("h", b"\xff\x00"), ("n", None)]
    ),
    Record(offset=1, timestamp=1_700_000_000_005, key=None, value="grün ☃".encode()),
    Record(offset=2, timestamp=1_700_000_000_001, key=b"\x00\xfe", value=None),
]


def golden_bodies() -> list[tuple[Message, int, bytes]]:
    found = []
    for line in golden_lines("frames"):
        frame, key, version = bytes.fromhex(line["frameHex"]), line["apiKey"], line["version"]
        if line["direction"] == "request":
            codec, start = request_message(key), read_request_header(frame, SIZE_FIELD).size
        else:
            codec = response_message(key)
            start = read_response_header(frame, response_header_version(key, version), SIZE_FIELD).size
        assert codec is not None
        if version in codec.versions:  # no filter gets others
            found.append((codec, version, frame[SIZE_FIELD + start :]))
    return found


def test_every_message_of_kafkas_classes_is_the_same_after_json() -> None:
    bodies = golden_bodies()
    assert len(bodies) > 1_000
    for codec, version, body in bodies:
        assert from_json(codec, version, shown(codec, version, body), body) == body, (codec.name, version)
        assert changed_paths(codec, version, body, body) == []


def produce(data: bytes) -> bytes:
    topic = {"name": "orders", "partition_data": [{"index": 3, "records": data}], "unknown_tags": ((100, b"kept"),)}
    return PRODUCE.encode(9, make("ProduceRequest", acks=-1, timeout_ms=1_000, topic_data=[topic]))


HELLO = produce(write_batches([RecordBatch([Record(offset=0, timestamp=5, value=b"hello")])]))


def test_unknown_tagged_fields_stay() -> None:
    after = from_json(PRODUCE, 9, shown(PRODUCE, 9, HELLO).replace('"hello"', '"bye"'), HELLO)
    decoded: Any = PRODUCE.decode(9, after)
    assert decoded.topic_data[0].unknown_tags == ((100, b"kept"),)
    assert changed_paths(PRODUCE, 9, HELLO, after) == ["topicData[0].partitionData[0].records[0].records[0].value"]


def test_kafkas_json_is_there_with_batches_in_place_of_sizes() -> None:
    ours, kafkas = json.loads(shown(PRODUCE, 9, HELLO)), json.loads(PRODUCE.to_json(9, HELLO))
    batches = ours["topicData"][0]["partitionData"][0].pop("records")
    assert kafkas["topicData"][0]["partitionData"][0].pop("recordsSizeInBytes") > 0
    assert ours == kafkas
    assert batches[0]["records"][0]["value"] == "hello"


@pytest.mark.parametrize(
    ("before", "after", "path", "words"),
    [
        ('"acks": -1', '"acks": 99999', "acks", "not within -32768 and 32767"),
        ('"acks": -1', '"acks": "all"', "acks", "not a whole number"),
        ('"acks": -1,', "", "acks", "is missing"),
        ('"name": "orders"', '"name": null', "topicData[0].name", "null is not allowed"),
        ('"name": "orders"', '"name": "orders", "colour": 1', "topicData[0]", "has no field 'colour'"),
        ('"index": 3', '"index": []', "topicData[0].partitionData[0].index", "not a whole number"),
        ('"hello"', "7", "topicData[0].partitionData[0].records[0].records[0].value", "expected str | object | null"),
        ('"offset": 0', '"offset": null', "topicData[0].partitionData[0].records[0].records[0].offset", "got null"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_its_path(before: str, after: str, path: str, words: str) -> None:
    text = shown(PRODUCE, 9, HELLO)
    assert text.count(before) == 1
    with pytest.raises(Mistake) as mistake:
        from_json(PRODUCE, 9, text.replace(before, after), HELLO)
    assert mistake.value.path == path
    assert words in mistake.value.reason
    assert mistake.value.line is not None and mistake.value.column is not None
    there = text.replace(before, after).split("\n")[mistake.value.line - 1][mistake.value.column - 1 :]
    value = after.partition(": ")[2].removesuffix(",") or after
    assert there.startswith(value if "is missing" not in words and "has no field" not in words else "{")


def test_text_that_is_no_json_has_its_line_and_column() -> None:
    with pytest.raises(Mistake) as mistake:
        from_json(PRODUCE, 9, '{\n  "acks": ,\n}', HELLO)
    assert (mistake.value.line, mistake.value.column) == (2, 11)
    for text in ("", "[]", "null", "[" * 100_000, '{"topicData": [[{"records": 1}]]}', '{"acks": 1e999}'):
        with pytest.raises(Mistake):
            from_json(PRODUCE, 9, text, HELLO)


def test_text_of_the_traffic_cannot_hide_or_move_what_is_around_it() -> None:
    codec = message("HeartbeatRequest")
    names = [name.decode("utf-8", "surrogateescape") for name in hostile_names(5, 300) if len(name) < 5_000]
    for name in [*names, "a" + "\u0301" * 40, "\u202eevil\u2066", "a\u00a0b\u3000\U00100000"]:
        try:
            body = codec.encode(4, make("HeartbeatRequest", group_id=name, member_id="m"))
        except EncodeError:  # no UTF-8, which Kafka's strings are
            continue
        text = shown(codec, 4, body)
        assert not [one for one in text if not one.isprintable() and one != "\n"]
        assert "\u0301" * 4 not in text
        assert from_json(codec, 4, text, body) == body


def test_records_that_are_withheld_are_sent_as_they_came() -> None:
    canary = Canaries(7)
    (scene,) = record_scenes(canary)
    frame = next(data for is_request, data in scene.segments if is_request and b"orders" in data)
    body = frame[SIZE_FIELD + read_request_header(frame, SIZE_FIELD).size :]
    text = shown(PRODUCE, 7, body, body)
    assert canary.found_in({"json": text.encode()}) == set()
    assert canary.found_in({"json": shown(PRODUCE, 7, body).encode()}) != set()
    assert from_json(PRODUCE, 7, text, body) == body
    edited = from_json(PRODUCE, 7, text.replace('"timeoutMs": 1', '"timeoutMs": 9'), body)
    assert changed_paths(PRODUCE, 7, body, edited) == ["timeoutMs"]
    again = shown(PRODUCE, 7, edited, body)
    assert canary.found_in({"json": again.encode()}) == set()
    assert from_json(PRODUCE, 7, again, body) == edited


def test_names_of_at_most_so_many_changes() -> None:
    codec = message("MetadataRequest")

    def body(side: str) -> bytes:
        topics = [{"name": f"{n}-{side}"} for n in range(99)]
        return codec.encode(12, make("MetadataRequest", topics=topics))

    assert len(changed_paths(codec, 12, body("a"), body("b"))) == 50


def field(codec: int = Codec.NONE, **fields: Any) -> bytes:
    return write_batches([RecordBatch(list(RECORDS), codec=codec, **fields)])


def read_by_another(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record, as aiokafka reads them; each CRC must be right."""
    batches = MemoryRecords(data)
    found = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(record.offset, record.key, record.value) for record in batch]
    return found


def edited(data: bytes, edit: Callable[[Any], Any], *, renumber: bool = False) -> bytes:
    """The records field of a Fetch response, or of a Produce request if that *renumber*s, after an edit of its batches."""
    if renumber:
        codec, version, body, names = PRODUCE, 9, produce(data), ("topicData", "partitionData")
    else:
        partition = {"partition_index": 3, "records": data}
        topic = {"topic": "orders", "partitions": [partition]}
        codec, version, names = FETCH, 11, ("responses", "partitions")
        body = FETCH.encode(11, make("FetchResponse", responses=[topic]))
    tree = json.loads(shown(codec, version, body))
    partition = tree[names[0]][0][names[1]][0]
    given = edit(partition["records"])
    partition["records"] = partition["records"] if given is None else given
    decoded: Any = codec.decode(version, from_json(codec, version, json.dumps(tree), body))
    topic = decoded.topic_data[0].partition_data if renumber else decoded.responses[0].partitions
    records: bytes = topic[0].records
    return records


@pytest.mark.parametrize("codec", list(Codec))
def test_an_edited_value_is_read_by_another_implementation(codec: Codec) -> None:
    data = field(codec, producer_id=7, producer_epoch=1, base_sequence=3)
    assert edited(data, lambda batches: None) == data

    def edit(batches: Any) -> None:
        assert batches[0]["compression"] == codec.name.lower()
        batches[0]["records"][0]["value"] = "edited ☃"
        batches[0]["records"][1]["key"] = {"base64": base64.b64encode(b"\xff\x01").decode()}
        batches[0]["records"][2]["value"] = "no tombstone"

    values = [(0, b"k", "edited ☃".encode()), (1, b"\xff\x01", "grün ☃".encode()), (2, b"\x00\xfe", b"no tombstone")]
    assert read_by_another(edited(data, edit)) == values


def test_records_are_the_same_in_json_and_in_another_batch() -> None:
    unusual = [
        Record(
            offset=(1 << 31) - 1,
            timestamp=-(1 << 62),
            key=b"",
            value="☃".encode(),
            headers=[("h", b"\xff"), ("", None)],
        ),
        Record(offset=0, timestamp=0, key=None, value=b"\xed\xa0\x80"),
    ]
    data = write_batches([RecordBatch(unusual, base_offset=0)])
    again = edited(data, lambda batches: batches[0].update(producerId=9))
    assert again != data
    assert shown_batches(again)[0]["records"] == shown_batches(data)[0]["records"]


def test_records_are_taken_out_and_added() -> None:
    def edit(batches: Any) -> None:
        del batches[0]["records"][1]
        batches[0]["records"].append({"offset": 9, "timestamp": 5, "key": None, "value": "added", "headers": []})

    assert [offset for offset, _, _ in read_by_another(edited(field(), edit))] == [0, 2, 9]
    numbered = edited(field(), edit, renumber=True)
    assert read_by_another(numbered) == [(0, b"k", b"plain text"), (1, b"\x00\xfe", None), (2, None, b"added")]
    assert MemoryRecords(numbered).next_batch().next_offset == 3


def test_one_of_two_batches_is_edited_and_the_other_keeps_its_bytes() -> None:
    first, second = field(Codec.LZ4), field(Codec.ZSTD, base_offset=3)
    written = edited(first + second, lambda batches: batches[1]["records"][0].update(value="edited"))
    assert written.startswith(first)
    assert len(read_by_another(written)) == 6


def test_batches_that_cannot_be_edited_are_opaque_and_stay_as_they_are() -> None:
    good = field()
    zeroes = RecordBatch([Record(offset=0, timestamp=1, value=bytes(8 << 20))], codec=Codec.GZIP)
    control = RecordBatch([Record(offset=0, timestamp=1, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")], attributes=0x20)
    for opaque in (
        good[:-1] + bytes([good[-1] ^ 1]),  # a wrong CRC
        write_batches([zeroes]),
        write_batches([control]),
        write_batches([RecordBatch([Record(offset=0, timestamp=5, value=b"old")], magic=1)]),
        write_batches([RecordBatch([Record(offset=0, value=b"old")], magic=0, codec=Codec.GZIP)]),
    ):
        assert shown_batches(opaque) == [{"base64": base64.b64encode(opaque).decode()}]
        assert edited(opaque, lambda batches: None) == opaque
        assert edited(opaque + good, lambda batches: batches[1]["records"][0].update(value="x")).startswith(opaque)
    cut = good[:40]
    assert shown_batches(good + cut)[1] == {"base64": base64.b64encode(cut).decode()}
    assert edited(good + cut, lambda batches: batches[0]["records"].pop() and None).endswith(cut)
    many = write_batches([RecordBatch([Record(offset=n, timestamp=1) for n in range(9_000)])])
    assert [next(iter(one)) for one in shown_batches(many * 3)] == ["magic", "magic", "base64"]


def test_a_compacted_batch_keeps_its_last_offset() -> None:
    data = field(last_offset=10)
    assert shown_batches(data)[0]["lastOffset"] == 10
    written = edited(data, lambda batches: batches[0]["records"][0].update(value="x"))
    assert MemoryRecords(written).next_batch().next_offset == 11


def test_the_time_of_the_broker_and_those_of_the_producer_are_both_kept() -> None:
    """LogAppendTime: readers see the batch's own time; those of the records stay, as they came, behind it."""
    data = field(attributes=8, max_timestamp=1_800_000_000_000)
    batch = shown_batches(data)[0]
    assert batch["maxTimestamp"] == 1_800_000_000_000
    assert [one["timestamp"] for one in batch["records"]] == [one.timestamp for one in RECORDS]
    written = edited(data, lambda batches: batches[0]["records"][0].update(value="edited"))
    assert {record.timestamp for record in MemoryRecords(written).next_batch()} == {1_800_000_000_000}
    assert [one["timestamp"] for one in shown_batches(written)[0]["records"]] == [one.timestamp for one in RECORDS]
    later = edited(data, lambda batches: batches[0].update(maxTimestamp=1_900_000_000_000))
    assert {record.timestamp for record in MemoryRecords(later).next_batch()} == {1_900_000_000_000}


@pytest.mark.parametrize(
    ("batches", "path", "words"),
    [
        (7, "", "neither a list of batches nor base64"),
        ("!", "", "is not base64"),
        ([7], "[0]", "expected object, got int"),
        ([{"base64": 7}], "[0].base64", "is not base64"),
        ([{"magic": 2}], "[0]", "object missing required field records"),
        ([{"magic": 1, "records": []}], "[0].magic", "invalid enum value 1"),
        ([{"compression": "zip", "records": []}], "[0].compression", "invalid enum value"),
        ([{"records": [], "colour": 1}], "[0]", "object contains unknown field colour"),
        ([{"records": [{"key": 7}]}], "[0].records[0].key", "expected str | object | null, got int"),
        ([{"records": [{"key": {"base64": "!"}}]}], "[0].records[0].key.base64", "base64"),
        ([{"records": [{"value": "\ud800"}]}], "[0].records[0]", "lone surrogate"),
        ([{"records": [{"headers": [7]}]}], "[0].records[0].headers[0]", "expected object, got int"),
        ([{"records": [{"offset": 1 << 63}]}], "[0].records[0].offset", "int"),
        ([{"records": [{"offset": 1.5}]}], "[0].records[0].offset", "expected int, got float"),
        ([{"records": [], "producerId": "7"}], "[0].producerId", "expected int, got str"),
        ([{"records": [], "producerEpoch": 70_000}], "[0].producerEpoch", "32767"),
        ([{"records": [{"offset": 5}], "lastOffset": 4}], "[0].lastOffset", "less than the offset of a record"),
        ([{"records": [{"timestamp": 5}], "maxTimestamp": 9}], "[0].maxTimestamp", "follows from the timestamps"),
        ([{"records": [{}], "attributes": 3}], "[0].attributes", "the codec is compression"),
        ([{"records": [{}], "attributes": 32}], "[0].attributes", "control batch"),
    ],
)
def test_a_mistake_in_a_batch_says_where_it_is(batches: Any, path: str, words: str) -> None:
    with pytest.raises(Mistake) as mistake:
        edited(field(), lambda _: batches)
    assert mistake.value.path == BATCHES + path
    assert words in mistake.value.reason


TEXT = """{
  "acks": -1,
  "topicData" : [ {"name": "a\\"]}", "partitions": []},
    {"name": null, "partitions": [1, 22]} ],
  "last": {"acks": 5}
}"""


def test_a_path_is_found_or_the_nearest_around_it() -> None:
    for path, place in {
        "": (1, 1),
        "acks": (2, 11),
        "topicData": (3, 17),
        "topicData[0]": (3, 19),
        "topicData[0].name": (3, 28),
        "topicData[1].name": (4, 14),
        "topicData[1].partitions[1]": (4, 38),
        "last.acks": (5, 20),
        "missing": (1, 1),
        "topicData[7].name": (3, 17),
        "topicData[1].missing": (4, 5),
        "topicData[1].partitions[1].deeper": (4, 38),
        "acks[0]": (2, 11),
    }.items():
        assert place_of(TEXT, path) == place, path
    assert place_of('{"a": 1, "a": 2}', "a") == (1, 15)  # of two members of a name the one that counts


def tree(numbers: random.Random, depth: int, marks: dict[str, str], path: str) -> Any:
    """A random value, in which each leaf is a text of its own."""
    kind = numbers.choice(["object", "array", "leaf"]) if depth else "leaf"
    if kind == "object":
        names = numbers.sample(["a", "bé", "c d", "\u202e", '"', "name"], numbers.randint(0, 4))
        return {name: tree(numbers, depth - 1, marks, f"{path}.{name}" if path else name) for name in names}
    if kind == "array":
        return [tree(numbers, depth - 1, marks, f"{path}[{at}]") for at in range(numbers.randint(0, 4))]
    mark = f"leaf {len(marks)};"
    marks[mark] = path
    return mark


def test_each_leaf_of_random_json_is_found_where_its_text_is() -> None:
    numbers = random.Random(7)
    seen = 0
    for _ in range(200):
        marks: dict[str, str] = {}
        value = tree(numbers, 5, marks, "")
        for style in ({"indent": 2}, {"separators": (",", ":")}, {"indent": 1, "ensure_ascii": False}):
            text = json.dumps(value, **style)  # type: ignore[arg-type]
            for mark, path in marks.items():
                line, column = place_of(text, path)
                assert text.split("\n")[line - 1][column - 1 :].startswith(f'"{mark}"'), (path, text)
                seen += 1
    assert seen > 1_000
