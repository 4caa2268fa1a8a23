"""Rules for requests beyond the plan of their names: one function for each API, and the table RULES.

A rule changes the decoded request in place, before the plan is applied. It returns whether it changed the request (None:
perhaps), and raises Refusal for a request that must not be forwarded, before it has changed any name.
"""

from collections.abc import Callable
from typing import Any

from kproxy.filters.contract import Request
from kproxy.filters.fetch_sizes import limit_share
from kproxy.filters.topic_prefix import acls, coordinators, cursors, fetching, resources, subscriptions
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.filters.topic_prefix.tenant import Tenant, keep
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode

Rule = Callable[[Tenant, Request, Any], bool | None]


def fetch(tenant: Tenant, request: Request, message: Any) -> bool:
    """Fetch without a session, and without asking for too many bytes."""
    return fetching.request(message, request.api_version, tenant.most_fetch_bytes)


def share_fetch(tenant: Tenant, request: Request, message: Any) -> bool:
    """Limit the bytes asked for. Share sessions belong to a member of a group (KIP-932), and so to its tenant."""
    return limit_share(message, tenant.most_fetch_bytes)


def find_coordinator(tenant: Tenant, request: Request, message: Any) -> None:
    """Translate the keys by their type."""
    coordinators.request(tenant.names, message, request.api_version)


def join_group(tenant: Tenant, request: Request, message: Any) -> None:
    """Translate the topics in the members' metadata."""
    subscriptions.join_request(tenant.names, message)


def sync_group(tenant: Tenant, request: Request, message: Any) -> None:
    """Translate the topics in the assignments."""
    subscriptions.sync_request(tenant.names, message)


def describe_configs(tenant: Tenant, request: Request, message: Any) -> None:
    """Translate the resources by their type."""
    resources.request(tenant.names, message.resources)


def alter_configs(tenant: Tenant, request: Request, message: Any) -> None:
    """Translate the resources by their type; refuse the cluster's unless they are allowed."""
    if not tenant.cluster_administration:
        resources.check_alterations(message.resources)
    resources.request(tenant.names, message.resources)


def create_acls(tenant: Tenant, request: Request, message: Any) -> None:
    """Translate the patterns of the ACLs."""
    acls.create_request(tenant.names, message, cluster=tenant.cluster_administration)


def describe_acls(tenant: Tenant, request: Request, message: Any) -> None:
    """Ask for all patterns; the response is filtered by what the client asked for."""
    keep(request.connection, request.correlation_id, acls.describe_request(message))


def delete_acls(tenant: Tenant, request: Request, message: Any) -> None:
    """Confine the filters to the tenant."""
    groups = acls.delete_request(tenant.names, message, cluster=tenant.cluster_administration)
    keep(request.connection, request.correlation_id, groups)


def elect_leaders(tenant: Tenant, request: Request, message: Any) -> bool:
    """Accept named partitions only: null would be the partitions of all tenants."""
    if message.topic_partitions is None:
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a tenant elects leaders of partitions that it names")
    return False


def list_transactions(tenant: Tenant, request: Request, message: Any) -> bool:
    """Confine the pattern of transactional ids (KIP-1152)."""
    if message.transactional_id_pattern:
        message.transactional_id_pattern = tenant.patterns.to_broker(message.transactional_id_pattern)
    return bool(message.transactional_id_pattern)


def describe_topic_partitions(tenant: Tenant, request: Request, message: Any) -> bool:
    """Let a listing of all topics begin with the tenant's."""
    return cursors.request(message)


def consumer_group_heartbeat(tenant: Tenant, request: Request, message: Any) -> bool:
    """Confine the regular expression that is subscribed to (KIP-848)."""
    if message.subscribed_topic_regex:
        message.subscribed_topic_regex = tenant.patterns.to_broker(message.subscribed_topic_regex)
    return bool(message.subscribed_topic_regex)


def streams_group_heartbeat(tenant: Tenant, request: Request, message: Any) -> None:
    """Confine the regular expressions of source topics (KIP-1071)."""
    for part in message.topology.subtopologies if message.topology else ():
        part.source_topic_regex = [tenant.patterns.to_broker(each) for each in part.source_topic_regex]


RULES: dict[int, Rule] = {
    ApiKey.FETCH: fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.SHARE_FETCH: share_fetch,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat,
}
