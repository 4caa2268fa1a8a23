"""Messages as objects: what is read from bytes, and what is written again."""

import base64
import math
import resource
import subprocess
import sys
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from kproxy.errors import DecodeError, EncodeError
from kproxy.protocol import MessageStruct, message, object_codec
from kproxy.protocol.structs import Struct, struct_types
from tests.support.corpus import golden_lines
from tests.support.messages import make
from tests.support.wire import compact, made_message, short, uvarint

RESPONSE_START = b"\0\0\1" + bytes(4)  # ApiVersionsResponse v3: errorCode, no apiKeys, throttleTimeMs


def assert_shows(value: Any, shown: Any, kind: str = "") -> None:
    """*value* says what Kafka's JSON *shown* says; fields of other versions and defaults left out do not count."""
    if isinstance(value, Struct):
        attributes = {f.json_name: (f.attribute, f.type) for f in value.fields}
        for name, inner in shown.items():
            if not name.endswith("SizeInBytes"):
                attribute, kind = attributes[name]
                assert_shows(getattr(value, attribute), inner, kind)
    elif isinstance(value, list):
        assert len(value) == len(shown)
        for one, inner in zip(value, shown, strict=True):
            assert_shows(one, inner, kind)
    elif isinstance(value, bytes):
        assert value == base64.b64decode(shown)
    else:
        assert value == shown
        assert isinstance(value, type(shown)) or kind == "float64"


@pytest.mark.parametrize("kind", ["typical", "extremes", "nulls", "defaults"])
def test_objects_say_what_kafkas_json_says(kind: str) -> None:
    for line in golden_lines("messages"):
        if line["kind"] == kind:
            value = message(line["message"]).decode(line["version"], bytes.fromhex(line["hex"]))
            assert isinstance(value, MessageStruct)
            assert_shows(value, line["json"])


def test_records_are_the_bytes_kafka_gave() -> None:
    for line in golden_lines("messages"):
        if line["message"] == "ProduceRequest" and "records" in line:
            value = message("ProduceRequest").decode(line["version"], bytes.fromhex(line["hex"]))
            found = [p.records.hex() for t in value.topic_data for p in t.partition_data if p.records is not None]
            assert found == list(line["records"].values())


def test_known_and_unknown_tags_in_any_order() -> None:
    """Kafka's readers take tags in any order, and the last of one that comes twice."""
    epoch = b"\1\x08" + (7).to_bytes(8, "big")
    again = b"\1\x08" + (8).to_bytes(8, "big")
    ready = b"\3\1\1"
    value = message("ApiVersionsResponse").decode(
        3, RESPONSE_START + b"\5" + ready + b"\x63\2hi" + epoch + b"\x09\0" + again
    )
    assert (value.zk_migration_ready, value.finalized_features_epoch) == (True, 8)
    assert value.unknown_tags == ((99, b"hi"), (9, b""))
    assert value.supported_features == []


def test_a_string_that_is_not_utf8_survives_as_surrogates() -> None:
    data = compact(b"a\xff\xed\xa0\x80") + compact(b"1") + b"\0"
    layout = message("ApiVersionsRequest")
    value = layout.decode(3, data)
    assert value.client_software_name == "a\udcff\udced\udca0\udc80"
    assert layout.encode(3, value) == data


@hypothesis.given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1020, max_size=1030))
@hypothesis.settings(max_examples=10)
def test_lists_around_the_size_they_may_start_with(nodes: list[int]) -> None:
    """StopReplica and the like carry int32 arrays; 1,024 elements is where a list is no longer made at its full size."""
    data = len(nodes).to_bytes(4, "big") + b"".join(n.to_bytes(4, "big", signed=True) for n in nodes)
    partition = b"\0\0" + bytes(8) + data + bytes(4)
    found = message("MetadataResponse").decode(
        1, bytes(4) + bytes(4) + b"\0\0\0\1" + b"\0\0\0\1t\0" + b"\0\0\0\1" + partition
    )
    assert found.topics[0].partitions[0].replica_nodes == nodes


def test_a_long_array_that_breaks_off_is_refused() -> None:
    topics = (2000).to_bytes(4, "big") + b"\0\1t" * 1999 + b"\0\2t"
    with pytest.raises(DecodeError) as caught:
        message("MetadataRequest").decode(0, topics)
    assert caught.value.path == "topics[1999].name"


def kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_reading_and_refusing_over_and_over_keeps_nothing() -> None:
    """Neither values nor errors (and the frames of their tracebacks) may pile up."""
    samples: dict[str, tuple[str, int, bytes]] = {}
    for line in golden_lines("messages"):
        if line["kind"] in ("many", "unknown-tags"):
            samples[line["message"]] = line["message"], line["version"], bytes.fromhex(line["hex"])

    def round_() -> None:
        for name, version, data in samples.values():
            layout = message(name)
            layout.encode(version, layout.decode(version, data))
            layout.to_json(version, data, withhold=True)
            try:  # inside a handler, so that the error has a context to hold
                raise KeyError(bytes(4096))
            except KeyError:
                for read in (layout.decode, layout.to_json, layout.check):
                    with pytest.raises(DecodeError):
                        read(version, data[: len(data) // 2] + b"\xff" * 9)

    for _ in range(3):
        round_()
    before = kilobytes()
    for _ in range(40):
        round_()
    assert kilobytes() - before < 4_000


# Objects to bytes


def written(name: str, version: int, **values: Any) -> bytes:
    return message(name).encode(version, make(name, **values))


def refusal(name: str, version: int, **values: Any) -> str:
    with pytest.raises(EncodeError) as caught:
        written(name, version, **values)
    return str(caught.value)


def test_bytes_written_by_hand() -> None:
    assert written("ApiVersionsRequest", 0) == b""
    assert written("ApiVersionsRequest", 3, client_software_name="kproxy") == compact(b"kproxy") + b"\1\0"
    topics = [{"name": name} for name in ("a", "bc")]
    assert written("MetadataRequest", 0, topics=topics) == b"\0\0\0\2" + short("a") + short("bc")
    assert written("MetadataRequest", 1, topics=None) == b"\xff\xff\xff\xff"
    assert written("DescribeTopicPartitionsRequest", 0) == b"\1" + (2000).to_bytes(4, "big") + b"\xff\0"


def test_tagged_fields_are_written_only_when_they_say_something() -> None:
    name = "ApiVersionsResponse"
    assert written(name, 3) == RESPONSE_START + b"\0"
    assert written(name, 3, finalized_features_epoch=-1, zk_migration_ready=False) == RESPONSE_START + b"\0"
    assert written(name, 3, zk_migration_ready=True, finalized_features_epoch=5) == (
        RESPONSE_START + b"\2" + b"\1\x08" + (5).to_bytes(8, "big") + b"\3\1\1"
    )


def test_a_tagged_struct_is_left_out_when_all_in_it_has_its_default() -> None:
    """FetchRequest v15: replicaState is tag 1, with replicaId -1 and replicaEpoch -1."""
    name = "FetchRequest"
    bare = written(name, 15)
    assert written(name, 15, replica_state={"replica_id": -1, "replica_epoch": -1}) == bare
    state = {"replica_id": 4}
    value = (4).to_bytes(4, "big") + b"\xff" * 8 + b"\0"
    assert written(name, 15, replica_state=state) == bare[:-1] + b"\1\1" + bytes([len(value)]) + value
    with_tags = {"unknown_tags": ((9, b""),)}
    assert written(name, 15, replica_state=with_tags) != bare


def test_a_long_tagged_value_has_its_size_before_it() -> None:
    features = [{"name": "x" * 100} for _ in range(300)]
    value = uvarint(301) + (compact(b"x" * 100) + bytes(4) + b"\0") * 300
    assert written("ApiVersionsResponse", 3, supported_features=features) == (
        RESPONSE_START + b"\1\0" + uvarint(len(value)) + value
    )


def test_unknown_tags_stand_among_the_known_ones_in_ascending_order() -> None:
    tags = ((99, b"hi"), (7, b""), (99, b"ho"))
    assert written("ApiVersionsResponse", 3, unknown_tags=tags, zk_migration_ready=True) == (
        RESPONSE_START + b"\4" + b"\3\1\1" + b"\7\0" + b"\x63\2hi" + b"\x63\2ho"
    )


@pytest.mark.parametrize(
    "tags",
    [
        5,
        "ab",
        [1],
        ((1,),),
        ((1, b"", b""),),
        ((-1, b""),),
        ((2**32, b""),),
        (("a", b""),),
        ((9, "text"),),
        ((9, None),),
        ((3, b"\1"),),
        ({9: b""},),
    ],
)
def test_unknown_tags_that_cannot_be_are_refused(tags: Any) -> None:
    assert refusal("ApiVersionsResponse", 3, unknown_tags=tags).startswith("ApiVersionsResponse v3: ")


def test_unknown_tags_in_a_version_without_tags_are_refused() -> None:
    assert refusal("ApiVersionsResponse", 2, unknown_tags=((9, b""),)) == (
        "ApiVersionsResponse v2: has unknown tags, which this version cannot carry"
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"leader_id": 2**31}, "leaderId: is 2147483648, not within -2147483648 and 2147483647"),
        ({"leader_id": 2**80}, "leaderId: is an int of 81 bits, beyond 64 bits"),
        ({"leader_id": None}, "leaderId: is None, not a whole number"),
        ({"leader_id": 1.0}, "leaderId: is 1.0, not a whole number"),
        ({"error_code": -32769}, "errorCode: is -32769, not within -32768 and 32767"),
        ({"replica_nodes": None}, "replicaNodes: is None, and null is not allowed in this version"),
        ({"replica_nodes": 5}, "replicaNodes: is int 5, not a list"),
        ({"replica_nodes": [1, 2, "3"]}, "replicaNodes[2]: is a str, not a whole number"),
        ({"replica_nodes": [None]}, "replicaNodes[0]: is None, and elements of arrays are never null"),
    ],
)
def test_what_is_refused_is_named_by_its_path(wrong: dict[str, Any], says: str) -> None:
    name = "MetadataResponse"
    partitions = [{}, {**wrong}]
    topics = [{"name": "t", "partitions": partitions}]
    assert refusal(name, 1, topics=topics) == f"MetadataResponse v1: topics[0].partitions[1].{says}"


@pytest.mark.parametrize(
    ("name", "version", "values", "says"),
    [
        ("MetadataRequest", 0, {"topics": None}, "topics: is None, and null is not allowed in this version"),
        ("MetadataRequest", 0, {"topics": [1]}, "topics[0]: is int 1, not a MetadataRequest.MetadataRequestTopic"),
        ("MetadataRequest", 4, {"allow_auto_topic_creation": 1}, "allowAutoTopicCreation: is int 1, not a bool"),
        ("ApiVersionsRequest", 3, {"client_software_name": b"x"}, "clientSoftwareName: is a bytes, not a str"),
        (
            "ApiVersionsRequest",
            3,
            {"client_software_name": "\ud800"},
            "clientSoftwareName: holds a lone surrogate, which is no text",
        ),
        (
            "ApiVersionsRequest",
            3,
            {"client_software_name": "x" * 32768},
            "clientSoftwareName: is 32768 bytes long, more than its size can say",
        ),
        ("SaslAuthenticateRequest", 0, {"auth_bytes": "canary"}, "authBytes: is a str, not bytes"),
        (
            "SaslAuthenticateRequest",
            0,
            {"auth_bytes": None},
            "authBytes: is None, and null is not allowed in this version",
        ),
        ("FetchRequest", 17, {"cluster_id": 5}, "clusterId: is int 5, not a str"),
        ("FetchRequest", 17, {"replica_state": 5}, "is int 5, not a FetchRequest.ReplicaState"),
    ],
)
def test_values_of_the_wrong_kind(name: str, version: int, values: dict[str, Any], says: str) -> None:
    assert refusal(name, version, **values) == f"{name} v{version}: {says}"


@pytest.mark.parametrize("wrong", ["A" * 21, "A" * 23, "A" * 21 + "=", "é" * 22, b"A" * 22, None, "A" * 21 + "!"])
def test_a_uuid_is_22_characters(wrong: Any) -> None:
    topics = [{"name": "t", "topic_id": wrong}]
    assert "topics[0].topicId: is " in refusal("MetadataRequest", 12, topics=topics)


@pytest.mark.parametrize("wrong", ["1.5", None, 10**400])
def test_a_float64_that_is_none_is_refused(wrong: Any) -> None:
    name = "DescribeClientQuotasResponse"
    entries = [{"values": [{"key": "k", "value": wrong}]}]
    assert "entries[0].values[0].value: is " in refusal(name, 0, entries=entries)


def test_float64s_are_written_bit_by_bit() -> None:
    name = "DescribeClientQuotasResponse"
    for value, tail in ((-0.0, "8000000000000000"), (math.inf, "7ff0000000000000"), (2, "4000000000000000")):
        entries = [{"values": [{"key": "", "value": value}]}]
        assert written(name, 0, entries=entries).hex().endswith(tail)


def test_what_a_version_cannot_carry_must_be_ignorable_or_say_nothing() -> None:
    """ProduceRequest: transactionalId (from version 3) is not ignorable; Metadata's throttleTimeMs (from 3) is."""
    assert refusal("ProduceRequest", 2, transactional_id="t") == (
        "ProduceRequest v2: transactional_id is set, and this version cannot carry it"
    )
    assert written("ProduceRequest", 2, transactional_id=None) == bytes(10)
    assert written("MetadataResponse", 1, throttle_time_ms=9) == written("MetadataResponse", 1)


def test_a_list_that_changes_while_it_is_written_is_refused() -> None:
    """Otherwise the count written first would not be that of the elements."""
    topics: list[Any] = []

    class Shrinking(struct_types("MetadataRequest")["MetadataRequestTopic"]):  # type: ignore[misc]
        __slots__ = ()

        def __getattr__(self, name: str) -> Any:
            topics.clear()
            return super().__getattr__(name)

    topics += [Shrinking(), Shrinking()]
    del topics[0].name
    asked = make("MetadataRequest")
    asked.topics = topics  # not a copy
    with pytest.raises(EncodeError, match="topics: had 2 elements"):
        message("MetadataRequest").encode(0, asked)


def test_other_things_than_the_message_are_refused() -> None:
    for wrong in (None, 5, make("MetadataRequest"), object()):
        with pytest.raises(EncodeError, match="not a ApiVersionsRequest"):
            message("ApiVersionsRequest").encode(3, wrong)  # type: ignore[arg-type]
    for version in (-1, 5, 99):
        with pytest.raises(EncodeError, match=f"has no version {version}, only 0-4"):
            message("ApiVersionsRequest").encode(version, make("ApiVersionsRequest"))


def test_a_nullable_struct_in_a_tag_has_a_varint_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-893: 0 is null and 1 is present, in place of the int8 of an untagged one."""
    made = made_message(
        monkeypatch,
        "message TaggedRequest type=request api=3 module=m release=4.3.1 versions=0 flexible=0+\n"
        "  Inner Inner 0+ tag=0 tagged=0+ nullable=0+ default=null\n    A int8 0+\n",
    )
    for data, text in ((b"\0", "{}"), (b"\1\0\3\1\5\0", '{"inner":{"a":5}}')):
        assert made.to_json(0, data).decode() == text
        assert made.encode(0, made.decode(0, data)) == data
        assert made.encode(0, made.from_json(0, text)) == data
    assert made.decode(0, b"\1\0\1\0").inner is None


@pytest.mark.slow
def test_a_thread_that_gives_way_reads_and_writes_the_same() -> None:
    """In a process of its own, as one thread of a process can give way."""
    script = """
import threading, time
from kproxy.protocol import message
from kproxy.protocol.object_codec import give_way
codec = message("MetadataResponse")
topic = '{"errorCode": 0, "name": "t", "isInternal": false, "partitions": []}'
value = codec.from_json(1, '{"brokers": [], "controllerId": 1, "topics": [' + ",".join([topic] * 300_000) + "]}")
body = codec.encode(1, value)
turns, done = 0, threading.Event()

def work():
    give_way()
    assert codec.encode(1, codec.decode(1, body)) == body
    done.set()

threading.Thread(target=work).start()
while not done.is_set():
    turns += 1
    time.sleep(0)
print(turns)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (
        int(found.stdout) > 100
    )  # a thread that does not give way lets others run every 5 ms at most, and codecs not at all


def test_releasing_a_message_frees_all_that_it_alone_refers_to() -> None:
    (body, *_) = [
        bytes.fromhex(line["hex"])
        for line in golden_lines("messages")
        if (line["message"], line["version"], line["kind"]) == ("MetadataResponse", 9, "many")
    ]
    value: Any = message("MetadataResponse").decode(9, body)
    topics, kept = value.topics, value.topics[0]
    count, name = len(topics), kept.name
    program = message("MetadataResponse").programs(9)[0]
    object_codec.release(program, value)
    assert (len(topics), kept.name) == (count, name)
    del topics
    object_codec.release(program, value)
    assert value.topics == []
    assert kept.name == name
    assert kept.partitions
    object_codec.release(program, None)  # what is no such message stays as it is
