"""Stopped messages as text and back: every message that Kafka's own classes have written, and what is wrong in edited text."""

import json
from typing import Any

import pytest

from kproxy.errors import EncodeError
from kproxy.filters.breakpoints.stopped_text import Mistake, changed_paths, from_hex, from_json, shown
from kproxy.protocol import (
    Message,
    message,
    read_request_header,
    read_response_header,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.protocol.records import Record, RecordBatch, write_batches
from tests.support.canaries import Canaries, record_scenes
from tests.support.corpus import golden_lines
from tests.support.filtering import make, part
from tests.support.hostile_names import hostile_names

SIZE_FIELD = 4


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


def test_every_message_of_kafkas_classes_is_the_same_after_json_and_after_hex() -> None:
    bodies = golden_bodies()
    assert len(bodies) > 1_000
    for codec, version, body in bodies:
        text = shown(codec, version, body)
        assert from_json(codec, version, text.json, body) == body, (codec.name, version)
        assert from_hex(codec, version, text.hex, body) == body, (codec.name, version)
        assert changed_paths(codec, version, body, body) == []


def produce(value: bytes = b"hello") -> tuple[Message, int, bytes]:
    codec = message("ProduceRequest")
    records = write_batches([RecordBatch([Record(offset=0, timestamp=5, value=value)])])
    partition = part("ProduceRequest", "PartitionProduceData", index=3, records=records)
    topic = part("ProduceRequest", "TopicProduceData", name="orders", partition_data=[partition])
    topic.unknown_tags = ((100, b"kept"),)
    asked = make("ProduceRequest", acks=-1, timeout_ms=1_000, topic_data=[topic])
    return codec, 9, codec.encode(9, asked)


def test_unknown_tagged_fields_stay() -> None:
    codec, version, body = produce()
    text = shown(codec, version, body).json
    after = from_json(codec, version, text.replace('"hello"', '"bye"'), body)
    decoded: Any = codec.decode(version, after)
    assert decoded.topic_data[0].unknown_tags == ((100, b"kept"),)
    assert changed_paths(codec, version, body, after) == ["topicData[0].partitionData[0].records[0].records[0].value"]


def test_what_kafkas_json_says_is_there_beside_the_batches() -> None:
    codec, version, body = produce()
    ours, kafkas = json.loads(shown(codec, version, body).json), json.loads(codec.to_json(version, body))
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
        ('"hello"', "7", "topicData[0].partitionData[0].records[0].records[0].value", "neither text"),
        (
            '"offset": 0',
            '"offset": null',
            "topicData[0].partitionData[0].records[0].records[0].offset",
            "no whole number",
        ),
    ],
)
def test_a_field_that_is_wrong_is_named_with_its_path(before: str, after: str, path: str, words: str) -> None:
    codec, version, body = produce()
    text = shown(codec, version, body).json
    assert text.count(before) == 1
    with pytest.raises(Mistake) as mistake:
        from_json(codec, version, text.replace(before, after), body)
    assert mistake.value.path == path
    assert words in mistake.value.reason
    assert mistake.value.line is not None and mistake.value.column is not None
    there = text.replace(before, after).split("\n")[mistake.value.line - 1][mistake.value.column - 1 :]
    value = after.partition(": ")[2].removesuffix(",") or after
    assert there.startswith(value if "is missing" not in words and "has no field" not in words else "{")


def test_text_that_is_no_json_has_its_line_and_column() -> None:
    codec, version, body = produce()
    with pytest.raises(Mistake) as mistake:
        from_json(codec, version, '{\n  "acks": ,\n}', body)
    assert (mistake.value.line, mistake.value.column) == (2, 11)
    for text in ("", "[]", "null", "[" * 100_000, '{"topicData": [[{"records": 1}]]}', '{"acks": 1e999}'):
        with pytest.raises(Mistake):
            from_json(codec, version, text, body)


def test_hex_that_is_no_message_says_at_which_byte() -> None:
    codec, version, body = produce()
    for text, position in ((body[:-1].hex(), len(body) - 1), (body.hex() + "00", len(body))):
        with pytest.raises(Mistake) as mistake:
            from_hex(codec, version, text, body)
        assert mistake.value.position == position
    lines = body.hex(" ", 1)[:-3]
    with pytest.raises(Mistake) as mistake:
        from_hex(codec, version, lines.replace(" ", "\n", 1), body)
    assert (mistake.value.line, mistake.value.column) == (2, len(lines) - 2)


@pytest.mark.parametrize(
    ("text", "line", "column"), [("0g", 1, 2), ("00\n00 0 00", 2, 4), ("00\n000", 2, 3), ("0", 1, 1), ("é", 1, 1)]
)
def test_what_is_no_hex_has_its_line_and_column(text: str, line: int, column: int) -> None:
    codec, version, body = produce()
    with pytest.raises(Mistake, match="not hex") as mistake:
        from_hex(codec, version, text, body)
    assert (mistake.value.line, mistake.value.column) == (line, column)


def test_text_of_the_traffic_cannot_hide_or_move_what_is_around_it() -> None:
    codec = message("HeartbeatRequest")
    names = [name.decode("utf-8", "surrogateescape") for name in hostile_names(5, 300) if len(name) < 5_000]
    for name in [*names, "a" + "\u0301" * 40, "\u202eevil\u2066", "a\u00a0b\u3000\U00100000"]:
        try:
            body = codec.encode(4, make("HeartbeatRequest", group_id=name, member_id="m"))
        except EncodeError:  # no UTF-8, which Kafka's strings are
            continue
        text = shown(codec, 4, body).json
        assert not [one for one in text if not one.isprintable() and one != "\n"]
        assert "\u0301" * 4 not in text
        assert from_json(codec, 4, text, body) == body


def test_hex_with_spaces_is_read_and_the_crc_made_right() -> None:
    codec, version, body = produce()
    spaced = body.replace(b"hello", b"HELLO").hex(" ", 4)
    after: Any = codec.decode(version, from_hex(codec, version, spaced, body))
    expected: Any = codec.decode(version, produce(b"HELLO")[2])
    assert after == make(
        "ProduceRequest", **{name: getattr(after, name) for name in ("acks", "timeout_ms", "topic_data")}
    )
    assert after.topic_data[0].partition_data == expected.topic_data[0].partition_data


def test_records_that_are_withheld_are_sent_as_they_came() -> None:
    canary = Canaries(7)
    (scene,) = record_scenes(canary)
    frame = next(data for is_request, data in scene.segments if is_request and b"orders" in data)
    body, produce = frame[SIZE_FIELD + read_request_header(frame, SIZE_FIELD).size :], message("ProduceRequest")
    text = shown(produce, 7, body, body)
    assert text.hex is None and canary.found_in({"json": text.json.encode()}) == set()
    assert canary.found_in({"json": shown(produce, 7, body).json.encode()}) != set()
    assert from_json(produce, 7, text.json, body) == body
    edited = from_json(produce, 7, text.json.replace('"timeoutMs": 1', '"timeoutMs": 9'), body)
    assert changed_paths(produce, 7, body, edited) == ["timeoutMs"]
    again = shown(produce, 7, edited, body)
    assert canary.found_in({"json": again.json.encode()}) == set()
    assert from_json(produce, 7, again.json, body) == edited


def test_names_of_at_most_so_many_changes() -> None:
    codec = message("MetadataRequest")
    bodies = [
        codec.encode(
            12,
            make(
                "MetadataRequest",
                topics=[part("MetadataRequest", "MetadataRequestTopic", name=f"{n}-{side}") for n in range(99)],
            ),
        )
        for side in "ab"
    ]
    assert len(changed_paths(codec, 12, *bodies)) == 50
