"""Breakpoints: what their conditions match, within which bounds."""

from typing import Any

import pytest

from kproxy.filters.breakpoints.breakpoint import (
    AT_ONCE,
    AT_ONCE_S,
    MOST_BREAKPOINTS,
    MOST_STRUCTS,
    ActiveBreakpoint,
    Breakpoint,
    BreakpointMistake,
    StoppedSubject,
    activate,
    stoppable_apis,
)
from kproxy.filters.breakpoints.condition_steps import MATCH_STEPS, ConditionSteps, count_items
from kproxy.filters.contract import Request
from kproxy.protocol import ApiKey
from kproxy.protocol.facts import facts
from tests.support.filtering import connection, make, part

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def asked(*topics: str, client_id: str = "app") -> Request:
    data = [part("ProduceRequest", "TopicProduceData", name=name) for name in topics]
    return Request(connection(), ApiKey.PRODUCE, 9, 7, client_id, make("ProduceRequest", acks=-1, topic_data=data))


def answered(code: int) -> Any:
    partition = part("ProduceResponse", "PartitionProduceResponse", error_code=code)
    topic = part("ProduceResponse", "TopicProduceResponse", name="orders", partition_responses=[partition])
    return make("ProduceResponse", responses=[topic])


def no_time() -> float:
    return 0.0


class Clock:
    """Goes on by the same time whenever it is asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.at = 0.0

    def __call__(self) -> float:
        self.at += self.seconds
        return self.at


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('apiName == "Produce"', {0}),
        ("apiKey in [0, 1]", {0, 1}),
        ('apiName == "Produce" && clientId == "x"', {0}),
        ('clientId == "x" && apiName == "Produce"', {0}),
        ("false", set()),
    ],
)
def test_only_apis_that_a_condition_can_hold_for_are_looked_at(condition: str, expected: set[int]) -> None:
    met = ActiveBreakpoint(Breakpoint(condition))
    assert {key for key in facts().apis if met.may_match(key, 0)} == expected


def test_what_depends_on_the_message_may_meet_every_api() -> None:
    met = ActiveBreakpoint(Breakpoint('"orders" in topics'))
    assert all(met.may_match(key, 0) for key in facts().apis)
    version_two = ActiveBreakpoint(Breakpoint('apiVersion == 2 && "orders" in topics'))
    assert [version for version in range(6) if version_two.may_match(0, version)] == [2]


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ('"orders" in topics', True),
        ('"other" in topics', False),
        ('topic == "orders"', True),
        ('topic.startsWith("pay")', True),
        ('topic == "other"', False),
        ('request.acks == -1 && clientId == "app"', True),
        ("principal == 'alice'", False),
        ("request.noSuchField == 1", False),
    ],
)
def test_what_a_condition_meets_of_a_request(condition: str, matches: bool) -> None:
    assert (
        ActiveBreakpoint(Breakpoint(condition)).matches(StoppedSubject(asked("orders", "payments"), {}), no_time)
        is matches
    )


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ('errorNames == ["NOT_LEADER_OR_FOLLOWER"]', True),
        (
            "errors.exists(e, e.code == 6 && e.name == 'NOT_LEADER_OR_FOLLOWER'"
            " && e.path == 'responses[0].partitionResponses[0].errorCode')",
            True,
        ),
        ("response.responses[0].partitionResponses[0].errorCode == 6", True),
        ('"orders" in topics && size(errors) > 0', True),
        ("size(errors) == 0", False),
    ],
)
def test_what_a_condition_meets_of_a_response_and_its_request(condition: str, matches: bool) -> None:
    met = ActiveBreakpoint(Breakpoint(condition, "response"))
    assert met.matches(StoppedSubject(asked("orders"), {}, answered(6)), no_time) is matches


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("clientId ==", "breakpoint 2: condition 'clientId ==' is wrong at column"),
        ("client == nobody", "nothing is called 'nobody'"),
        ('apiName == "SaslAuthenticate"', "SaslAuthenticate is part of a login, and cannot be stopped"),
        ('apiName == "CreateDelegationToken"', "CreateDelegationToken carries credentials"),
        ('apiName == "produce"', "holds for no API"),
        ('"Produce"', "must give true or false"),
        ("api", "must give true or false"),
        ("errors == []", "nothing is called 'errors'"),
        ("x" * 5_000, "at most 4,000 characters"),
        (
            f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, a == b)))",
            "too many loops in each other",
        ),
    ],
)
def test_conditions_that_cannot_be_used_are_refused_with_a_reason(condition: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^breakpoint 2: ") as refused:
        activate([Breakpoint('apiName == "Fetch"'), Breakpoint(condition)])
    assert words in str(refused.value)


def test_a_condition_that_is_wrong_has_its_place() -> None:
    with pytest.raises(BreakpointMistake) as refused:
        activate([Breakpoint("true"), Breakpoint('apiName == "Fetch" && client == nobody')])
    assert (refused.value.number, refused.value.wrong.column, refused.value.wrong.length) == (2, 33, 6)


def test_the_apis_that_it_may_stop_are_named() -> None:
    assert stoppable_apis(Breakpoint("apiKey < 3 && clientId == 'x'")) == ["Produce", "Fetch", "ListOffsets"]
    every = stoppable_apis(Breakpoint('principal != "alice"', "response"))
    assert len(every) > 60
    assert not {"SaslHandshake", "SaslAuthenticate", "CreateDelegationToken", "AlterUserScramCredentials"} & set(every)
    with pytest.raises(ValueError, match="part of a login"):
        stoppable_apis(Breakpoint('apiName == "SaslAuthenticate"'))


def test_the_number_of_breakpoints_is_bounded() -> None:
    with pytest.raises(ValueError, match="at most 50"):
        activate([Breakpoint("true")] * (MOST_BREAKPOINTS + 1))


@pytest.mark.parametrize(
    "condition",
    [
        "topics.all(a, topics.exists(b, b == a))",
        "topics.map(a, topics) == []",
        'topic == "a" && request.topicData.all(a, request.topicData.exists(b, b.name == a.name))',
    ],
)
def test_a_condition_of_too_many_steps_is_not_asked_and_given_up(condition: str) -> None:
    """In CEL's library the second takes a minute."""
    met = ActiveBreakpoint(Breakpoint(condition))
    assert met.matches(StoppedSubject(asked("a", "b"), {}), no_time) is (condition != "topics.map(a, topics) == []")
    assert met.given_up is None
    assert not met.matches(StoppedSubject(asked(*map(str, range(1_000))), {}), no_time)
    assert met.given_up is not None
    assert "it takes too long to go through the 1,000 items of a message" in met.given_up
    assert met.cannot_match(asked("a"))


def test_a_body_of_too_many_elements_is_not_made_for_a_condition() -> None:
    large = StoppedSubject(asked(*map(str, range(MOST_STRUCTS + 1))), {})
    met, other = ActiveBreakpoint(Breakpoint("request.acks == -1")), ActiveBreakpoint(Breakpoint('"2500" in topics'))
    assert not met.matches(large, no_time)
    assert "more than 2,500 elements" in str(met.given_up)
    assert other.matches(large, no_time)
    assert not other.matches(StoppedSubject(asked(*map(str, range(30_000))), {}), no_time)
    assert "go through the 30,000 items of a message" in str(other.given_up)


def test_a_condition_that_took_too_long_twice_is_given_up() -> None:
    met = ActiveBreakpoint(Breakpoint('"orders" in topics'))
    subject = StoppedSubject(asked("orders"), {})
    assert met.matches(subject, Clock(AT_ONCE_S))
    assert met.matches(subject, Clock(AT_ONCE_S + 0.01)), "what it said holds all the same"
    assert met.given_up is None
    assert met.matches(subject, Clock(0.08))
    assert "as it took 80 ms for one message, and more than 50 ms before" in str(met.given_up)
    assert "Begin it with what is quick" in str(met.given_up)


def test_the_time_of_all_topics_counts_and_each_part_of_them_has_its_own() -> None:
    met, slow = ActiveBreakpoint(Breakpoint('topic == "none"')), ActiveBreakpoint(Breakpoint('topic == "none"'))
    subject = StoppedSubject(asked(*map(str, range(4 * AT_ONCE))), {})
    for _ in range(3):
        assert not met.matches(subject, Clock(0.9 * AT_ONCE_S / AT_ONCE))
        assert not slow.matches(subject, Clock(1.1 * AT_ONCE_S / AT_ONCE))
    assert met.given_up is None
    assert slow.given_up is not None


@pytest.mark.parametrize(
    ("condition", "cannot_match"),
    [
        ('clientId == "other"', True),
        ('"orders" in topics && clientId == "other"', True),
        ('principal == "alice" && topic == "orders"', True),
        ('client.startsWith("10.9.") || software == "librdkafka"', True),
        ('clientId == "app"', False),
        ('"none" in topics', False),
        ('clientId == "other" || "none" in topics', False),
    ],
)
def test_the_header_and_the_connection_may_say_that_it_cannot_hold(condition: str, cannot_match: bool) -> None:
    request = asked("orders")
    request.message = None  # type: ignore[assignment]
    assert ActiveBreakpoint(Breakpoint(condition)).cannot_match(request) is cannot_match


@pytest.mark.parametrize(
    ("condition", "steps"),
    [
        ('apiName == "Produce" && clientId in ["a", "b"]', 1),
        ('"orders" in topics', 100),
        ('topics.exists(t, t.startsWith("a"))', 100),
        ("topics.all(a, topics.exists(b, b == a))", 2 * 100**2),
        ("topics.all( a , a in topics)", 100**2),
        ("topics.all(a, topics == groups)", 100**2),
        ("size(topics.filter(t, t == 'x')) > 0", 100**2),
        ("topics.map(a, topics) != []", 100**3),
        ("topics.all(a, true) && groups.all(a, true)", 2 * 100),
        ("topics.exists(t, t.matches('^a'))", 100 * MATCH_STEPS),
        ("request.topics.exists(t, t.partitions.exists(p, p.index == 0))", 2 * 100),
        ("request.topics.exists(t, t.partitions.exists(p, t.partitions.exists(q, q == p)))", 3 * 100**2),
        ("request.topics.exists(t, request.topics[0].partitions.exists(p, p.index == t.index))", 2 * 100**2),
        ("request.topics.exists(t, [1].exists(p, p == t.index))", 2 * 100**2),
        ('"topics.all(a, topics)" == clientId // topics.all(', 1),
        ("'it\\'s topics.all(a, topics)' == clientId", 1),
    ],
)
def test_steps_for_a_hundred_items(condition: str, steps: int) -> None:
    assert ConditionSteps(condition).most(100) == steps


def test_items_that_are_written_in_the_condition_count_as_well() -> None:
    ten = "[1,2,3,4,5,6,7,8,9,0]"
    assert ConditionSteps(f"{ten}.all(a, {ten}.all(b, {ten}.all(c, a == b)))").most(0) > 10**3


def test_items_are_those_of_all_lists() -> None:
    assert count_items(["a", "b"]) == 2
    assert count_items({"topics": [{"partitions": [1, 2, 3]}, {"partitions": []}], "name": "abc"}) == 5
    assert count_items("abc") == 0
