"""Checks of tenants on one Kafka cluster (kproxy.filters.topic_prefix): no prefix may be the beginning of another. No I/O.

Two virtual clusters are known to be in front of one Kafka cluster where they share a bootstrap address.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kproxy.config.structs import Config
from kproxy.filters.options import quoted

FILTER = "topic_prefix"
Problem = tuple[str, str]


class Tenant(NamedTuple):
    """One use of the filter topic_prefix."""

    path: str  # of its prefix in the configuration
    prefix: str
    bootstrap: frozenset[str]


def check_tenants(config: Config) -> Iterator[Problem]:
    """Report a prefix that is the beginning of another tenant's, or the other way round."""
    tenants: list[Tenant] = []
    for tenant in _tenants(config):
        for other in tenants:
            if tenant.bootstrap & other.bootstrap and _overlap(tenant.prefix, other.prefix):
                yield (
                    tenant.path,
                    f"{quoted(tenant.prefix)} and {quoted(other.prefix)}, at {other.path}, are in front of the same brokers, and"
                    " one begins with the other: the names of one tenant would be names of the other",
                )
        tenants.append(tenant)


def _tenants(config: Config) -> Iterator[Tenant]:
    for number, cluster in enumerate(config.clusters):
        for at, use in enumerate(cluster.filters):
            prefix = use.with_.get("prefix")
            if use.use == FILTER and isinstance(prefix, str):
                path = f"clusters[{number}].filters[{at}].with.prefix"
                yield Tenant(path, prefix, frozenset(cluster.bootstrap))


def _overlap(one: str, other: str) -> bool:
    """Return whether one prefix begins with the other. "." equals "_": Kafka's metrics do not tell them apart."""
    if one == other:
        return False  # a second way in for the same tenant
    first, second = one.replace(".", "_"), other.replace(".", "_")
    return first.startswith(second) or second.startswith(first)
