"""Requests for the new cluster: at which version, with which ids, and what that loses; old records read back by aiokafka."""

import contextlib
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import UnsupportedCodecError
from aiokafka.record.memory_records import MemoryRecords

from kproxy.protocol import ApiKey, message
from kproxy.protocol.addresses import Address
from kproxy.replay.cluster import Cluster
from kproxy.replay.learned import Learned, Rewriter, encoded_again
from kproxy.replay.plan import Plan
from kproxy.replay.recording import Recording
from kproxy.replay.versions import Unsendable, encode_at, in_batches, nearest, several
from tests.support.messages import make
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


FORMS = [  # API, a version and its JSON, another version and its JSON
    ("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g"]}, 3, {"key": "g", "keyType": 0}),
    (
        "OffsetFetch",
        8,
        {"groups": [{"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0, 1]}]}], "requireStable": True},
        7,
        {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0, 1]}], "requireStable": True},
    ),
    (
        "OffsetFetch",
        8,
        {"groups": [{"groupId": "g", "topics": None}], "requireStable": False},
        7,
        {"groupId": "g", "topics": None, "requireStable": False},
    ),
    (
        "LeaveGroup",
        3,
        {"groupId": "g", "members": [{"memberId": "m", "groupInstanceId": None}]},
        2,
        {"groupId": "g", "memberId": "m"},
    ),
    (
        "DeleteTopics",
        6,
        {"topics": [{"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}], "timeoutMs": 5},
        5,
        {"topicNames": ["t"], "timeoutMs": 5},
    ),
]


@pytest.mark.parametrize(("api", "new", "new_json", "old", "old_json"), FORMS)
def test_as_an_older_broker_takes_it(api: str, new: int, new_json: Any, old: int, old_json: Any) -> None:
    of = message(f"{api}Request")
    encoded = encode_at(of, old, of.from_json(new, json.dumps(new_json)), {}, {})
    assert encoded.body == of.encode(old, of.from_json(old, json.dumps(old_json)))
    assert encoded.lost == ()


def test_what_asks_for_several_things_at_once() -> None:
    of = message("FindCoordinatorRequest")
    request = of.from_json(4, '{"keyType": 0, "coordinatorKeys": ["g", "h"]}')
    with pytest.raises(Unsendable, match="version 3: it names 2 coordinators, and this version can only name one"):
        encode_at(of, 3, request, {}, {})


def test_answers() -> None:
    found: Any = message("FindCoordinatorResponse").from_json(
        0, '{"errorCode": 15, "nodeId": -1, "host": "", "port": -1}'
    )
    request = make("FindCoordinatorRequest", key="g")
    several(ApiKey.FIND_COORDINATOR, request, found, 0)
    [one] = found.coordinators
    assert (one.key, one.error_code, one.node_id) == ("g", 15, -1)
    text = '{"partitionIndex": 3, "committedOffset": 7, "committedLeaderEpoch": -1, "metadata": "", "errorCode": 0}'
    offsets: Any = message("OffsetFetchResponse").from_json(
        7, f'{{"throttleTimeMs": 0, "topics": [{{"name": "t", "partitions": [{text}]}}], "errorCode": 0}}'
    )
    asked = make("OffsetFetchRequest", group_id="g")
    several(ApiKey.OFFSET_FETCH, asked, offsets, 7)
    [group] = offsets.groups
    [topic] = group.topics
    assert (group.group_id, topic.name) == ("g", "t") and topic.partitions[0].committed_offset == 7


def rewriter(recording: Recording, *, nodes: int = 1) -> Rewriter:
    """Before a cluster of so many nodes that speaks the recorded versions."""
    addresses = {number: Address("broker", 9092 + number) for number in range(nodes)}
    cluster = cast(Cluster, SimpleNamespace(nodes=addresses, version=lambda api_key, version: version))
    return Rewriter(Learned(Plan(recording, cluster)), Counter())


def test_a_request_without_ids_leaves_as_it_was_recorded() -> None:
    recording = recorded(1)
    found = rewriter(recording)
    for one in recording.requests:
        if one.api_key == ApiKey.METADATA:
            assert found.rewrite(one).encoded.body == one.request.data[one.request.body_start :]


def test_ids_are_those_of_the_new_cluster() -> None:
    recording = recorded(1)
    found = rewriter(recording)
    one = next(one for one in recording.requests if one.api_key == ApiKey.SYNC_GROUP)
    found.learned.identities.members[one.body().member_id] = "its-new-id"
    ready = found.rewrite(one)
    assert one.request.message is not None
    assert one.request.message.decode(ready.encoded.version, ready.encoded.body).member_id == "its-new-id"
    assert ready.encoded.body == encoded_again(one, ready).encoded.body


def test_no_more_replicas_are_asked_for_than_there_are_brokers() -> None:
    recording = recorded(10)
    one = next(
        one
        for one in recording.requests
        if one.api_key == ApiKey.CREATE_TOPICS and any(topic.replication_factor > 1 for topic in one.body().topics)
    )
    asked: Any = one.body()
    found = rewriter(recording)
    body = found.rewrite(one).body
    assert [topic.replication_factor for topic in body.topics] == [1] * len(asked.topics)
    assert all("lowered to 1" in note for note in found.notes) and sum(found.notes.values()) == len(asked.topics)
    as_many = rewriter(recording, nodes=3)
    assert as_many.rewrite(one).encoded.body == one.request.data[one.request.body_start :] and not as_many.notes
