"""Groups: Kafka's own bytes (tests/golden compares them with Kafka's JSON), newer versions, user data, and anything else."""

from collections.abc import Callable
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError, Malformed
from kproxy.protocol.embedded import group
from kproxy.protocol.embedded.group import (
    is_consumer_assignment,
    open_assignment_info,
    open_connect_assignment,
    open_consumer_subscription,
    open_sticky_user_data,
)
from kproxy.protocol.embedded.payload import Context, Embedded, Opening, to_json
from tests.support.corpus import payloads

READERS: dict[str, Callable[[bytes], Any]] = {
    "consumer-subscription": lambda data: group.open_consumer_subscription(data, "range"),
    "sticky subscription": lambda data: group.open_consumer_subscription(data, "sticky"),
    "stream subscription": lambda data: group.open_consumer_subscription(data, "stream"),
    "consumer-assignment": group.open_consumer_assignment,
    "connect-metadata": lambda data: group.open_connect_metadata(data, "sessioned"),
    "connect-assignment": group.open_connect_assignment,
    "streams-subscription-info": group.open_subscription_info,
    "streams-assignment-info": group.open_assignment_info,
    "sticky user data": group.open_sticky_user_data,
    "cooperative-sticky user data": group.open_cooperative_user_data,
}
STREAMS = ("streams-subscription-info", "streams-assignment-info")
SUBSCRIPTIONS = payloads("consumer-subscription")
ASSIGNMENT = bytes.fromhex(payloads("consumer-assignment")[0]["hex"])
CONNECT = max((bytes.fromhex(line["hex"]) for line in payloads("connect-assignment")), key=len)


@given(
    st.sampled_from(sorted(READERS)),
    st.binary(max_size=100),
    st.integers(-1, 12).map(lambda version: pack(">i", version)) | st.integers(-1, 9).map(lambda v: pack(">h", v)),
)
def test_any_bytes_give_a_value_or_a_decode_error(kind: str, data: bytes, version: bytes) -> None:
    for payload in (data, version + data):
        try:
            to_json(READERS[kind](payload))
        except DecodeError:
            continue


@pytest.mark.parametrize("kind", ["consumer-assignment", "connect-assignment", *STREAMS])
def test_every_cut_is_refused(kind: str) -> None:
    longest: dict[int, bytes] = {}
    for line in payloads(kind):
        data = bytes.fromhex(line["hex"])
        longest[line["version"]] = max(longest.get(line["version"], b""), data, key=len)
    assert kind not in STREAMS or longest.keys() == set(range(1, 12))
    for version, data in longest.items():
        if version < 9 or kind in STREAMS:  # consumer assignments of newer versions are read as older ones
            for cut in range(len(data)):
                with pytest.raises(DecodeError):
                    READERS[kind](data[:cut])


# Whose protocol the bytes are in


def kinds(data: bytes, protocol_type: str | None) -> list[str]:
    opening = Opening("request", Context())
    group.add_assignment(opening, "a", data, protocol_type, None)
    return [one.kind + (" broken" if one.error else "") for one in opening.found]


def test_the_protocol_type_decides_and_an_unknown_one_stays_bytes() -> None:
    assert kinds(ASSIGNMENT, "consumer") == ["consumer-assignment"]
    assert kinds(CONNECT, "connect") == ["connect-assignment"]
    assert kinds(CONNECT, "consumer") == ["consumer-assignment broken"]
    assert kinds(ASSIGNMENT, "sr") == []  # a schema registry's
    assert kinds(b"", "consumer") == []


def test_without_a_type_only_what_is_an_assignment_to_the_last_byte_is_taken_for_one() -> None:
    assert kinds(ASSIGNMENT, None) == ["consumer-assignment"]
    assert kinds(ASSIGNMENT + b"\0", None) == []
    assert kinds(CONNECT, None) == []
    assert not any(is_consumer_assignment(ASSIGNMENT[:cut]) for cut in range(len(ASSIGNMENT)))


def test_metadata_is_told_apart_by_type() -> None:
    opening = Opening("request", Context())
    group.add_metadata(opening, "a", bytes.fromhex(SUBSCRIPTIONS[0]["hex"]), "consumer", "range")
    group.add_metadata(opening, "b", bytes.fromhex(payloads("connect-metadata")[0]["hex"]), "connect", "default")
    group.add_metadata(opening, "c", b"", "consumer", "range")
    group.add_metadata(opening, "d", b"{}", "sr", "v0")
    assert [(one.path, one.kind, one.error) for one in opening.found] == [
        ("a", "consumer-subscription", None),
        ("b", "connect-metadata", None),
    ]


# The consumer protocol


def subscription(data: bytes, assignor: str) -> dict[str, Any]:
    value = Embedded("", None, "", open_consumer_subscription(data, assignor)).value()
    assert isinstance(value, dict)
    return value


def test_subscriptions_and_their_user_data_are_what_kafka_says() -> None:
    for line in SUBSCRIPTIONS:
        opened = subscription(bytes.fromhex(line["hex"]), line["assignor"])
        assert (opened["version"], opened["value"]) == (line["version"], line["json"])
        assert opened["userData"] == line["userData"]
        assert "userDataError" not in opened
    sticky = [line["userData"].keys() for line in SUBSCRIPTIONS if line["assignor"] == "sticky" and line["userData"]]
    assert {"previousAssignment"} in sticky and {"previousAssignment", "generation"} in sticky  # both schemas


def test_a_newer_version_is_read_as_the_newest_known_one_and_says_so() -> None:
    newer = [line for line in SUBSCRIPTIONS if line["version"] == 9]
    assert newer
    for line in newer:
        opened = subscription(bytes.fromhex(line["hex"]), "range")
        assert (opened["version"], opened["readAs"], opened["extraBytes"]) == (9, 3, line["extraBytes"])


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky", "stream", "my-assignor"])
def test_broken_or_unknown_user_data_spoils_nothing_around_it(assignor: str) -> None:
    # version 0, no topics, three bytes of user data: too few for any known assignor
    opened = subscription(b"\0\0" + pack(">ii", 0, 3) + b"\1\2\3", assignor)
    assert opened["value"] == {"topics": [], "userData": "AQID"}
    assert opened["userData"] is None
    assert ("bytes" in opened.get("userDataError", "")) == (assignor != "my-assignor")


def test_a_subscription_of_kafka_go_lacks_what_its_version_has() -> None:
    """From a JoinGroup of kafka-go 0.4: version 1, topics, null user data, and no owned partitions."""
    data = bytes.fromhex("0001000000010003" + b"kgo".hex() + "ffffffff")
    opened = subscription(data, "range")
    assert (opened["version"], opened["readAs"]) == (1, 0)
    assert opened["value"] == {"topics": ["kgo"], "userData": None}
    with pytest.raises(DecodeError, match="v1: ownedPartitions"):
        open_consumer_subscription(data + b"\0", "range")
    with pytest.raises(DecodeError, match="version -1 is below 0"):
        open_consumer_subscription(b"\xff\xff\0\0\0\0", "range")


def test_a_hostile_count_in_user_data_is_refused() -> None:
    """Hostile input 2."""
    with pytest.raises(DecodeError, match="claims 1000000000 elements"):
        open_sticky_user_data(pack(">i", 1_000_000_000))


# Kafka Connect


def test_a_long_name_with_thousands_of_tasks_is_refused() -> None:
    name = b"\x7f\xff" + b"c" * 0x7FFF
    head = pack(">hh", 0, 0) + b"\0\0\0\0" + pack(">q", 0)
    with pytest.raises(Malformed, match="many times"):
        open_connect_assignment(head + pack(">i", 1) + name + pack(">i", 8000) + bytes(32_000))


def test_a_null_list_is_empty() -> None:
    """ASSIGNMENT_V1 has nullable arrays (IncrementalCooperativeConnectProtocol)."""
    data = pack(">hh", 1, 0) + b"\0\0\0\0" + pack(">qiii", 0, -1, -1, 9)
    value = open_connect_assignment(data)["value"]
    assert value["assigned"] == value["revoked"] == {"connectors": [], "tasks": []}
    assert value["scheduledDelay"] == 9


# Kafka Streams


@pytest.mark.parametrize("kind", STREAMS)
def test_bytes_behind_and_versions_that_streams_could_not_read_are_refused(kind: str) -> None:
    for line in payloads(kind):
        with pytest.raises(DecodeError, match="left over"):
            READERS[kind](bytes.fromhex(line["hex"]) + b"\0")
    for version in (0, 12, -1):
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
