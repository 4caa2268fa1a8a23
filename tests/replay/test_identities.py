"""Ids of a cluster: which fields hold them, how they are learned, translated and aligned."""

from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch

from kproxy.protocol import ApiKey, message
from kproxy.protocol.structs import struct_types
from kproxy.replay.identities import (
    Identities,
    Kind,
    Place,
    Producer,
    align,
    key_fields,
    kind_of,
    learn_ids,
    producers_of,
    replace_producers,
    spots,
)
from tests.support.replayed import recorded


def keys(message: str, struct: str, **values: object) -> list[str]:
    return [field.name for field in key_fields(message, struct_types(message)[struct](**values))]


FIELDS = {
    ("FetchRequest", "FetchTopic", "TopicId"): Kind.UUID,
    ("FetchRequest", "FetchRequest", "SessionId"): Kind.SESSION,
    ("FetchRequest", "FetchPartition", "CurrentLeaderEpoch"): Kind.LEADER_EPOCH,
    ("FetchRequest", "FetchPartition", "LastFetchedEpoch"): Kind.LEADER_EPOCH,
    ("FetchRequest", "FetchPartition", "FetchOffset"): Kind.OFFSET,
    ("InitProducerIdRequest", "InitProducerIdRequest", "ProducerId"): Kind.PRODUCER_ID,
    ("InitProducerIdRequest", "InitProducerIdRequest", "ProducerEpoch"): Kind.PRODUCER_EPOCH,
    ("InitProducerIdRequest", "InitProducerIdRequest", "TransactionalId"): None,
    ("JoinGroupResponse", "JoinGroupResponse", "Leader"): Kind.MEMBER,
    ("MetadataResponse", "MetadataResponsePartition", "LeaderId"): Kind.NODE,
    ("MetadataResponse", "MetadataResponsePartition", "LeaderEpoch"): Kind.LEADER_EPOCH,
    ("OffsetCommitRequest", "OffsetCommitRequest", "GenerationIdOrMemberEpoch"): Kind.GENERATION,
    ("OffsetCommitRequest", "OffsetCommitRequest", "GroupId"): None,
    ("ConsumerGroupHeartbeatRequest", "ConsumerGroupHeartbeatRequest", "MemberEpoch"): Kind.GENERATION,
    ("AddPartitionsToTxnRequest", "AddPartitionsToTxnRequest", "V3AndBelowProducerEpoch"): Kind.PRODUCER_EPOCH,
    ("PushTelemetryRequest", "PushTelemetryRequest", "ClientInstanceId"): Kind.UUID,
    ("PushTelemetryRequest", "PushTelemetryRequest", "SubscriptionId"): Kind.TOKEN,
    ("RenewDelegationTokenRequest", "RenewDelegationTokenRequest", "Hmac"): Kind.TOKEN,
}


def test_kinds() -> None:
    for (of, struct, name), kind in FIELDS.items():
        [field] = [field for field in struct_types(of)[struct].fields if field.name == name]
        assert kind_of(of, field) is kind, (of, name)


def test_a_struct_with_ids_below_it_is_looked_into() -> None:
    assert [(spot.field.name, spot.kind) for spot in spots("SyncGroupRequest", "SyncGroupRequest")] == [
        ("GenerationId", Kind.GENERATION),
        ("MemberId", Kind.MEMBER),
        ("Assignments", None),
    ]


def test_a_coordinator_is_told_by_what_it_is_for() -> None:
    assert keys("FindCoordinatorResponse", "Coordinator", key="g", node_id=1) == ["Key"]
    assert keys("ListTransactionsResponse", "TransactionState", transactional_id="t") == ["TransactionalId"]
    assert keys("MetadataResponse", "MetadataResponseBroker", node_id=1) == ["NodeId"]


def test_a_topic_is_told_by_its_name_before_its_id() -> None:
    assert keys("MetadataResponse", "MetadataResponseTopic", name="t") == ["Name"]
    assert keys("ProduceResponse", "TopicProduceResponse", name="") == ["Name", "TopicId"]  # from version 13 on
    assert keys("ConsumerGroupHeartbeatResponse", "TopicPartitions") == ["TopicId"]
    assert keys("MetadataResponse", "MetadataResponsePartition") == ["PartitionIndex"]


def made(name: str, version: int, json: str) -> Any:
    return message(name).from_json(version, json)


def listed(epoch: int) -> Any:
    json = (
        '{"replicaId": -1, "isolationLevel": 0, "topics": [{"name": "orders", "partitions":'
        f' [{{"partitionIndex": 2, "currentLeaderEpoch": {epoch}, "timestamp": -1}}]}}]}}'
    )
    return made("ListOffsetsRequest", 6, json)


def test_leader_epochs() -> None:
    identities = Identities()
    request = listed(17)
    identities.translate("ListOffsetsRequest", request)
    assert request == listed(-1)  # not known: the broker shall not check it
    identities.leader_epochs["orders", 2, 17] = 3
    request = listed(17)
    identities.translate("ListOffsetsRequest", request)
    assert request == listed(3)


def test_replicas_on_one_node() -> None:
    identities = Identities(nodes={1: 0, 2: 0, 3: 0})
    json = '{{"timeoutMs": 1, "topics": [{{"name": "t", "partitions": [{{"partitionIndex": 0, "replicas": {}}}]}}]}}'
    request = made("AlterPartitionReassignmentsRequest", 0, json.format([3, 1]))
    identities.translate("AlterPartitionReassignmentsRequest", request)
    assert request == made("AlterPartitionReassignmentsRequest", 0, json.format([0]))


def test_a_brokers_settings_are_asked_of_the_node_that_it_is_now() -> None:
    identities = Identities(nodes={1: 7})
    json = (
        '{{"resources": [{{"resourceType": {}, "resourceName": "1", "configurationKeys": null}}],'
        ' "includeSynonyms": false, "includeDocumentation": false}}'
    )
    broker, topic = (made("DescribeConfigsRequest", 4, json.format(kind)) for kind in (4, 2))  # ConfigResource.Type
    assert identities.translate("DescribeConfigsRequest", broker) and broker.resources[0].resource_name == "7"
    assert not identities.translate("DescribeConfigsRequest", topic)


OLD, NEW = "OldTopicIdAAAAAAAAAAAA", "NewTopicIdAAAAAAAAAAAA"


def joined(generation: int, member: str) -> Any:
    return made(
        "JoinGroupResponse",
        5,
        f'{{"throttleTimeMs": 0, "errorCode": 0, "generationId": {generation}, "protocolName": "range", "leader": "{member}",'
        f' "memberId": "{member}", "members": [{{"memberId": "{member}", "groupInstanceId": null, "metadata": ""}}]}}',
    )


def heartbeat(generation: int, member: str, group: str = "g") -> Any:
    json = f'{{"groupId": "{group}", "generationId": {generation}, "memberId": "{member}", "groupInstanceId": null}}'
    return made("HeartbeatRequest", 4, json)


def test_a_member_and_its_generation() -> None:
    identities = Identities()
    learn_ids(identities, "JoinGroupResponse", joined(4, "old-1"), joined(9, "new-1"), Place(group="g"))
    beat = heartbeat(4, "old-1")
    assert identities.translate("HeartbeatRequest", beat)
    assert beat == heartbeat(9, "new-1")
    other = heartbeat(4, "old-1", group="another")  # generations are a group's own
    identities.translate("HeartbeatRequest", other)
    assert other == heartbeat(4, "new-1", group="another")


def test_a_generation_that_only_another_member_has_shown() -> None:
    identities = Identities()
    learn_ids(identities, "JoinGroupResponse", joined(4, "old-1"), joined(9, "new-1"), Place(group="g"))
    beat = heartbeat(4, "old-2")
    identities.translate("HeartbeatRequest", beat)
    assert beat == heartbeat(9, "old-2")


def test_special_values_stay() -> None:
    identities = Identities()
    learn_ids(identities, "JoinGroupResponse", joined(4, "old-1"), joined(9, "new-1"), Place(group="g"))
    beat = heartbeat(-1, "")
    assert not identities.translate("HeartbeatRequest", beat)


def test_topic_ids() -> None:
    identities = Identities({OLD: "orders"})
    answer = (
        '{{"throttleTimeMs": 0, "topics": [{{"name": "orders", "topicId": "{}", "errorCode": 0, "errorMessage": null,'
    )
    answer += '"topicConfigErrorCode": 0, "numPartitions": 1, "replicationFactor": 1, "configs": null}}]}}'
    old, new = (made("CreateTopicsResponse", 7, answer.format(topic_id)) for topic_id in (OLD, NEW))
    learn_ids(identities, "CreateTopicsResponse", old, new, Place())
    delete = '{{"topics": [{{"name": null, "topicId": "{}"}}], "timeoutMs": 1}}'
    request = made("DeleteTopicsRequest", 6, delete.format(OLD))
    assert identities.translate("DeleteTopicsRequest", request)
    assert request == made("DeleteTopicsRequest", 6, delete.format(NEW))


def initialized(producer_id: int, epoch: int) -> Any:
    json = f'{{"throttleTimeMs": 0, "errorCode": 0, "producerId": {producer_id}, "producerEpoch": {epoch}}}'
    return made("InitProducerIdResponse", 4, json)


def end_transaction(producer_id: int, epoch: int) -> Any:
    json = f'{{"transactionalId": "t", "producerId": {producer_id}, "producerEpoch": {epoch}, "committed": true}}'
    return made("EndTxnRequest", 3, json)


def test_producers() -> None:
    identities = Identities()
    learn_ids(identities, "InitProducerIdResponse", initialized(5, 1), initialized(7_000, 0), Place())
    request = end_transaction(5, 1)
    assert identities.translate("EndTxnRequest", request) and request == end_transaction(7_000, 0)
    request = end_transaction(5, 3)  # an epoch that was not seen: as far from the one that was
    assert identities.translate("EndTxnRequest", request) and request == end_transaction(7_000, 2)
    request = end_transaction(6, 1)
    assert not identities.translate("EndTxnRequest", request)


def test_a_refused_producer_teaches_nothing() -> None:
    identities = Identities()
    learn_ids(identities, "InitProducerIdResponse", initialized(-1, -1), initialized(7_000, 0), Place())
    assert identities.producer(-1, -1) == Producer(-1, -1)
    assert not identities.producers


def test_what_is_learned_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr("kproxy.replay.identities.MOST", 2)
    identities = Identities()
    for number in range(5):
        learn_ids(
            identities, "JoinGroupResponse", joined(1, f"old-{number}"), joined(1, f"new-{number}"), Place(group="g")
        )
    assert len(identities.members) == 2


TOPIC = struct_types("MetadataResponse")["MetadataResponseTopic"]
MEMBER = struct_types("JoinGroupResponse")["JoinGroupResponseMember"]
ACL = struct_types("DescribeAclsResponse")["AclDescription"]


def names(pairs: list[tuple[Any, Any]], attribute: str) -> list[tuple[str | None, str | None]]:
    return [tuple(one and getattr(one, attribute) for one in pair) for pair in pairs]  # type: ignore[misc]


def test_by_name_whatever_the_order() -> None:
    old, new = [TOPIC(name="a"), TOPIC(name="b")], [TOPIC(name="c"), TOPIC(name="a")]
    pairs = align("MetadataResponse", old, new, Identities(), Place())
    assert names(pairs, "name") == [("a", "a"), ("b", None), (None, "c")]


def test_by_ids_in_place_of_each_other() -> None:
    identities = Identities(members={"old": "new"})
    old, new = [MEMBER(member_id="old"), MEMBER(member_id="x")], [MEMBER(member_id="x"), MEMBER(member_id="new")]
    pairs = align("JoinGroupResponse", old, new, identities, Place())
    assert names(pairs, "member_id") == [("old", "new"), ("x", "x")]


def test_by_place_where_nothing_identifies_them() -> None:
    old, new = [ACL(principal="a"), ACL(principal="b")], [ACL(principal="a")]
    pairs = align("DescribeAclsResponse", old, new, Identities(), Place())
    assert names(pairs, "principal") == [("a", "a"), ("b", None)]
    assert align("DescribeAclsResponse", old, new, Identities(), Place(), by_place=False) == []


def test_keys_that_come_twice_do_not_identify() -> None:
    old, new = [TOPIC(name="a"), TOPIC(name="a")], [TOPIC(name="a")]
    assert len(align("MetadataResponse", old, new, Identities(), Place())) == 2
    assert align("MetadataResponse", [], [], Identities(), Place()) == []


def fields() -> list[bytes]:
    """The records fields of the idempotent producer of capture 01."""
    [produce] = [one.body() for one in recorded(1).requests if one.api_key == ApiKey.PRODUCE]
    return [partition.records for topic in produce.topic_data for partition in topic.partition_data]


def test_ids_and_checksums() -> None:
    for records in fields():
        new = replace_producers(records, lambda producer_id, epoch: Producer(7_000_000_001, 12))
        read, before = DefaultRecordBatch(new), DefaultRecordBatch(records)
        assert read.validate_crc() and (read.producer_id, read.producer_epoch) == (7_000_000_001, 12)
        assert read.base_sequence == before.base_sequence
        assert [(r.key, r.value, r.headers) for r in read] == [(r.key, r.value, r.headers) for r in before]


def test_the_same_bytes_where_nothing_changes() -> None:
    for records in fields():
        assert replace_producers(records, Producer) is records


def test_a_wrong_checksum_stays_wrong() -> None:
    [records, *_] = fields()
    damaged = records[:-1] + bytes([records[-1] ^ 1])
    assert replace_producers(damaged, lambda producer_id, epoch: Producer(1, 1)) is damaged


def test_several_batches_and_what_is_behind_them() -> None:
    [one, two, *_] = fields()
    new = replace_producers(one + two + b"part", lambda producer_id, epoch: Producer(1, 1))
    assert producers_of(new) == {Producer(1, 1)}
    assert len(new) == len(one + two) + 4 and new.endswith(b"part")


def test_who_produced() -> None:
    expected = {
        (DefaultRecordBatch(records).producer_id, DefaultRecordBatch(records).producer_epoch) for records in fields()
    }
    assert {tuple(one) for records in fields() for one in producers_of(records)} == expected
    assert producers_of(b"") == set() == producers_of(bytes(40))
