"""What is done with requests beyond names; the rules that only call another module are tested with it and in test_filter.py."""

from typing import Any

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.contract import Request
from kproxy.filters.topic_prefix import request_rules
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.patterns import Patterns
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.filters.topic_prefix.tenant import Tenant
from kproxy.protocol import ApiKey, message
from tests.support.filtering import connection, make, part

TENANT = Tenant(Names("a."), Patterns("a."), BoundedSet(), False, 1_000)


def ruled(name: str, version: int, value: Any) -> object:
    key = message(name).api_key
    assert key is not None
    return request_rules.RULES[key](TENANT, Request(connection(), key, version, 7, "app", value), value)


def test_leaders_of_all_partitions_are_not_elected() -> None:
    with pytest.raises(Refusal, match="that it names"):
        ruled("ElectLeadersRequest", 2, make("ElectLeadersRequest", topic_partitions=None))
    assert ruled("ElectLeadersRequest", 2, make("ElectLeadersRequest", topic_partitions=[])) is False


def test_configurations_of_brokers_are_altered_where_that_is_allowed() -> None:
    resource = part("AlterConfigsRequest", "AlterConfigsResource", resource_type=4, resource_name="1")
    value = make("AlterConfigsRequest", resources=[resource])
    with pytest.raises(Refusal):
        ruled("AlterConfigsRequest", 1, value)
    allowed = Tenant(TENANT.names, TENANT.patterns, TENANT.ids, True, 1_000)
    request_rules.alter_configs(allowed, Request(connection(), 33, 1, 7, "app", value), value)
    assert resource.resource_name == "1"


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("ListTransactionsRequest", "transactional_id_pattern"),
        ("ConsumerGroupHeartbeatRequest", "subscribed_topic_regex"),
    ],
)
def test_patterns_are_confined_and_none_stays_none(name: str, attribute: str) -> None:
    for given, sent, changed in (("x.*", r"a\.(?:x.*)", True), (None, None, False), ("", "", False)):
        value = make(name, **{attribute: given})
        assert ruled(name, 1, value) is changed
        assert getattr(value, attribute) == sent


def test_source_topics_of_streams_are_confined() -> None:
    part_of_topology = part("StreamsGroupHeartbeatRequest", "Subtopology", source_topic_regex=["x.*"])
    topology = part("StreamsGroupHeartbeatRequest", "Topology", subtopologies=[part_of_topology])
    ruled("StreamsGroupHeartbeatRequest", 0, make("StreamsGroupHeartbeatRequest", topology=topology))
    assert part_of_topology.source_topic_regex == [r"a\.(?:x.*)"]
    ruled("StreamsGroupHeartbeatRequest", 0, make("StreamsGroupHeartbeatRequest", topology=None))


def test_every_rule_is_of_an_api_that_is_translated() -> None:
    assert ApiKey.PRODUCE not in request_rules.RULES  # its names and ids are in its plan
    assert all(rule.__doc__ for rule in request_rules.RULES.values())
