"""Plan: which requests of a recording are sent to a cluster, which are not and why, and what they would do there.

Not sent are logins, what brokers and controllers say to each other, and what is incomplete (``reason_not_sent``). Brokers create
some topics by themselves, when a request needs them and the cluster lacks them (``AutomaticTopics``):

Metadata              creates a topic that it names, with allowAutoTopicCreation or before that version, if the brokers'
                      auto.create.topics.enable is true, which is the default (KafkaApis.handleTopicMetadataRequest)
FindCoordinator       creates the internal topic in which coordinators of that kind keep their state (KafkaApis.getCoordinator)
StreamsGroupHeartbeat  creates the internal topics of the topology that it carries (KIP-1071)
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, facts
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.judgements import apis_for_replay
from kproxy.replay.cluster import Cluster, map_nodes, node_of
from kproxy.replay.effects import Effects, Verb
from kproxy.replay.identities import Producer, producers_of
from kproxy.replay.recording import ConnectionId, Recorded, Recording
from kproxy.replay.versions import Unsendable, nearest

MOST_NAMES = 100_000
# The first versions with transactions of version 2 (KIP-890)
IMPLICIT_FROM: dict[int, int] = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
LOGINS = apis_for_replay("login")
# APIs of controllers, and APIs on listeners for clients that need ClusterAction or are sent by brokers alone
# (ApiKeys.clusterAction of kafka-clients; KIP-932 for share group state, KIP-853 for voters that register by themselves)
BETWEEN_BROKERS = apis_for_replay("internal")
# Versions that only brokers send: in batches, to verify transactions (KIP-890)
OF_BROKERS_FROM: dict[int, int] = {ApiKey.ADD_PARTITIONS_TO_TXN: 4}
LOGIN = "a login of the capture: connections to the new cluster log in by themselves, where --command-config says how"
INTERNAL = "what brokers and controllers say to each other"
DECLINED = "a version that the recorded broker did not know; its client asked again at a lower one, which is sent"
REPLICA = "a replica's fetch, not a client's"
# Key type of FindCoordinator -> topic (FindCoordinatorRequest.CoordinatorType)
OF_COORDINATORS = {0: "__consumer_offsets", 1: "__transaction_state", 2: "__share_group_state"}
BY_METADATA = ", where auto.create.topics.enable is true, by Metadata"
BY_FIND_COORDINATOR = ", by FindCoordinator"


@dataclass
class Needs:
    """What the new cluster must have, or assign, for the requests."""

    topics: dict[str, int] = field(default_factory=dict)  # topic -> partitions, at least
    created: set[str] = field(default_factory=set)  # by the requests themselves, before they are used
    producers: dict[int, int] = field(default_factory=dict)  # producer id -> its first epoch
    given: set[int] = field(default_factory=set)  # producer ids that requests obtain
    transactional: dict[int, str] = field(default_factory=dict)  # producer id -> transactional id


@dataclass
class Plan:
    """What a replay will do."""

    recording: Recording
    cluster: Cluster
    sent: list[Recorded] = field(default_factory=list)
    unsent: Counter[tuple[str, str]] = field(default_factory=Counter)  # API, reason -> requests
    other_versions: Counter[tuple[str, int, int]] = field(default_factory=Counter)  # API, recorded, sent -> requests
    effects: Effects = field(default_factory=Effects)
    needs: Needs = field(default_factory=Needs)
    nodes: dict[int, int] = field(default_factory=dict)  # recorded node id -> the new cluster's
    create_topics: bool = False

    @property
    def missing_topics(self) -> dict[str, int]:
        """Topics that requests use and the cluster lacks, with their partitions."""
        there = self.cluster.topics
        lacking = (item for item in self.needs.topics.items() if item[0] not in there)
        return {name: count for name, count in lacking if name not in self.needs.created | INTERNAL_TOPICS}

    @property
    def foreign_producers(self) -> dict[int, int]:
        """Producer ids that the recorded cluster assigned before these requests, with their first epoch."""
        return {one: epoch for one, epoch in self.needs.producers.items() if one not in self.needs.given}

    def node(self, recorded: Recorded) -> int | None:
        """Return the node of the new cluster that a request goes to; None: the address that was given."""
        node = node_of(recorded.broker, self.recording.nodes)
        return None if node is None else self.nodes.get(node)


def make_plan(recording: Recording, cluster: Cluster, *, create_topics: bool = False) -> Plan:
    """Decide for each request whether it is sent, and add up what the requests would do."""
    plan = Plan(recording, cluster, create_topics=create_topics)
    plan.effects.names = recording.names
    plan.nodes = map_nodes(recording.nodes, cluster.nodes)
    internal = internal_connections(recording.requests)
    automatic = AutomaticTopics()
    for recorded in recording.requests:
        reason = reason_not_sent(recorded)
        if recorded.api_key == ApiKey.API_VERSIONS and recorded.connection in internal:
            reason = INTERNAL
        reason = reason or _reason_of_broker(recorded, cluster, plan)
        if reason is not None:
            plan.unsent[recorded.api_name, reason] += 1
            continue
        try:
            body = recorded.body()
        except DecodeError as error:
            plan.unsent[recorded.api_name, f"it cannot be decoded: {error}"] += 1
            continue
        plan.sent.append(recorded)
        plan.effects.add(recorded, body)
        _note_needs(plan, recorded, body)
        automatic.add(recorded.api_key, body)
    made = plan.needs.created | (plan.missing_topics.keys() if plan.create_topics else set())
    automatic.note(plan.effects, made | plan.cluster.topics.keys())
    return plan


def internal_connections(requests: Iterable[Recorded]) -> set[ConnectionId]:
    """Return the connections on which only brokers and controllers talk, ApiVersions aside."""
    connections: dict[ConnectionId, bool] = {}
    for one in requests:
        if one.api_key != ApiKey.API_VERSIONS:
            is_internal = reason_not_sent(one) in (INTERNAL, REPLICA)
            connections[one.connection] = connections.get(one.connection, True) and is_internal
    return {connection for connection, is_internal in connections.items() if is_internal}


def _reason_of_broker(recorded: Recorded, cluster: Cluster, plan: Plan) -> str | None:
    if not cluster.speaks(recorded.api_key):
        return "the new broker does not have this API"
    message = recorded.request.message
    assert message is not None
    try:
        version = nearest(message, recorded.api_version, cluster.spoken(recorded.api_key))
    except Unsendable as error:
        return str(error)
    if version == recorded.api_version:
        return None
    first = IMPLICIT_FROM.get(recorded.api_key)  # from here on clients send no AddPartitionsToTxn
    if first is not None and version < first <= recorded.api_version and recorded.body().transactional_id:
        return (
            f"its transaction grows with each request (transactions of version 2, KIP-890), which version {version},"
            " the newest of the new broker, does not do"
        )
    plan.other_versions[recorded.api_name, recorded.api_version, version] += 1
    return None


def _note_needs(plan: Plan, recorded: Recorded, body: Any) -> None:
    needs = plan.needs
    if recorded.api_key == ApiKey.CREATE_TOPICS:
        names = {topic.name for topic in body.topics}
        needs.created |= names - needs.topics.keys()
        return
    if recorded.api_key == ApiKey.PRODUCE:
        for topic in body.topic_data:
            for partition in topic.partition_data:
                _note_producers(needs, producers_of(partition.records or b""), body.transactional_id)
    elif recorded.api_key == ApiKey.INIT_PRODUCER_ID:
        answer = recorded.answer()
        if answer is not None and answer.producer_id >= 0 and answer.producer_id not in needs.producers:
            needs.given.add(answer.producer_id)
    assert recorded.request.message is not None
    _note_topics(plan, recorded.request.message.name, body)


def _note_producers(needs: Needs, producers: set[Producer], transactional_id: str | None) -> None:
    for producer in producers:
        if len(needs.producers) < MOST_NAMES:
            needs.producers.setdefault(producer.producer_id, producer.epoch)
            if transactional_id:
                needs.transactional.setdefault(producer.producer_id, transactional_id)


def _note_topics(plan: Plan, message: str, struct: Any) -> None:
    """Note the topics with data that a request names, with as many partitions as the recorded cluster had."""
    names: list[str] = []
    for one in struct.fields:
        value = getattr(struct, one.attribute)
        if one.entity == "topicName" and value and message != "MetadataRequest":
            names += value if one.is_array else [value]
        elif one.is_struct:
            for inner in (value or ()) if one.is_array else (value,):
                if inner is not None:
                    _note_topics(plan, message, inner)
    topic_id = getattr(struct, "topic_id", ZERO_UUID) if "topic_id" in struct.by_attribute else ZERO_UUID
    if topic_id in plan.recording.names:
        names.append(plan.recording.names[topic_id])
    for name in names:
        # only those that the recorded cluster had: requests for others were refused there, too
        if name in plan.recording.topics and len(plan.needs.topics) < MOST_NAMES:
            plan.needs.topics[name] = plan.recording.topics[name]


def reason_not_sent(recorded: Recorded) -> str | None:
    """Return why a request is not sent to any broker, in words; None if it is sent."""
    api_key = recorded.api_key
    if api_key in LOGINS:
        return LOGIN
    if is_internal(api_key, recorded.api_version):
        return INTERNAL
    if recorded.request.cut:
        return f"its end is not in the capture ({recorded.request.cut.text})"
    return _reason_of_body(recorded)


def _reason_of_body(recorded: Recorded) -> str | None:
    request, api = recorded.request, facts().apis.get(recorded.api_key)
    if api is not None and (request.assumed_version is not None or request.unread):
        if request.unread and (recorded.api_version <= api.versions.highest or _is_declined(recorded)):
            return DECLINED
        return f"version {recorded.api_version} is newer than kproxy knows"
    if not recorded.readable:
        return f"it cannot be decoded: {request.error or 'the API is not known'}"
    try:
        body = recorded.body()
    except DecodeError as error:
        return f"it cannot be decoded: {error}"
    # A follower names itself in its Fetch, ListOffsets or OffsetForLeaderEpoch
    replica, state = getattr(body, "replica_id", -1), getattr(body, "replica_state", None)
    return REPLICA if replica >= 0 or (state is not None and state.replica_id >= 0) else None


def _is_declined(recorded: Recorded) -> bool:
    """Return whether the recorded broker answered ApiVersions with the version to ask at instead (KIP-511)."""
    answer = recorded.answer() if recorded.api_key == ApiKey.API_VERSIONS else None
    return answer is not None and answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def is_internal(api_key: int, api_version: int) -> bool:
    """Return whether brokers and controllers send this to each other, and clients do not."""
    return api_key in BETWEEN_BROKERS or api_version >= OF_BROKERS_FROM.get(api_key, api_version + 1)


@dataclass
class AutomaticTopics:
    """The topics that a number of requests would have brokers create."""

    _topics: Counter[tuple[str, str]] = field(default_factory=Counter)  # topic, by what -> requests

    def add(self, api_key: int, body: Any) -> None:
        """Add the topics that a decoded request would have created."""
        for one in _created_by(api_key, body):
            if one in self._topics or len(self._topics) < MOST_NAMES:
                self._topics[one] += 1

    def note(self, effects: Effects, there: Container[str]) -> None:
        """Note as created those of the topics that the cluster does not have."""
        for (topic, by), count in self._topics.items():
            if topic not in there:
                effects.note(Verb.CREATE, f"topic {topic}{by}", requests=count)


def _created_by(api_key: int, body: Any) -> Iterator[tuple[str, str]]:
    if api_key == ApiKey.METADATA and body.topics and body.allow_auto_topic_creation:
        yield from ((topic.name, BY_METADATA) for topic in body.topics if topic.name)
    elif api_key == ApiKey.FIND_COORDINATOR and body.key_type in OF_COORDINATORS:
        yield OF_COORDINATORS[body.key_type], BY_FIND_COORDINATOR
    elif api_key == ApiKey.STREAMS_GROUP_HEARTBEAT and body.topology is not None:
        by = f", internal of streams group {body.group_id}, by StreamsGroupHeartbeat"
        for one in body.topology.subtopologies:
            yield from ((topic.name, by) for topic in (*one.repartition_source_topics, *one.state_changelog_topics))
