"""Rules for what no entity type marks: one function for each API, in the tables of RULES.

A rule changes the decoded message in place, before the plan of translation.py is applied. It returns whether it changed the
message (None: perhaps). A rule for requests raises Refusal for one that must not be forwarded, before it has changed any name.

Coordinators. The key of FindCoordinator is a group, a transactional id, or (KIP-932, between brokers) a group with a topic id.

Fetch. A broker identifies a fetch session (KIP-227) by its id alone, an int32: any connection that sends the id continues the
session. Such a request names no topics, so a client could read those of another tenant. Therefore no client gets a session: a
request for one is changed into one without (epoch -1), the broker answers with session 0, and the client lists its
partitions in every request, as librdkafka always does. A request with another session id gets FETCH_SESSION_ID_NOT_FOUND. Up to
version 12 responses carry names and are held completely: ``max_bytes`` is limited, so that they fit (fetching.py). Share
sessions belong to a member of a group (KIP-932), and so to its tenant.

Pages of DescribeTopicPartitions (KIP-966). Topics come in the order of their names; a cursor says where the next page begins. A
request for all topics begins at the prefix, where the tenant's topics are together; a cursor that points behind them is the end.

Resources of configurations: topics and groups are the tenant's; brokers, loggers and client metrics are the cluster's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kproxy.filters.contract import Request, RequestFacts, Response, SharedSet
from kproxy.filters.fetching import limit, limit_share
from kproxy.filters.topic_prefix import acls
from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.filters.topic_prefix.patterns import Patterns
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.filters.topic_prefix.subscriptions import in_assignment, in_subscription, to_broker, to_client
from kproxy.filters.topic_prefix.translation import NotOurs
from kproxy.protocol import ApiKey, Direction
from kproxy.protocol.embedded.group import CONSUMER
from kproxy.protocol.error_codes import ErrorCode

KEPT = "topic_prefix"  # in Request.kept
# FindCoordinatorRequest.CoordinatorType. The coordinator of an empty group is found for the APIs that take an empty id
KINDS_OF_COORDINATORS = {0: Kind.GROUP_OR_NONE, 1: Kind.TRANSACTIONAL_ID}
KINDS_OF_RESOURCES = {2: Kind.TOPIC, 32: Kind.GROUP}  # of org.apache.kafka.common.config.ConfigResource.Type
SEVERAL_KEYS_SINCE = 4  # version of FindCoordinator
NO_SESSION = 0
FULL_WITHOUT_SESSION = -1  # FetchMetadata.FINAL_EPOCH
SESSIONS_SINCE, IDS_SINCE = 7, 13  # versions of Fetch
NAME_IS_NULLABLE = 12  # version of Metadata from which a topic may have no name
LEAST_NAME = "-"  # of all characters that Kafka allows, so that no topic comes before it
# SyncGroup before version 5 has no protocol type: the bytes say what they are
MAY_BE_CONSUMERS = (None, "", CONSUMER)


@dataclass(frozen=True, slots=True)
class Tenant:
    """What all rules of one filter share: the names and the ids of one tenant, and what it may do."""

    names: Names
    patterns: Patterns
    ids: SharedSet  # of its topics
    cluster_administration: bool
    most_fetch_bytes: int


Rule = Callable[[Tenant, Any, Any], bool | None]  # tenant, Request or Response, message


def _fetch(tenant: Tenant, request: Request, message: Any) -> bool:
    version = request.api_version
    changed = False
    if version >= SESSIONS_SINCE:
        if message.session_id != NO_SESSION:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "there are no fetch sessions here")
        if message.session_epoch != FULL_WITHOUT_SESSION:
            message.session_epoch = FULL_WITHOUT_SESSION
            changed = True
    if version < IDS_SINCE:
        changed |= limit(message, version, tenant.most_fetch_bytes)
    return changed


def _share_fetch(tenant: Tenant, request: Request, message: Any) -> bool:
    return limit_share(message, tenant.most_fetch_bytes)


def _metadata(tenant: Tenant, response: Response, message: Any) -> bool:
    """Report a topic of another tenant that was requested by its id as unknown."""
    requested = _ids_in(response.request)
    foreign = [
        topic
        for topic in message.topics
        if topic.topic_id in requested and topic.name and not tenant.names.is_ours(topic.name)
    ]
    for topic in foreign:
        _make_unknown(topic, response.request.api_version)
    return bool(foreign)


def _ids_in(request: RequestFacts) -> set[str]:
    topics: Iterable[Any] = (getattr(request.message, "topics", None) or ()) if request.message else ()
    return {topic.topic_id for topic in topics if topic.name is None}


def _make_unknown(topic: Any, version: int) -> None:
    """Make a topic look as brokers report an unknown id (KafkaApis.handleTopicMetadataRequest)."""
    blank = type(topic)(error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic.topic_id)
    for field in topic.fields:
        setattr(topic, field.attribute, getattr(blank, field.attribute))
    topic.name = None if version >= NAME_IS_NULLABLE else ""
    topic.unknown_tags = ()


def _find_coordinator_request(tenant: Tenant, request: Request, message: Any) -> None:
    kind = KINDS_OF_COORDINATORS.get(message.key_type)
    if kind is None:
        reason = f"no coordinator of type {message.key_type} is a tenant's"
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
    if request.api_version >= SEVERAL_KEYS_SINCE:
        message.coordinator_keys = [tenant.names.to_broker(kind, key) for key in message.coordinator_keys]
    else:
        message.key = tenant.names.to_broker(kind, message.key)


def _find_coordinator_response(tenant: Tenant, response: Response, message: Any) -> bool:
    """Translate the keys back; drop entries whose keys are not the tenant's."""
    if not message.coordinators:
        return False
    kind = KINDS_OF_COORDINATORS.get(getattr(response.request.message, "key_type", -1))
    kept = []
    for coordinator in message.coordinators:
        key = tenant.names.to_client(kind, coordinator.key) if kind is not None else None
        if key is not None:
            coordinator.key = key
            kept.append(coordinator)
    message.coordinators = kept
    return True


def _join_group_request(tenant: Tenant, request: Request, message: Any) -> None:
    if message.protocol_type == CONSUMER:
        for protocol in message.protocols:
            protocol.metadata = to_broker(tenant.names, in_subscription, protocol.metadata)


def _join_group_response(tenant: Tenant, response: Response, message: Any) -> None:
    if getattr(response.request.message, "protocol_type", None) == CONSUMER:
        for member in message.members:
            member.metadata = to_client(tenant.names, in_subscription, member.metadata)


def _sync_group_request(tenant: Tenant, request: Request, message: Any) -> None:
    if message.protocol_type in MAY_BE_CONSUMERS:
        for each in message.assignments:
            each.assignment = to_broker(tenant.names, in_assignment, each.assignment)


def _sync_group_response(tenant: Tenant, response: Response, message: Any) -> None:
    if getattr(response.request.message, "protocol_type", None) in MAY_BE_CONSUMERS:
        message.assignment = to_client(tenant.names, in_assignment, message.assignment)


def _describe_groups(tenant: Tenant, response: Response, message: Any) -> None:
    for group in message.groups:
        if group.protocol_type == CONSUMER:
            for member in group.members:
                member.member_metadata = to_client(tenant.names, in_subscription, member.member_metadata)
                member.member_assignment = to_client(tenant.names, in_assignment, member.member_assignment)


def _resources_to_broker(tenant: Tenant, request: Request, message: Any) -> None:
    for resource in message.resources:
        kind = KINDS_OF_RESOURCES.get(resource.resource_type)
        if kind is not None:
            resource.resource_name = tenant.names.to_broker(kind, resource.resource_name)


def _alter_configs(tenant: Tenant, request: Request, message: Any) -> None:
    if not tenant.cluster_administration and any(
        resource.resource_type not in KINDS_OF_RESOURCES for resource in message.resources
    ):
        reason = "a tenant alters configurations of topics and groups only"
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
    _resources_to_broker(tenant, request, message)


def _resources_to_client(attribute: str) -> Rule:
    """Return the rule for a response with the resources in an array: the tenant's and the cluster's are kept."""

    def rule(tenant: Tenant, response: Response, message: Any) -> None:
        kept = []
        for resource in getattr(message, attribute):
            kind = KINDS_OF_RESOURCES.get(resource.resource_type)
            name = resource.resource_name if kind is None else tenant.names.to_client(kind, resource.resource_name)
            if name is not None:
                resource.resource_name = name
                kept.append(resource)
        setattr(message, attribute, kept)

    return rule


def _create_acls(tenant: Tenant, request: Request, message: Any) -> None:
    acls.create_request(tenant.names, message, cluster=tenant.cluster_administration)


def _describe_acls_request(tenant: Tenant, request: Request, message: Any) -> None:
    """Ask for all patterns; the response is filtered by what the client asked for."""
    request.kept[KEPT] = acls.describe_request(message)


def _describe_acls_response(tenant: Tenant, response: Response, message: Any) -> None:
    wanted = response.request.kept.get(KEPT)
    if not isinstance(wanted, acls.PatternFilter):
        raise NotOurs("the request of these ACLs is not known")
    acls.describe_response(tenant.names, message, wanted, cluster=tenant.cluster_administration)


def _delete_acls_request(tenant: Tenant, request: Request, message: Any) -> None:
    request.kept[KEPT] = acls.delete_request(tenant.names, message, cluster=tenant.cluster_administration)


def _delete_acls_response(tenant: Tenant, response: Response, message: Any) -> None:
    groups = response.request.kept.get(KEPT)
    if not isinstance(groups, list):
        raise NotOurs("the request of these ACLs is not known")
    acls.delete_response(tenant.names, message, groups, cluster=tenant.cluster_administration)


def _elect_leaders(tenant: Tenant, request: Request, message: Any) -> bool:
    if message.topic_partitions is None:  # the partitions of all tenants
        reason = "a tenant elects leaders of partitions that it names"
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
    return False


def _expression(attribute: str) -> Rule:
    """Return the rule for a request with a regular expression (KIP-848, KIP-1152), which is confined."""

    def rule(tenant: Tenant, request: Request, message: Any) -> bool:
        pattern = getattr(message, attribute)
        if pattern:
            setattr(message, attribute, tenant.patterns.to_broker(pattern))
        return bool(pattern)

    return rule


def _streams_group_heartbeat(tenant: Tenant, request: Request, message: Any) -> None:
    """Confine the regular expressions of source topics (KIP-1071)."""
    for part in message.topology.subtopologies if message.topology else ():
        part.source_topic_regex = [tenant.patterns.to_broker(each) for each in part.source_topic_regex]


def _consumer_group_heartbeat_response(tenant: Tenant, response: Response, message: Any) -> bool:
    """Let the error message about a regular expression show the client's own expression."""
    confined = getattr(response.request.message, "subscribed_topic_regex", None)
    own = tenant.patterns.to_client(confined) if confined else None
    if not (own and message.error_message):
        return False
    message.error_message = message.error_message.replace(confined, own)
    return True


def _consumer_group_describe(tenant: Tenant, response: Response, message: Any) -> None:
    """Show members' regular expressions as the clients gave them."""
    for group in message.groups:
        for member in group.members:
            if member.subscribed_topic_regex is not None:
                member.subscribed_topic_regex = tenant.patterns.to_client(member.subscribed_topic_regex)


def _first_page(tenant: Tenant, request: Request, message: Any) -> bool:
    """Let a request for all topics begin with the tenant's first one: the cursor gets the prefix."""
    if message.topics or message.cursor is not None:
        return False
    message.cursor = message.struct_types["Cursor"](topic_name=LEAST_NAME, partition_index=0)
    return True


def _last_page(tenant: Tenant, response: Response, message: Any) -> None:
    """Remove a cursor that points to another tenant's topic."""
    if message.next_cursor is not None and not tenant.names.is_ours(message.next_cursor.topic_name):
        message.next_cursor = None


RULES: dict[Direction, dict[int, Rule]] = {
    Direction.REQUEST: {
        ApiKey.FETCH: _fetch,
        ApiKey.FIND_COORDINATOR: _find_coordinator_request,
        ApiKey.JOIN_GROUP: _join_group_request,
        ApiKey.SYNC_GROUP: _sync_group_request,
        ApiKey.DESCRIBE_ACLS: _describe_acls_request,
        ApiKey.CREATE_ACLS: _create_acls,
        ApiKey.DELETE_ACLS: _delete_acls_request,
        ApiKey.DESCRIBE_CONFIGS: _resources_to_broker,
        ApiKey.ALTER_CONFIGS: _alter_configs,
        ApiKey.ELECT_LEADERS: _elect_leaders,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
        ApiKey.LIST_TRANSACTIONS: _expression("transactional_id_pattern"),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _expression("subscribed_topic_regex"),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _first_page,
        ApiKey.SHARE_FETCH: _share_fetch,
        ApiKey.STREAMS_GROUP_HEARTBEAT: _streams_group_heartbeat,
    },
    Direction.RESPONSE: {
        ApiKey.METADATA: _metadata,
        ApiKey.FIND_COORDINATOR: _find_coordinator_response,
        ApiKey.JOIN_GROUP: _join_group_response,
        ApiKey.SYNC_GROUP: _sync_group_response,
        ApiKey.DESCRIBE_GROUPS: _describe_groups,
        ApiKey.DESCRIBE_ACLS: _describe_acls_response,
        ApiKey.DELETE_ACLS: _delete_acls_response,
        ApiKey.DESCRIBE_CONFIGS: _resources_to_client("results"),
        ApiKey.ALTER_CONFIGS: _resources_to_client("responses"),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _resources_to_client("responses"),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat_response,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
        ApiKey.LIST_CONFIG_RESOURCES: _resources_to_client("config_resources"),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _last_page,
    },
}
