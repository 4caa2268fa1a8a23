"""Every field of every message that passes is a name, a text, an id, or known to be none of these."""

from kproxy.filters.topic_prefix.names import Kind
from kproxy.filters.topic_prefix.places import ADMINISTRATION, RENAMED, UNTOUCHED, is_topic_id, plan_of
from kproxy.protocol import ApiKey, Direction, facts, message
from tests.support.marked import ENTITIES, SPECIAL, messages

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
    assert created.without_arrays().arrays == ()
    assert plan_of(Direction.REQUEST, ApiKey.DELETE_GROUPS, 2).lists == (("groups_names", Kind.GROUP_OR_NONE),)
    assert plan_of(Direction.RESPONSE, ApiKey.FETCH, 13).has_names is False
