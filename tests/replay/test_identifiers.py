"""Which fields hold ids, by Kafka's own message definitions: what the protocol guide says of each."""

import pytest

from kproxy.protocol.structs import struct_types
from kproxy.replay.identifiers import Kind, key_fields, kind_of, spots


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


@pytest.mark.parametrize(("place", "kind"), FIELDS.items(), ids=[".".join(place) for place in FIELDS])
def test_kinds(place: tuple[str, str, str], kind: Kind | None) -> None:
    message, struct, name = place
    [field] = [field for field in struct_types(message)[struct].fields if field.name == name]
    assert kind_of(message, field) is kind


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
