"""Messages edited as a person edits them are what Kafka's own classes read: any API, version, kind of field and record batch."""

import base64
import copy
import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.filters.breakpoints.editing import changed_paths, from_json, shown
from kproxy.protocol import Message, message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.records import Codec, Record, RecordBatch, write_batches
from tests.conftest import Require
from tests.filters.test_parts import TAILS, body_with, looked_at, name_of
from tests.support.corpus import golden_lines
from tests.support.filtering import Served, make, part
from tests.support.kafka import jars

REFEREE = Path(__file__).parents[1] / "support" / "kafka" / "EditedBodies.java"
SEED = 14
KINDS = {"typical", "many", "nulls-deep", "unknown-tags"}
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED = {"uint16": 16, "uint32": 32}
TEXT = 'other ä☃𝄞 "\\ \t\u202e'
UUID = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")

Edit = Callable[[], None]


def other(field: Field, value: Any, rng: random.Random) -> Any:
    """Another value of one that is no array and no struct."""
    if field.type in BITS:
        most = 1 << (BITS[field.type] - 1)
        return next(one for one in rng.sample([-most, most - 1, 0, 1, most // 3], 5) if one != value)
    choices = {
        **{name: [(1 << bits) - 1, 7] for name, bits in UNSIGNED.items()},
        "bool": [True, False],
        "float64": [0.1, -1e300],
        "string": [f"{value or ''}{TEXT}"],
        "uuid": [UUID, UUID[::-1][1:] + "A"],
    }
    if field.type in choices:
        return next(one for one in choices[field.type] if one != value)
    return base64.b64encode(base64.b64decode(value or "") + b"\xff\x00").decode()


def edits_of(
    fields: tuple[Field, ...], owner: dict[str, Any], version: int, rng: random.Random
) -> Iterator[tuple[str, Edit]]:
    """What may be edited in a struct and below, each with the kind of the edit."""
    for field in fields:
        if version not in field.versions or field.type == "records":
            continue
        tagged = version in field.tagged
        mark = " tagged" if tagged else ""
        for kind, new in others(field, owner, version in field.nullable, rng):
            if not (tagged and (new == field.default or (field.is_array and not new))):
                yield f"{kind}{mark}", lambda name=field.json_name, new=new: owner.update({name: new})  # type: ignore[misc]
        below = owner.get(field.json_name)
        if field.is_struct and below is not None:
            for one in below if field.is_array else [below]:
                yield from edits_of(field.fields, one, version, rng)


def others(field: Field, owner: dict[str, Any], nullable: bool, rng: random.Random) -> Iterator[tuple[str, Any]]:
    """Other values of a field, each with the kind of the edit."""
    is_there = field.json_name in owner  # a tagged one that has its default is not
    value = owner.get(field.json_name)
    if nullable and value is not None:
        yield f"{field.type_text} to null", None
    if field.is_array and value:
        yield f"{field.type_text} shrunk", value[1:]
        yield f"{field.type_text} grown", [*value, copy.deepcopy(value[0])]
    elif field.is_array and is_there and not field.is_struct:
        yield f"{field.type_text} filled", [other(field, None, rng)]
    elif not field.is_array and not field.is_struct:
        how = " added" if not is_there else " from null" if value is None else ""
        yield f"{field.type}{how}", other(field, value if is_there else field.default, rng)


def fields_of(codec: Message, version: int, release: str) -> tuple[Field, ...]:
    layouts = [one for one in facts().layouts(codec.name) if version in one.versions]
    return next((one.fields for one in layouts if one.release == release), layouts[0].fields)


def without_batches(value: Any) -> Any:
    """What Kafka's JSON has as well; that unknown tagged fields are kept is asked of the bytes."""
    if isinstance(value, dict):
        gone = {
            "records",
            "unalignedRecords",
            "recordsSizeInBytes",
            "unalignedRecordsSizeInBytes",
            "_unknownTaggedFields",
        }
        return {name: without_batches(below) for name, below in value.items() if name not in gone}
    return [without_batches(one) for one in value] if isinstance(value, list) else value


def read_by_kafka(release: str, bodies: list[tuple[str, int, bytes]], folder: Path) -> list[dict[str, Any]]:
    source = REFEREE.read_text(encoding="utf-8")
    if release != jars.NEWEST:
        source = source.replace("common.record.internal.", "common.record.")
    referee = folder / REFEREE.name
    referee.write_text(source, encoding="utf-8")
    lines = "\n".join(f"{name} {version} {body.hex()}" for name, version, body in bodies)
    command = jars.java(
        release, str(referee), heap="512m", options=["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
    )
    run = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.split("\n") if line]


@pytest.mark.long
@pytest.mark.parametrize("release", jars.RELEASES)
def test_a_field_of_each_kind_edited_in_the_json_is_what_kafkas_class_reads(
    require: Require, release: str, tmp_path: Path
) -> None:
    require("kafka", jars.missing() is None, jars.missing() or "")
    rng = random.Random(SEED)
    kinds: Counter[str] = Counter()
    bodies, wanted = [], []
    for line in golden_lines("messages"):
        codec, version = message(line["message"]), line["version"]
        if line["kafka"] != release or line["kind"] not in KINDS or version not in codec.versions:
            continue
        before = bytes.fromhex(line["hex"])
        text = shown(codec, version, before)
        tree = json.loads(text)
        found = list(edits_of(fields_of(codec, version, release), tree, version, rng))
        if not found:
            continue
        kind, edit = min(rng.sample(found, min(len(found), 12)), key=lambda one: kinds[one[0]])
        kinds[kind] += 1
        edit()
        after = from_json(codec, version, json.dumps(tree), before)
        assert changed_paths(codec, version, before, after), (codec.name, version, kind)
        assert json.loads(shown(codec, version, after)) == tree, (codec.name, version, kind)
        bodies.append((codec.name, version, after))
        wanted.append((kind, without_batches(tree)))
    assert len(bodies) > (3_000 if release == jars.NEWEST else 300)
    read = read_by_kafka(release, bodies, tmp_path)
    for (name, version, _), (kind, tree), kafkas in zip(bodies, wanted, read, strict=True):
        assert "exception" not in kafkas, (name, version, kind, kafkas)
        assert (kafkas["rest"], kafkas["same"]) == (0, True), (name, version, kind)
        assert without_batches(kafkas["json"]) == tree, (name, version, kind)
    if release == jars.NEWEST:
        expected = {
            "int64",
            "int64 tagged",
            "string",
            "string from null",
            "string to null",
            "bool",
            "uuid",
            "bytes",
            "float64",
        }
        assert expected <= set(kinds), kinds


RECORDS = [
    Record(
        offset=0,
        timestamp=1_700_000_000_000,
        key=b"k",
        value="grün ☃".encode(),
        headers=[("h", b"\xff\x00"), ("n", None)],
    ),
    Record(offset=1, timestamp=1_700_000_000_005, key=None, value=b"second"),
    Record(offset=2, timestamp=1_700_000_000_001, key=b"\x00\xfe", value=None),
]
PRODUCE, FETCH = 8, 11  # versions


def bodies_with(data: bytes) -> Iterator[tuple[Message, int, bytes]]:
    partition = part("ProduceRequest", "PartitionProduceData", index=3, records=data)
    topic = part("ProduceRequest", "TopicProduceData", name="orders", partition_data=[partition])
    asked = make("ProduceRequest", acks=-1, timeout_ms=1_000, topic_data=[topic])
    yield message("ProduceRequest"), PRODUCE, message("ProduceRequest").encode(PRODUCE, asked)
    read = part("FetchResponse", "PartitionData", partition_index=3, high_watermark=9, records=data)
    answer = make(
        "FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="orders", partitions=[read])]
    )
    yield message("FetchResponse"), FETCH, message("FetchResponse").encode(FETCH, answer)


def edited_value(records: list[dict[str, Any]]) -> None:
    records[0]["value"] = "another ☃, which is longer " * 20


def edited_key(records: list[dict[str, Any]]) -> None:
    records[1]["key"] = {"base64": base64.b64encode(b"\xff\xfe").decode()}
    records[0]["key"] = None


def edited_tombstone(records: list[dict[str, Any]]) -> None:
    records[1]["value"] = None


def edited_timestamp(records: list[dict[str, Any]]) -> None:
    records[2]["timestamp"] = (1 << 61) + 1  # no double has it


def edited_headers(records: list[dict[str, Any]]) -> None:
    records[1]["headers"] = [{"key": "added", "value": None}, {"key": "ä", "value": {"base64": "/w=="}}]


def edited_count(records: list[dict[str, Any]]) -> None:
    del records[0]
    records += [{**records[-1], "offset": 7}, {**records[-1], "offset": 8}]


EDITS = [edited_value, edited_key, edited_tombstone, edited_timestamp, edited_headers, edited_count]


def as_kafka_reads(batches: list[dict[str, Any]], renumbered: bool) -> list[dict[str, Any]]:
    """The records in edited JSON, as Kafka's classes are to read them."""

    def plain(value: Any) -> str | None:
        if value is None:
            return None
        return (base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()).hex()

    found = []
    for one in (record for batch in batches for record in batch["records"]):
        headers = [[header["key"], plain(header["value"])] for header in one["headers"]]
        found.append({**one, "key": plain(one["key"]), "value": plain(one["value"]), "headers": headers})
    if renumbered:
        for number, one in enumerate(found):
            one["offset"] = number
    return found


@pytest.mark.long
def test_an_edited_record_is_what_kafkas_classes_read_and_its_batch_is_valid(require: Require, tmp_path: Path) -> None:
    """Each codec, in Produce and Fetch; ensureValid has compared each CRC."""
    require("kafka", jars.missing() is None, jars.missing() or "")
    bodies, wanted = [], []
    producer = {"producer_id": (1 << 60) + 1, "producer_epoch": 7, "base_sequence": 9}
    for codec in Codec:
        data = write_batches([RecordBatch(list(RECORDS), codec=codec, **producer)])
        for codec_of_body, version, before in bodies_with(data):
            for edit in EDITS:
                tree = json.loads(shown(codec_of_body, version, before))
                (field,) = [value for name, value in walked(tree) if name == "records" and isinstance(value, list)][:1]
                edit(field[0]["records"])
                bodies.append(
                    (codec_of_body.name, version, from_json(codec_of_body, version, json.dumps(tree), before))
                )
                is_produce = codec_of_body.name == "ProduceRequest"
                wanted.append(((codec_of_body.name, codec.name, edit.__name__), as_kafka_reads(field, is_produce)))
    for (about, records), kafkas in zip(wanted, read_by_kafka(jars.LAST_WITH_ZOOKEEPER, bodies, tmp_path), strict=True):
        assert "exception" not in kafkas, (about, kafkas)
        (batches,) = kafkas["batches"]
        assert [record for batch in batches for record in batch["records"]] == records, about
        (batch,) = batches
        assert (batch["magic"], batch["compression"]) == (2, about[1].lower()), about
        assert (batch["count"], batch["lastOffset"]) == (len(records), records[-1]["offset"]), about
        assert batch["maxTimestamp"] == max(one["timestamp"] for one in records), about
        numbers = [batch[name] for name in ("producerId", "producerEpoch", "baseSequence")]
        assert numbers == list(producer.values()), about


def walked(tree: Any) -> Iterator[tuple[str, Any]]:
    """All members of the objects in a tree, by name."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield name, value
            yield from walked(value)
    elif isinstance(tree, list):
        for one in tree:
            yield from walked(one)


READER = Path(__file__).parent / "ReadEnds.java"
GONE_IN_4 = {(78, 0), (79, 0)}  # early access, KIP-932
PROXYS_NAME = 13  # bytes: proxy.example


@pytest.mark.slow
def test_kafka_reads_our_addresses_or_none_and_every_byte(require: Require) -> None:
    require("kafka", jars.missing() is None, jars.missing() or "")
    lines, expected = [], []
    for api_key, version in (pair for pair in TAILS if pair not in GONE_IN_4):
        rack = "" if api_key == 59 else ", rack='r1'"
        for size in [*range(1, 300), 1_000, 20_000]:
            body, start = body_with(api_key, version, "x" * size)
            told = body[:start] + looked_at(api_key, version, body[start:], Served())
            lines.append(f"{name_of(api_key)} {version} {told.hex()}")
            ours = f"NodeEndpoint(nodeId=7, host='proxy.example', port=20007{rack})" if size >= PROXYS_NAME else ""
            expected.append(f"[{ours}] 0")
    command = ["java", "-cp", f"{jars.jars(jars.NEWEST)}/*", str(READER)]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == expected, run.stderr
