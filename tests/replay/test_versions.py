"""Which version is sent, and what that loses; records of old formats read back by aiokafka's reader."""

import contextlib
from typing import Any

import pytest
from aiokafka.errors import UnsupportedCodecError
from aiokafka.record.memory_records import MemoryRecords

from kproxy.protocol import ApiKey, message
from kproxy.replay.versions import Unsendable, encode_at, in_batches, nearest
from tests.support.replayed import recorded

OLD = "OldTopicIdAAAAAAAAAAAA"


@pytest.mark.parametrize(
    ("recorded_version", "spoken", "sent"), [(5, (0, 9), 5), (5, (7, 9), 7), (5, (0, 3), 3), (5, None, 5)]
)
def test_nearest(recorded_version: int, spoken: Any, sent: int) -> None:
    assert nearest(message("MetadataRequest"), recorded_version, spoken) == sent


def test_versions_that_kproxy_does_not_know() -> None:
    with pytest.raises(Unsendable, match="versions 90 to 95, of which kproxy knows none"):
        nearest(message("MetadataRequest"), 5, (90, 95))


def fetch(version: int, topic: str) -> Any:
    json = f'"topics": [{{{topic}, "partitions": [{{"partition": 1, "currentLeaderEpoch": -1, "fetchOffset": 4,'
    json += '"lastFetchedEpoch": -1, "logStartOffset": -1, "partitionMaxBytes": 9}]}], "forgottenTopicsData": []'
    start = '"maxWaitMs": 1, "minBytes": 1, "maxBytes": 9, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1'
    tail = '"rackId": ""' if version > 14 else '"rackId": "", "replicaId": -1'
    return message("FetchRequest").from_json(version, f"{{{start}, {json}, {tail}}}")


def test_a_topic_id_becomes_a_name_for_a_broker_without_ids() -> None:
    request = fetch(15, f'"topicId": "{OLD}"')
    encoded = encode_at(message("FetchRequest"), 12, request, {OLD: "orders"}, {})
    assert encoded.body == message("FetchRequest").encode(12, fetch(12, '"topic": "orders"'))
    assert encoded.lost == ()
    with pytest.raises(Unsendable, match=f"the name of topic id {OLD} is not known"):
        encode_at(message("FetchRequest"), 12, fetch(15, f'"topicId": "{OLD}"'), {}, {})


def test_a_name_becomes_an_id_for_a_broker_that_takes_only_ids() -> None:
    encoded = encode_at(message("FetchRequest"), 13, fetch(12, '"topic": "orders"'), {}, {"orders": OLD})
    assert message("FetchRequest").decode(13, encoded.body).topics[0].topic_id == OLD
    with pytest.raises(Unsendable, match="the cluster has no topic of that name"):
        encode_at(message("FetchRequest"), 13, fetch(12, '"topic": "orders"'), {}, {})


def test_a_field_that_would_be_lost() -> None:
    json = '{"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": "static"}'
    request = message("HeartbeatRequest").from_json(4, json)
    with pytest.raises(Unsendable, match="group_instance_id is set, and this version cannot carry it"):
        encode_at(message("HeartbeatRequest"), 1, request, {}, {})


def test_a_field_that_may_be_lost_is_named() -> None:
    json = '{"groupId": "g", "members": [{"memberId": "m", "groupInstanceId": null, "reason": "bye"}]}'
    request = message("LeaveGroupRequest").from_json(5, json)
    assert encode_at(message("LeaveGroupRequest"), 4, request, {}, {}).lost == ("reason",)


@pytest.mark.parametrize("number", [8, 9])  # formats 0 and 1, in all their codecs
def test_old_records_in_new_batches(number: int) -> None:
    fields = [
        partition.records
        for one in recorded(number).requests
        if one.api_key == ApiKey.PRODUCE
        for topic in one.body().topic_data
        for partition in topic.partition_data
    ]
    count = 0
    for records in fields:
        converted = in_batches(records)
        assert converted[16] == 2 and records[16] < 2  # the magic byte
        read = contents(converted)
        with contextlib.suppress(UnsupportedCodecError):  # aiokafka reads no LZ4 of format 0
            assert read == contents(records)
        assert in_batches(converted) is converted
        count += len(read)
    assert count == 4 * 80  # captures/README.md


def contents(records: bytes) -> list[tuple[Any, Any]]:
    """As aiokafka reads them."""
    read, found = MemoryRecords(records), []
    while read.has_next():
        batch = read.next_batch()
        assert batch.validate_crc()
        found += [(record.key, record.value) for record in batch]
    return found
