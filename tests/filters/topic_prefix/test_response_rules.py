"""What is done with responses beyond names; the rules that only call another module are tested with it and in test_filter.py."""

from typing import Any

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.contract import RequestFacts, Response
from kproxy.filters.topic_prefix import response_rules
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.patterns import Patterns
from kproxy.filters.topic_prefix.tenant import Tenant
from kproxy.filters.topic_prefix.translation import NotOurs
from kproxy.protocol import message
from tests.support.filtering import connection, make, part

TENANT = Tenant(Names("a."), Patterns("a."), BoundedSet(), True, 1_000)
ID, OTHER = "A" * 21 + "g", "A" * 21 + "w"


def ruled(name: str, version: int, value: Any, request: Any = None) -> object:
    key = message(name).api_key
    assert key is not None
    return response_rules.RULES[key](
        TENANT, Response(connection(), RequestFacts(key, version, 7, None, request), value), value
    )


@pytest.mark.parametrize(("version", "name"), [(11, ""), (12, None)])
def test_a_topic_asked_for_by_the_id_of_another_tenants_does_not_exist(version: int, name: str | None) -> None:
    asked = make("MetadataRequest", topics=[part("MetadataRequest", "MetadataRequestTopic", topic_id=ID, name=None)])
    partition = part("MetadataResponse", "MetadataResponsePartition", leader_id=1)
    topics = [
        part(
            "MetadataResponse",
            "MetadataResponseTopic",
            name="b.x",
            topic_id=each,
            partitions=[partition],
            is_internal=True,
        )
        for each in (ID, OTHER)
    ]
    ruled("MetadataResponse", version, make("MetadataResponse", topics=topics), asked)
    unknown = part("MetadataResponse", "MetadataResponseTopic", error_code=100, name=name, topic_id=ID)
    assert topics[0] == unknown  # KafkaApis answers so for an id that no topic has
    assert topics[1].name == "b.x"  # not asked for: it will be left out


def test_acls_whose_request_is_not_known_are_not_shown() -> None:
    for name in ("DescribeAclsResponse", "DeleteAclsResponse"):
        with pytest.raises(NotOurs):
            ruled(name, 2, make(name))


def test_what_brokers_say_of_an_expression_is_said_of_the_clients() -> None:
    confined = r"a\.(?:x[)"
    value = make("ConsumerGroupHeartbeatResponse", error_message=f"`{confined}` is not valid")
    request = make("ConsumerGroupHeartbeatRequest", subscribed_topic_regex=confined)
    ruled("ConsumerGroupHeartbeatResponse", 1, value, request)
    assert value.error_message == "`x[` is not valid"


def test_expressions_of_members_are_shown_as_given() -> None:
    members = [
        part("ConsumerGroupDescribeResponse", "Member", subscribed_topic_regex=each)
        for each in (r"a\.(?:x.*)", ".*", None)
    ]
    group = part("ConsumerGroupDescribeResponse", "DescribedGroup", members=members)
    ruled("ConsumerGroupDescribeResponse", 1, make("ConsumerGroupDescribeResponse", groups=[group]))
    assert [each.subscribed_topic_regex for each in members] == ["x.*", None, None]
