"""Rules for responses beyond the plan of their names: one function for each API, and the table RULES.

A rule changes the decoded response in place, before the plan is applied. It returns whether it changed the response (None:
perhaps).
"""

from collections.abc import Callable, Container, Iterable
from typing import Any

from kproxy.filters.contract import RequestFacts, Response
from kproxy.filters.topic_prefix import acls, coordinators, cursors, offered, resources, subscriptions
from kproxy.filters.topic_prefix.tenant import Tenant, kept_for
from kproxy.filters.topic_prefix.translation import NotOurs
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode

Rule = Callable[[Tenant, Response, Any], bool | None]
NAME_IS_NULLABLE = 12  # version of Metadata from which a topic may have no name


def api_versions(tenant: Tenant, response: Response, message: Any) -> bool:
    """Do not offer what is refused."""
    return offered.narrow(message, cluster=tenant.cluster_administration)


def metadata(tenant: Tenant, response: Response, message: Any) -> bool:
    """Report a topic of another tenant, asked for by its id, as unknown."""
    requested = _topics_by_id(response.request)
    topics_found = [
        each
        for each in message.topics
        if each.topic_id in requested and each.name and not tenant.names.is_ours(each.name)
    ]
    for topic in topics_found:
        _make_unknown(topic, response.request.api_version)
    return bool(topics_found)


def _topics_by_id(request: RequestFacts) -> Container[str]:
    topics: Iterable[Any] = (getattr(request.message, "topics", None) or ()) if request.message else ()
    return {topic.topic_id for topic in topics if topic.name is None}


def _make_unknown(topic: Any, version: int) -> None:
    """Make a topic look as brokers report an unknown id (KafkaApis.handleTopicMetadataRequest)."""
    blank = type(topic)(error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic.topic_id)
    for field in topic.fields:
        setattr(topic, field.attribute, getattr(blank, field.attribute))
    topic.name = None if version >= NAME_IS_NULLABLE else ""
    topic.unknown_tags = ()


def find_coordinator(tenant: Tenant, response: Response, message: Any) -> bool:
    """Translate the keys by their type."""
    if not message.coordinators:
        return False
    coordinators.response(tenant.names, message, getattr(response.request.message, "key_type", -1))
    return True


def join_group(tenant: Tenant, response: Response, message: Any) -> None:
    """Translate the topics in the members' metadata."""
    subscriptions.join_response(tenant.names, message, getattr(response.request.message, "protocol_type", None))


def sync_group(tenant: Tenant, response: Response, message: Any) -> None:
    """Translate the topics in the assignment."""
    subscriptions.sync_response(tenant.names, message, getattr(response.request.message, "protocol_type", None))


def describe_groups(tenant: Tenant, response: Response, message: Any) -> None:
    """Translate the topics in the metadata and assignments of members."""
    subscriptions.describe_response(tenant.names, message)


def describe_configs(tenant: Tenant, response: Response, message: Any) -> None:
    """Translate the resources by their type."""
    message.results = resources.response(tenant.names, message.results)


def alter_configs(tenant: Tenant, response: Response, message: Any) -> None:
    """Translate the resources by their type."""
    message.responses = resources.response(tenant.names, message.responses)


def list_config_resources(tenant: Tenant, response: Response, message: Any) -> None:
    """Translate the resources by their type."""
    message.config_resources = resources.response(tenant.names, message.config_resources)


def describe_acls(tenant: Tenant, response: Response, message: Any) -> None:
    """Keep what was asked for among the tenant's patterns. Raises NotOurs if that is not known."""
    sought = kept_for(response.connection, response.request.correlation_id)
    if not isinstance(sought, acls.Sought):
        raise NotOurs("the request of these ACLs is not known")
    acls.describe_response(tenant.names, message, sought, cluster=tenant.cluster_administration)


def delete_acls(tenant: Tenant, response: Response, message: Any) -> None:
    """A result for each filter of the client. Raises NotOurs where these are not known."""
    groups = kept_for(response.connection, response.request.correlation_id)
    if not isinstance(groups, list):
        raise NotOurs("the request of these ACLs is not known")
    acls.delete_response(tenant.names, message, groups, cluster=tenant.cluster_administration)


def describe_topic_partitions(tenant: Tenant, response: Response, message: Any) -> None:
    """The cursor."""
    cursors.response(tenant.names, message)


def consumer_group_heartbeat(tenant: Tenant, response: Response, message: Any) -> bool:
    """Let the error message about a regular expression show the client's own expression."""
    confined = getattr(response.request.message, "subscribed_topic_regex", None)
    own = tenant.patterns.to_client(confined) if confined else None
    if not (own and message.error_message):
        return False
    message.error_message = message.error_message.replace(confined, own)
    return True


def consumer_group_describe(tenant: Tenant, response: Response, message: Any) -> None:
    """Show members' regular expressions as the clients gave them."""
    for group in message.groups:
        for member in group.members:
            if member.subscribed_topic_regex is not None:
                member.subscribed_topic_regex = tenant.patterns.to_client(member.subscribed_topic_regex)


RULES: dict[int, Rule] = {
    ApiKey.METADATA: metadata,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}
