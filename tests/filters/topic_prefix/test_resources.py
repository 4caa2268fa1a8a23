"""Resources of configurations, by their type (ConfigResource.Type: 2 topic, 4 broker, 16 client metrics, 32 group)."""

import pytest

from kproxy.filters.topic_prefix import resources
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.refusal import Refusal
from tests.support.filtering import part

NAMES = Names("a.")


def test_topics_and_groups_are_the_tenants() -> None:
    asked = [
        part("DescribeConfigsRequest", "DescribeConfigsResource", resource_type=kind, resource_name="x")
        for kind in (2, 4, 8, 16, 32)
    ]
    resources.request(NAMES, asked)
    assert [each.resource_name for each in asked] == ["a.x", "x", "x", "x", "a.x"]


def test_what_is_another_tenants_is_left_out() -> None:
    found = [
        part("ListConfigResourcesResponse", "ConfigResource", resource_type=kind, resource_name=name)
        for kind, name in ((2, "a.x"), (2, "b.x"), (4, "1"), (32, "b.g"), (32, "a.g"), (16, "b.metrics"))
    ]
    kept = [(each.resource_type, each.resource_name) for each in resources.response(NAMES, found)]
    assert kept == [(2, "x"), (4, "1"), (32, "g"), (16, "b.metrics")]


def test_altering_the_clusters_can_be_refused() -> None:
    own = part("AlterConfigsRequest", "AlterConfigsResource", resource_type=2)
    resources.check_alterations([own])
    with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
        resources.check_alterations([own, part("AlterConfigsRequest", "AlterConfigsResource", resource_type=4)])
