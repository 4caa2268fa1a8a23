"""Resources of configurations: topics and groups are the tenant's; brokers, loggers and client metrics are the cluster's."""

from collections.abc import Iterable
from typing import Any

from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.protocol.error_codes import ErrorCode

KINDS = {2: Kind.TOPIC, 32: Kind.GROUP}  # of org.apache.kafka.common.config.ConfigResource.Type


def request(names: Names, resources: Iterable[Any]) -> None:
    """Translate the resources that a request names."""
    for resource in resources:
        kind = KINDS.get(resource.resource_type)
        if kind is not None:
            resource.resource_name = names.to_broker(kind, resource.resource_name)


def check_alterations(resources: Iterable[Any]) -> None:
    """Raise Refusal if one of the resources is the cluster's."""
    if any(resource.resource_type not in KINDS for resource in resources):
        raise Refusal(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a tenant alters configurations of topics and groups only"
        )


def response(names: Names, resources: Iterable[Any]) -> list[Any]:
    """Return the resources that are the tenant's or the cluster's, under the client's names."""
    kept = []
    for resource in resources:
        kind = KINDS.get(resource.resource_type)
        name = resource.resource_name if kind is None else names.to_client(kind, resource.resource_name)
        if name is not None:
            resource.resource_name = name
            kept.append(resource)
    return kept
