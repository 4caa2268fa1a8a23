"""Message: versions above the facts, versions changed in place, and what must hold for any message at any version."""

import json
import random
from typing import Any

import hypothesis
import pytest

from kproxy.errors import DecodeError, EncodeError, TrailingBytes, UnknownVersion
from kproxy.protocol import message, request_message, response_message
from tests.fuzz.codec_target import check_codec
from tests.support.corpus import damaged, golden_lines
from tests.support.strategies import messages
from tests.support.wire import compact

MORE = hypothesis.settings(max_examples=hypothesis.settings.default.max_examples * 5)
HELLO = compact(b"kproxy") + compact(b"1") + b"\0"


def test_messages_are_found_by_name_and_by_api_key() -> None:
    assert message("MetadataRequest") is message("MetadataRequest") is request_message(3)
    assert response_message(18) is message("ApiVersionsResponse")
    assert request_message(9999) is None and response_message(-1) is None
    assert (message("MetadataRequest").api_key, message("OffsetCommitValue").api_key) == (3, None)
    assert repr(message("ApiVersionsRequest")) == "<Message ApiVersionsRequest v0-4>"
    with pytest.raises(KeyError):
        message("NoSuchRequest")


def test_a_version_above_the_facts_is_read_as_the_newest_if_that_fits() -> None:
    layout = message("ApiVersionsRequest")
    newest = layout.versions.highest
    for version in (newest + 1, 99, 32767):
        fit = layout.check(version, HELLO)
        assert (fit.version, fit.release, fit.assumed) == (newest, None, True)
        assert layout.to_json(version, HELLO) == layout.to_json(newest, HELLO)
        value = layout.decode(version, HELLO)
        assert layout.encode(fit.version, value) == HELLO
        with pytest.raises(DecodeError):
            layout.decode(version, HELLO + b"a field that came later")
        with pytest.raises(EncodeError):
            layout.encode(version, value)
    assert not layout.check(newest, HELLO).assumed


@pytest.mark.parametrize("version", [-1, -(2**15), 2**15, 2**40])
def test_a_version_that_no_header_can_hold_is_unknown(version: int) -> None:
    for read in (message("ApiVersionsRequest").decode, message("ApiVersionsRequest").check):
        with pytest.raises(UnknownVersion):
            read(version, HELLO)


def test_who_sends_versions_does_not_fill_the_memory() -> None:
    layout = message("ApiVersionsRequest")
    for version in range(32768):
        layout.programs(version)
    assert len(layout._programs) == 5


def conflicts() -> list[dict[str, Any]]:
    return [line for line in golden_lines("conflicts") if "records" not in line]


def test_versions_changed_in_place_keep_the_layout_they_came_in() -> None:
    """Kafka's bytes of earlier releases (tests/golden/conflicts) come out as they went in, in every way."""
    older = 0
    for line in conflicts():
        layout, version, data = message(line["message"]), line["version"], bytes.fromhex(line["hex"])
        fit = layout.check(version, data)
        value = layout.decode(version, data)
        assert (fit.version, fit.release, fit.assumed) == (version, value.layout, False)
        assert layout.walk(version, data) == len(data)
        assert layout.encode(version, value) == data
        if "unknownTags" not in line:
            read = layout.from_json(version, layout.to_json(version, data))
            assert layout.encode(version, read) == data
        older += value.layout is not None
    assert older > 20


def test_the_newest_layout_is_tried_first_and_its_error_is_given() -> None:
    layout = message("ConsumerGroupHeartbeatRequest")
    assert [program.release for program in layout.programs(0)] == ["4.3.1", "3.6.2"]
    with pytest.raises(DecodeError) as caught:
        layout.decode(0, b"")
    assert str(caught.value) == str(layout.programs(0)[0].check(b""))
    with pytest.raises(DecodeError) as again:
        layout.check(0, b"")
    assert str(again.value) == str(caught.value)


# Metadata v13 of librdkafka 2.16 for topics = null, as a 4.3 broker accepted and logged it: null topics, three flags that
# are false, no tags; the rest is what it wrote for an array count of four bytes.
METADATA_V13 = bytes.fromhex("00 00 00 0001 00 00")


def test_bytes_after_a_message_are_refused_unless_they_are_allowed() -> None:
    layout = message("MetadataRequest")
    for read in (layout.check, layout.decode, layout.to_json):
        with pytest.raises(TrailingBytes) as caught:
            read(13, METADATA_V13)
        assert caught.value.left == 3
    fit = layout.check(13, METADATA_V13, trailing=True)
    assert (fit.version, fit.release, fit.assumed, fit.trailing) == (13, None, False, 3)
    request: Any = layout.decode(13, METADATA_V13, trailing=fit.trailing)
    assert request.topics is None
    assert layout.encode(13, request) == METADATA_V13[:4]
    assert json.loads(layout.to_json(13, METADATA_V13, trailing=3)) == {
        "topics": None,
        "allowAutoTopicCreation": False,
        "includeTopicAuthorizedOperations": False,
    }
    assert layout.check(13, METADATA_V13[:4], trailing=True).trailing == 0


@pytest.mark.parametrize("wrong", [2, 4, 8, -1])
def test_no_other_number_of_bytes_after_a_message_is_believed(wrong: int) -> None:
    layout = message("MetadataRequest")
    for read in (layout.decode, layout.to_json):
        with pytest.raises((DecodeError, IndexError)):
            read(13, METADATA_V13, trailing=wrong)


def test_bytes_after_a_version_above_the_facts_are_a_new_field() -> None:
    layout = message("ApiVersionsRequest")
    with pytest.raises(TrailingBytes):
        layout.check(layout.versions.highest + 1, HELLO + b"new", trailing=True)


def test_a_layout_that_fits_exactly_wins_over_one_that_leaves_bytes() -> None:
    """Of the versions changed in place, read with bytes behind them and without (Kafka's own bytes, tests/golden/conflicts)."""
    for line in conflicts():
        layout, version, data = message(line["message"]), line["version"], bytes.fromhex(line["hex"])
        exact = layout.check(version, data)
        assert layout.check(version, data, trailing=True) == exact
        for more in (b"\x00", b"\x01\x00\x00", b"\xff" * 40):
            try:
                assert layout.check(version, data + more).trailing == 0  # the other layout fits both
                continue
            except DecodeError:
                pass
            fit = layout.check(version, data + more, trailing=True)
            assert fit.trailing <= len(more)
            read = layout.decode(version, data + more, trailing=fit.trailing)
            assert read.layout == fit.release
            if fit.trailing == len(more):
                assert layout.encode(version, read) == data


@MORE
@hypothesis.given(messages(), hypothesis.strategies.binary(min_size=1, max_size=70))
def test_whatever_follows_a_message_it_is_read_as_without_it(sample: tuple[str, int, Any], more: bytes) -> None:
    name, version, value = sample
    layout = message(name)
    data = layout.encode(version, value)
    if len(layout.programs(version)) == 1:
        assert layout.check(version, data + more, trailing=True).trailing == len(more)
        assert layout.decode(version, b"head" + data + more, 4, trailing=len(more)) == value
        assert layout.to_json(version, data + more, trailing=len(more)) == layout.to_json(version, data)


@MORE
@hypothesis.given(messages())
def test_what_is_written_is_read_as_the_same(sample: tuple[str, int, Any]) -> None:
    name, version, value = sample
    layout = message(name)
    data = layout.encode(version, value)
    assert layout.decode(version, data) == value
    assert layout.walk(version, data + b"next") == len(data) or len(layout.programs(version)) > 1
    assert layout.walk(version, data) == len(data)
    assert layout.encode(version, layout.decode(version, data)) == data


@MORE
@hypothesis.given(messages(records=False))
def test_json_is_read_back_as_the_same(sample: tuple[str, int, Any]) -> None:
    name, version, value = sample
    layout = message(name)
    data = layout.encode(version, value)
    text = layout.to_json(version, data).replace(b'"recordsSizeInBytes":0', b'"records":""')
    text = text.replace(b'"unalignedRecordsSizeInBytes":0', b'"unalignedRecords":""')
    assert layout.encode(version, layout.from_json(version, text)) == data


@MORE
@hypothesis.given(messages(), hypothesis.strategies.integers(0, 2**32))
def test_damage_gives_a_value_or_a_decode_error(sample: tuple[str, int, Any], seed: int) -> None:
    name, version, value = sample
    check_codec(name, version, damaged(random.Random(seed), message(name).encode(version, value)))


# SyncGroup v3 response of librdkafka's mock cluster while the group rebalances: its assignment is null, which it may not be.
NULL_ASSIGNMENT = bytes.fromhex("00000000 001b ffffffff")


def test_a_null_that_no_writer_of_kafkas_sends_is_refused_unless_it_is_allowed() -> None:
    layout = message("SyncGroupResponse")
    for read in (layout.check, layout.decode, layout.to_json):
        with pytest.raises(DecodeError, match="assignment: is null"):
            read(3, NULL_ASSIGNMENT)
    with pytest.raises(DecodeError, match="assignment: is null"):
        layout.check(3, NULL_ASSIGNMENT, trailing=True)
    fit = layout.check(3, NULL_ASSIGNMENT, trailing=True, nulls=True)
    assert (fit.version, fit.release, fit.trailing, fit.nulls) == (3, None, 0, True)
    value: Any = layout.decode(3, NULL_ASSIGNMENT, nulls=True)
    assert (value.error_code, value.assignment, value.layout) == (27, b"", None)  # an object is as its type says
    assert layout.to_json(3, NULL_ASSIGNMENT, withhold=True, nulls=True) == (
        b'{"throttleTimeMs":0,"errorCode":27,"assignment":null}'
    )
    found = layout.beginning(3, NULL_ASSIGNMENT)
    assert (found.missing, found.error) == (None, None) and b'"assignment":null' in found.json


def test_where_null_is_allowed_what_fits_without_it_is_read_as_ever() -> None:
    layout = message("SyncGroupResponse")
    data = layout.encode(3, layout.from_json(3, b'{"throttleTimeMs":0,"errorCode":0,"assignment":"AAA="}'))
    assert layout.check(3, data, nulls=True) == layout.check(3, data)
    assert layout.decode(3, data, nulls=True) == layout.decode(3, data)
    with pytest.raises(DecodeError):
        layout.check(3, NULL_ASSIGNMENT + b"\0", trailing=True, nulls=True)
    arrays = message("MetadataResponse")
    with pytest.raises(DecodeError, match="brokers: is null"):
        arrays.check(0, b"\xff\xff\xff\xff" + bytes(4), trailing=True, nulls=True)


# A Produce v9 request: acks -1, timeout 30000, topic "t" with partition 0 (5 bytes of records) and partition 1 (7 bytes).
PRODUCE_V9 = (
    b"\0" + b"\xff\xff" + (30000).to_bytes(4, "big")
    + b"\2" + compact(b"t") + b"\3"
    + bytes(4) + compact(b"12345") + b"\0"
    + b"\0\0\0\1" + compact(b"1234567") + b"\0"
    + b"\0" + b"\0"
)  # fmt: skip


@pytest.mark.parametrize(
    ("size", "shown", "missing", "counts"),
    [
        (0, {}, "transactionalId", {}),
        (2, {"transactionalId": None}, "acks", {}),
        (8, {"transactionalId": None, "acks": -1, "timeoutMs": 30000}, "topicData[0]", {"topicData": 1}),
        (
            14,
            {"transactionalId": None, "acks": -1, "timeoutMs": 30000, "topicData": [{"name": "t"}]},
            "topicData[0].partitionData[0].index",
            {"topicData": 1, "topicData[0].partitionData": 2},
        ),
        (
            31,
            {
                "transactionalId": None,
                "acks": -1,
                "timeoutMs": 30000,
                "topicData": [
                    {
                        "name": "t",
                        "partitionData": [{"index": 0, "recordsSizeInBytes": 5}, {"index": 1, "recordsSizeInBytes": 7}],
                    }
                ],
            },
            "topicData[0].partitionData[1].records",
            {"topicData": 1, "topicData[0].partitionData": 2},
        ),
    ],
)
def test_the_beginning_of_a_message_has_the_fields_that_are_whole(
    size: int, shown: dict[str, Any], missing: str, counts: dict[str, int]
) -> None:
    found = message("ProduceRequest").beginning(9, PRODUCE_V9[:size])
    assert json.loads(found.json) == shown
    assert (found.missing, found.counts, found.error) == (missing, counts, None)


def test_a_beginning_that_lacks_nothing_is_the_message() -> None:
    found = message("ProduceRequest").beginning(9, PRODUCE_V9)
    assert (found.json, found.missing) == (message("ProduceRequest").to_json(9, PRODUCE_V9), None)


def test_records_that_are_cut_have_their_true_size() -> None:
    found = message("ProduceRequest").beginning(9, PRODUCE_V9[:18])
    assert (found.missing, found.needed, found.here) == ("topicData[0].partitionData[0].records", 5, 2)


def is_beginning(part: Any, whole: Any, withheld: bool = False) -> bool:
    """Whether *part* is *whole* with something left out at its end."""
    if isinstance(part, dict) and isinstance(whole, dict):
        names = list(part)
        order = [name for name in whole if name in part]
        inner = all(is_beginning(part[name], whole.get(name), withheld) for name in names)
        return names == order and inner and all(part[name] == whole[name] or withheld for name in names[:-1])
    if isinstance(part, list) and isinstance(whole, list):
        inner = all(is_beginning(one, other, withheld) for one, other in zip(part, whole, strict=False))
        return len(part) <= len(whole) and inner and (part[:-1] == whole[: max(len(part) - 1, 0)] or withheld)
    return bool(part == whole) or (withheld and part == "(withheld)")


def test_wherever_a_message_is_cut_what_is_shown_of_it_is_true() -> None:
    """Kafka's own messages (tests/golden), cut at a few places each: every value shown is the one that the whole has there."""
    chance = random.Random(5)
    cut = 0
    for line in golden_lines("messages"):
        layout, version, data = message(line["message"]), line["version"], bytes.fromhex(line["hex"])
        if not data or version not in layout.versions or len(layout.programs(version)) > 1:
            continue
        for withhold in (False, True):
            whole = json.loads(layout.to_json(version, data, withhold=withhold))
            size = chance.randrange(len(data))
            found = layout.beginning(version, b"head" + data[:size], 4, withhold=withhold)
            assert found.error is None and found.missing, (line["message"], version, size)
            assert is_beginning(json.loads(found.json), whole, withhold), (line["message"], version, size)
            cut += 1
    assert cut > 8000


def test_secrets_are_withheld_from_beginnings() -> None:
    layout = message("SaslAuthenticateRequest")
    data = layout.encode(2, layout.from_json(2, b'{"authBytes":"c2VjcmV0"}'))
    assert json.loads(layout.beginning(2, data, withhold=True).json) == {"authBytes": "(withheld)"}
    for size in range(len(data) - 1):
        found = layout.beginning(2, data[:size], withhold=True)
        assert (found.json, found.missing) == (b"{}", "authBytes")
    configs = message("IncrementalAlterConfigsRequest")
    text = (
        b'{"resources":[{"resourceType":2,"resourceName":"t","configs":'
        b'[{"name":"ssl.key.password","configOperation":0,"value":"hunter2"}]}],"validateOnly":false}'
    )
    data = configs.encode(1, configs.from_json(1, text))
    for size in range(len(data)):
        assert b"hunter2" not in configs.beginning(1, data[:size], withhold=True).json


def test_a_fault_before_the_cut_is_told() -> None:
    found = message("MetadataResponse").beginning(9, bytes(4) + b"\0" + bytes(30))
    assert json.loads(found.json) == {"throttleTimeMs": 0}
    assert "brokers: is null" in str(found.error)


@pytest.mark.parametrize("version", [-1, 99, 32767])
def test_nothing_is_read_of_the_beginning_of_an_unknown_version(version: int) -> None:
    found = message("ApiVersionsRequest").beginning(version, HELLO)
    assert (found.json, found.missing, found.error) == (b"{}", "", None)


@MORE
@hypothesis.given(messages(), hypothesis.strategies.integers(0, 2**32))
def test_any_bytes_have_a_beginning(sample: tuple[str, int, Any], seed: int) -> None:
    name, version, value = sample
    chance = random.Random(seed)
    data = damaged(chance, message(name).encode(version, value))
    found = message(name).beginning(version, data, chance.randrange(len(data) + 4), withhold=chance.random() < 0.5)
    assert isinstance(json.loads(found.json.decode("utf-8", "strict")), dict)
    assert len(found.json) <= 12 * len(data) + 4096
