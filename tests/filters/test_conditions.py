"""Conditions over requests."""

import traceback
from typing import Any

import pytest

from kproxy.filters.conditions import MAKERS, Condition, Subject
from kproxy.filters.contract import Request
from kproxy.protocol.vocabulary import Scope, fields_in
from tests.support.filtering import connection
from tests.support.messages import make


def subject(names: dict[str, str] | None = None) -> Subject:
    topics = [{"name": name, "num_partitions": 3} for name in ("a", "b-1")]
    at = connection()
    at.principal, at.software = "alice", ("librdkafka", "2.5")
    at.groups, at.claims = frozenset({"ops"}), {"tenant": "a", "roles": ["x", "y"]}
    return Subject(Request(at, 19, 7, 1, "app", make("CreateTopicsRequest", topics=topics)), names or {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('apiName == "CreateTopics" && apiKey == 19 && apiVersion == 7', True),
        ('principal == "alice" && clientId == "app" && software == "librdkafka" && softwareVersion == "2.5"', True),
        ('principal != "alice"', False),
        ('"ops" in principalGroups && !("dev" in principalGroups)', True),
        ('has(claims.tenant) && claims.tenant == "a" && "y" in claims.roles', True),
        ("has(claims.other)", False),
        (
            'address == "10.0.0.5" && client == "10.0.0.5:51234" && listener.endsWith(":9092") && cluster == "default"',
            True,
        ),
        ("mechanism == null", True),
        ('topics.exists(t, t.startsWith("b-")) && size(groups) == 0 && size(transactionalIds) == 0', True),
        ('resources.exists(r, r.type == "topic" && r.name == "a")', True),
        ("request.topics.exists(t, t.numPartitions > 2)", True),
        ("request.noSuchField == 1", False),
        ("request.topics[5].name == 'a'", False),
    ],
)
def test_what_holds(text: str, expected: bool) -> None:
    assert Condition(text).holds(subject()) is expected


def test_of_one_topic() -> None:
    condition = Condition('topic.startsWith("b")')
    assert condition.is_for_each_topic
    assert [condition.holds(subject(), topic) for topic in ("a", "b-1")] == [False, True]


@pytest.mark.parametrize("text", ["1 + 1", "principal + 1 == 2"])
def test_a_condition_that_cannot_be_answered_is_an_error(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        Condition(text).holds(subject())


def test_topics_by_id_have_their_names() -> None:
    topic: Any = {"name": None, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    request = Request(connection(), 20, 6, 1, "app", make("DeleteTopicsRequest", topics=[topic]))
    assert Subject(request, {"AAAAAAAAAAAAAAAAAAAAAQ": "x"})["topics"] == ["x"]
    assert Subject(request, {})["topics"] == [None]


def test_every_name_can_be_asked_for() -> None:
    found = subject()
    names = fields_in(Scope.REQUEST).keys() - {"topic"}
    assert names == MAKERS.keys()
    assert {name for name in names if found[name] is not None} >= {"apiName", "broker", "request", "resources"}


def test_the_former_name_of_a_field_goes_on_to_work() -> None:
    condition = Condition('api == "CreateTopics" && apiKey == 19')
    assert condition.expression.names == ["apiKey", "apiName"]
    assert condition.holds(subject())


def test_values_of_different_types_are_refused() -> None:
    with pytest.raises(ValueError, match='apiKey is a number and "19" is a text, which cannot be compared; write 19'):
        Condition('apiKey == "19"')


@pytest.mark.parametrize(
    "text", ["duration(clientId) > duration('1s')", "'a'.matches(clientId)", "clientId + 1 == 2", "string(clientId)"]
)
def test_no_value_of_the_request_is_in_a_message(text: str) -> None:
    """It may be a password: a setting, for instance."""
    asking = subject()
    asking["clientId"] = "canary("
    with pytest.raises(ValueError) as caught:
        Condition(text).holds(asking)
    assert "canary" not in "".join(traceback.format_exception(caught.value))
    assert Condition(text).holds(asking, unclear=False) is False
