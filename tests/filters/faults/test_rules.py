"""A fault ready to decide: its name, its side of the broker, what it selects."""

from typing import Any

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.contract import Request
from kproxy.filters.faults.options import Fault
from kproxy.filters.faults.rules import Rule, asks_for_topics, describe, rules
from kproxy.filters.faults.topics import TopicNames
from kproxy.protocol import ApiKey
from tests.support.filtering import connection, make, part


def rule(**options: Any) -> Rule:
    return rules([Fault(**{"error": "NOT_COORDINATOR", **options})])[0]


def test_a_fault_is_named_by_its_options_and_no_name_is_used_twice() -> None:
    fault = Fault(api_name=("Produce", "Fetch"), error="NOT_COORDINATOR", times=2)
    assert describe(fault) == "api_name=Produce,Fetch times=2 error=NOT_COORDINATOR"
    names = [each.name for each in rules([fault, Fault(name="mine", disconnect=True), fault])]
    assert names == [describe(fault), "mine", f"{describe(fault)} #2"]
    assert describe(Fault(black_hole=True)) == "black_hole=true"


@pytest.mark.parametrize(
    ("options", "api", "when"),
    [
        ({}, ApiKey.PRODUCE, "before"),
        ({"when": "after"}, ApiKey.PRODUCE, "after"),
        ({}, ApiKey.FETCH, "after"),
        ({}, ApiKey.METADATA, "after"),
        ({"error": None, "delay": 1.0}, ApiKey.FETCH, "before"),
        ({"error": None, "truncate": 3}, ApiKey.PRODUCE, "after"),
        ({"error": None, "throttle": 3.0}, ApiKey.PRODUCE, "after"),
    ],
)
def test_the_side_of_the_broker(options: dict[str, Any], api: ApiKey, when: str) -> None:
    assert rule(**options).when(api) == when


@pytest.mark.parametrize(
    ("options", "client_id", "topics", "selected"),
    [
        ({}, None, [], True),
        ({"client_id": "app-*"}, "app-1", [], True),
        ({"client_id": "app-*"}, "other", [], False),
        ({"client_id": "app-*"}, None, [], False),
        ({"broker": "10.0.0.9:*"}, None, [], True),
        ({"broker": "10.0.0.8:9092"}, None, [], False),
        ({"topic": ("a", "b*")}, None, [("x", ""), ("bc", "")], True),
        ({"topic": "a"}, None, [("x", "")], False),
        ({"topic": "a"}, None, [], False),
        ({"where": "clientId == 'x' && request.acks == 0"}, "x", [], True),
        ({"where": "clientId == 'x' && request.acks != 0"}, "x", [], False),
        ({"where": "request.groupId == 'x'"}, "x", [], False),
    ],
)
def test_what_it_selects(
    options: dict[str, Any], client_id: str, topics: list[tuple[str, str]], selected: bool
) -> None:
    request = Request(connection(), 0, 9, 7, client_id, make("ProduceRequest"))
    names = TopicNames({}, BoundedSet())
    assert rule(**options).selects(request, names, topics) is selected


@pytest.mark.parametrize(
    ("version", "topics", "asks"), [(1, None, True), (1, [], False), (0, [], True), (9, ["orders"], True)]
)
def test_a_metadata_request_asks_for_all_topics_for_some_or_for_none(version: int, topics: Any, asks: bool) -> None:
    named = topics and [part("MetadataRequest", "MetadataRequestTopic", name=name) for name in topics]
    request = Request(connection(), 3, version, 7, None, make("MetadataRequest", topics=named))
    assert asks_for_topics(request) is asks


@pytest.mark.parametrize(("group", "is_call"), [("g", True), ("bill*", False), (("a", "g"), True)])
def test_requests_that_name_a_group_are_selected(group: Any, is_call: bool) -> None:
    request = Request(connection(), ApiKey.HEARTBEAT, 4, 1, "app", make("HeartbeatRequest", group_id="g"))
    assert rule(group=group).selects(request, TopicNames({}, BoundedSet()), ()) is is_call
