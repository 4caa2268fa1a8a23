"""Bytes to objects. Expected values are Kafka's own (tests/golden) or follow from bytes written by hand."""

import base64
import resource
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from kproxy.protocol import DecodeError, MessageStruct, message
from kproxy.protocol.structs import Struct
from tests.support.damage import golden
from tests.support.wire import compact

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
    for line in golden("messages"):
        if line["kind"] == kind:
            value = message(line["message"]).decode(line["version"], bytes.fromhex(line["hex"]))
            assert isinstance(value, MessageStruct)
            assert_shows(value, line["json"])


def test_records_are_the_bytes_kafka_gave() -> None:
    for line in golden("messages"):
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
    for line in golden("messages"):
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
