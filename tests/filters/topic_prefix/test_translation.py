"""Every field of every message that passes is a name, a text, an id, or known to be none of these; topic ids."""

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.filters.topic_prefix.translation import (
    ADMINISTRATION,
    RENAMED,
    UNTOUCHED,
    NotOurs,
    Translation,
    is_topic_id,
    plan_of,
    topic_ids,
)
from kproxy.filters.turns import at_once
from kproxy.protocol import ApiKey, Direction, facts, message
from tests.support.marked import ENTITIES, SPECIAL, messages
from tests.support.messages import make

# Last names of fields of type string, uuid, bytes or records that carry no name of a tenant
WORDS_WITHOUT_NAMES = """
    assignorName authBytes batchIndexErrorMessage clientHost clientId clientInstanceId clientSoftwareName
    clientSoftwareVersion clusterId committedMetadata configurationKeys documentation entityName entityType errorMessage
    feature groupInstanceId groupState groupType hmac host hostFilter instanceId leader logDir mechanism mechanisms memberId
    metadata metadataBytes metrics ownerPrincipalName ownerPrincipalType path principal principalFilter principalName
    principalType processId protocolData protocolName protocolType rack rackId reason records replicaDirectoryId
    requestedMetrics salt saltedPassword serverAssignor stateFilters statesFilter statusDetail subtopologyId tokenId
    tokenRequesterPrincipalName tokenRequesterPrincipalType transactionState typesFilter unknownStateFilters user value
    voterDirectoryId acknowledgeErrorMessage
"""
NO_NAMES = set(WORDS_WITHOUT_NAMES.split())
APIS_BETWEEN_BROKERS = """
    LEADER_AND_ISR STOP_REPLICA UPDATE_METADATA CONTROLLED_SHUTDOWN WRITE_TXN_MARKERS VOTE BEGIN_QUORUM_EPOCH
    END_QUORUM_EPOCH ALTER_PARTITION ENVELOPE FETCH_SNAPSHOT BROKER_REGISTRATION BROKER_HEARTBEAT ALLOCATE_PRODUCER_IDS
    CONTROLLER_REGISTRATION ASSIGN_REPLICAS_TO_DIRS UPDATE_RAFT_VOTER INITIALIZE_SHARE_GROUP_STATE
    READ_SHARE_GROUP_STATE WRITE_SHARE_GROUP_STATE DELETE_SHARE_GROUP_STATE READ_SHARE_GROUP_STATE_SUMMARY
"""
BETWEEN_BROKERS = set(APIS_BETWEEN_BROKERS.split())
# Common words, which are names in other messages
NO_NAMES_THERE = {
    ("AddRaftVoterRequest", "listeners.name"),
    ("AlterClientQuotasRequest", "entries.ops.key"),
    ("AlterConfigsRequest", "resources.configs.name"),
    ("AlterUserScramCredentialsRequest", "deletions.name"),
    ("AlterUserScramCredentialsRequest", "upsertions.name"),
    ("ApiVersionsResponse", "finalizedFeatures.name"),
    ("ApiVersionsResponse", "supportedFeatures.name"),
    ("ConsumerGroupHeartbeatRequest", "clientAssignors.name"),
    ("CreateTopicsRequest", "topics.configs.name"),
    ("CreateTopicsResponse", "topics.configs.name"),
    ("DescribeClientQuotasRequest", "components.match"),
    ("DescribeClientQuotasResponse", "entries.values.key"),
    ("DescribeConfigsResponse", "results.configs.name"),
    ("DescribeConfigsResponse", "results.configs.synonyms.name"),
    ("DescribeQuorumResponse", "nodes.listeners.name"),
    ("DescribeUserScramCredentialsRequest", "users.name"),
    ("IncrementalAlterConfigsRequest", "resources.configs.name"),
    ("JoinGroupRequest", "protocols.name"),
    ("StreamsGroupDescribeResponse", "groups.members.clientTags.key"),
    ("StreamsGroupDescribeResponse", "groups.topology.subtopologies.repartitionSourceTopics.topicConfigs.key"),
    ("StreamsGroupDescribeResponse", "groups.topology.subtopologies.stateChangelogTopics.topicConfigs.key"),
    ("StreamsGroupHeartbeatRequest", "clientTags.key"),
    ("StreamsGroupHeartbeatRequest", "topology.subtopologies.repartitionSourceTopics.topicConfigs.key"),
    ("StreamsGroupHeartbeatRequest", "topology.subtopologies.stateChangelogTopics.topicConfigs.key"),
}


def test_every_field_of_what_passes_is_accounted_for() -> None:
    """A new Kafka with a field or an API of which this does not say what it is turns this red."""
    unknown = set()
    for each in (*messages("request"), *messages("response")):
        if message(each.name).api_key not in RENAMED | UNTOUCHED:
            continue
        for path, field in each.fields():
            is_name = field.entity in ENTITIES or (each.name, path) in SPECIAL or is_topic_id(field)
            is_data = field.type in ("string", "uuid", "bytes", "records")
            known = path.rsplit(".", 1)[-1] in NO_NAMES or (each.name, path) in NO_NAMES_THERE
            if is_data and not is_name and not known:
                unknown.add((each.name, path))
    assert unknown == set()


def test_every_api_is_of_one_sort() -> None:
    assert not RENAMED & UNTOUCHED
    assert ADMINISTRATION < UNTOUCHED
    refused = set(facts().apis) - RENAMED - UNTOUCHED
    assert {ApiKey(key).name for key in refused} == BETWEEN_BROKERS


def test_what_is_untouched_has_no_names() -> None:
    for key in UNTOUCHED:
        for direction in Direction:
            for version in message(f"{facts().apis[key].name}Request").versions:
                plan = plan_of(direction, key, version)
                assert not plan.has_names
                assert not plan.has_topic_ids


def test_a_plan_says_where_names_ids_and_texts_are() -> None:
    produce = plan_of(Direction.REQUEST, ApiKey.PRODUCE, 12)
    assert produce.names == (("transactional_id", Kind.TRANSACTIONAL_ID),)
    (attribute, below) = produce.arrays[0]
    assert (attribute, below.names) == ("topic_data", (("name", Kind.TOPIC),))
    by_id = plan_of(Direction.REQUEST, ApiKey.PRODUCE, 13)
    assert (by_id.arrays[0][1].names, by_id.arrays[0][1].topic_id) == ((), "topic_id")
    created = plan_of(Direction.RESPONSE, ApiKey.CREATE_TOPICS, 7)
    assert created.arrays[0][1].texts == ("error_message",)
    assert plan_of(Direction.REQUEST, ApiKey.DELETE_GROUPS, 2).lists == (("groups_names", Kind.GROUP_OR_NONE),)
    assert plan_of(Direction.RESPONSE, ApiKey.FETCH, 13).has_names is False


ONE, TWO = ("A" * 21 + letter for letter in "gh")


def test_a_topic_that_is_deleted_by_name_has_no_id() -> None:
    value = make("DeleteTopicsRequest", topics=[{"name": "x"}])
    assert list(topic_ids(plan_of(Direction.REQUEST, ApiKey.DELETE_TOPICS, 6), value)) == []


NAMES = Names("a.")


def test_a_response_teaches_the_ids_of_the_tenants_topics_alone() -> None:
    ids = BoundedSet()
    topics = [{"name": name, "topic_id": each} for name, each in (("a.x", ONE), ("b.x", TWO))]
    value = make("MetadataResponse", topics=topics)
    translation = Translation(NAMES, ids)
    at_once(translation.response(plan_of(Direction.RESPONSE, ApiKey.METADATA, 12), value))
    assert [topic.name for topic in value.topics] == ["x"]
    assert (ONE in ids, TWO in ids, translation.changed) == (True, False, True)


def test_a_struct_that_cannot_be_left_out_is_a_fault() -> None:
    value = make("DescribeTopicPartitionsResponse", next_cursor={"topic_name": "b.x"})
    with pytest.raises(NotOurs, match="next_cursor"):
        plan = plan_of(Direction.RESPONSE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
        at_once(Translation(NAMES, BoundedSet()).response(plan, value))


def test_null_names_and_lists_stay_null() -> None:
    value = make("MetadataRequest", topics=None)
    translation = Translation(NAMES, BoundedSet())
    translation.request(plan_of(Direction.REQUEST, ApiKey.METADATA, 12), value)
    assert (value.topics, translation.changed) == (None, False)
