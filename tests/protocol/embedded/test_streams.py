"""Kafka Streams' user data: Kafka's own bytes at all eleven versions, and what is no user data."""

from collections.abc import Callable
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError, Malformed
from kproxy.protocol.embedded.payload import to_json
from kproxy.protocol.embedded.streams import open_assignment_info, open_subscription_info
from tests.support.corpus import payloads

READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "streams-subscription-info": open_subscription_info,
    "streams-assignment-info": open_assignment_info,
}


@pytest.mark.parametrize("kind", READERS)
def test_every_version_is_what_kafka_says(kind: str) -> None:
    lines = payloads(kind)
    assert {line["version"] for line in lines} == set(range(1, 12))
    for line in lines:
        assert READERS[kind](bytes.fromhex(line["hex"])) == line["json"]


@pytest.mark.parametrize("kind", READERS)
def test_every_cut_and_every_extra_byte_is_refused(kind: str) -> None:
    for version in range(1, 12):
        data = max((bytes.fromhex(line["hex"]) for line in payloads(kind) if line["version"] == version), key=len)
        for cut in range(len(data)):
            with pytest.raises(DecodeError):
                READERS[kind](data[:cut])
        with pytest.raises(DecodeError, match="left over"):
            READERS[kind](data + b"\0")


@pytest.mark.parametrize("version", [0, 12, -1])
@pytest.mark.parametrize("kind", READERS)
def test_a_version_that_streams_could_not_read_is_refused(kind: str, version: int) -> None:
    with pytest.raises(Malformed, match=f"version {version} is none of 1 to 11"):
        READERS[kind](pack(">i", version) + bytes(100))


def test_a_task_of_a_named_topology_says_so() -> None:
    # ConsumerProtocolUtils.writeTaskIdTo: INT32 count of chars, then writeChars (UTF-16)
    task = pack(">iii", 1, 2, 2) + "tö".encode("utf-16-be")
    data = pack(">iii", 10, 11, 1) + task + pack(">iiii", 0, 0, 0, 0) + pack(">iq", 0, 7)
    assert open_assignment_info(data)["activeTasks"] == [{"subtopology": 1, "partition": 2, "namedTopology": "tö"}]


def test_the_error_code_of_version_4_is_told_when_there_is_one() -> None:
    head = pack(">iiiii", 4, 11, 0, 0, 0)
    assert "errorCode" not in open_assignment_info(head + pack(">i", 0))
    assert open_assignment_info(head + pack(">i", 3))["errorCode"] == 3


def test_a_topic_number_that_the_table_lacks_is_refused() -> None:
    host = b"\0\1h" + pack(">iiii", 9092, 1, 5, 0)
    data = pack(">iiiii", 5, 11, 0, 0, 0) + pack(">i", 1) + host + pack(">i", 0)
    with pytest.raises(Malformed, match="topic number 5 is not in the table of 0 topics"):
        open_assignment_info(data)


def test_a_long_name_that_is_meant_thousands_of_times_is_refused() -> None:
    """64 KiB of name and 12,000 hosts that have it would be 800 MB of JSON (reliability: no amplification)."""
    table = pack(">ii", 1, 0) + b"\xff\xff" + b"n" * 0xFFFF
    hosts = (b"\0\0" + pack(">iiii", 1, 1, 0, 0)) * 12_000
    data = pack(">iiii", 5, 11, 0, 0) + table + pack(">i", 12_000) + hosts + pack(">i", 0)
    with pytest.raises(Malformed, match="many times"):
        open_assignment_info(data)


@given(data=st.binary(max_size=100), version=st.integers(0, 12), kind=st.sampled_from(sorted(READERS)))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, version: int, kind: str) -> None:
    try:
        to_json(READERS[kind](pack(">i", version) + data))
    except DecodeError:
        return
