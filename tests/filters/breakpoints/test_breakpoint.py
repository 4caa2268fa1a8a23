"""Breakpoint: which APIs a condition can meet, what it meets, and which conditions are refused."""

from typing import Any

import pytest

from kproxy.filters.breakpoints.breakpoint import (
    MOST_BREAKPOINTS,
    Breakpoint,
    BreakpointMistake,
    Met,
    StoppedSubject,
    in_use,
    stoppable_apis,
)
from kproxy.filters.contract import Request
from kproxy.protocol import ApiKey
from kproxy.protocol.facts import facts
from tests.support.filtering import connection, make, part


def asked(*topics: str, client_id: str = "app") -> Request:
    data = [part("ProduceRequest", "TopicProduceData", name=name) for name in topics]
    return Request(connection(), ApiKey.PRODUCE, 9, 7, client_id, make("ProduceRequest", acks=-1, topic_data=data))


def answered(code: int) -> Any:
    partition = part("ProduceResponse", "PartitionProduceResponse", error_code=code)
    topic = part("ProduceResponse", "TopicProduceResponse", name="orders", partition_responses=[partition])
    return make("ProduceResponse", responses=[topic])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('api == "Produce"', {0}),
        ("apiKey in [0, 1]", {0, 1}),
        ('api == "Produce" && clientId == "x"', {0}),
        ('clientId == "x" && api == "Produce"', {0}),
        ("false", set()),
    ],
)
def test_only_apis_that_a_condition_can_hold_for_are_looked_at(condition: str, expected: set[int]) -> None:
    met = Met(Breakpoint(condition))
    assert {key for key in facts().apis if met.may_meet(key, 0)} == expected


def test_what_depends_on_the_message_may_meet_every_api() -> None:
    met = Met(Breakpoint('"orders" in topics'))
    assert all(met.may_meet(key, 0) for key in facts().apis)
    version_two = Met(Breakpoint('apiVersion == 2 && "orders" in topics'))
    assert [version for version in range(6) if version_two.may_meet(0, version)] == [2]


@pytest.mark.parametrize(
    ("condition", "is_met"),
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
def test_what_a_condition_meets_of_a_request(condition: str, is_met: bool) -> None:
    assert Met(Breakpoint(condition)).meets(StoppedSubject(asked("orders", "payments"), {})) is is_met


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ('errors == ["NOT_LEADER_OR_FOLLOWER"]', True),
        ("response.responses[0].partitionResponses[0].errorCode == 6", True),
        ('"orders" in topics && size(errors) > 0', True),
        ("size(errors) == 0", False),
    ],
)
def test_what_a_condition_meets_of_a_response_and_its_request(condition: str, is_met: bool) -> None:
    met = Met(Breakpoint(condition, "response"))
    assert met.meets(StoppedSubject(asked("orders"), {}, answered(6))) is is_met


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("clientId ==", "breakpoint 2: condition 'clientId ==' is wrong at column"),
        ("client == nobody", "nothing is called 'nobody'"),
        ('api == "SaslAuthenticate"', "SaslAuthenticate is part of a login, and cannot be stopped"),
        ('api == "CreateDelegationToken"', "CreateDelegationToken carries credentials"),
        ('api == "produce"', "holds for no API"),
        ('"Produce"', "must give true or false"),
        ("api", "must give true or false"),
        ("errors == []", "nothing is called 'errors'"),
        ("x" * 5_000, "at most 4,000 characters"),
    ],
)
def test_conditions_that_cannot_be_used_are_refused_with_a_reason(condition: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^breakpoint 2: ") as refused:
        in_use([Breakpoint('api == "Fetch"'), Breakpoint(condition)])
    assert words in str(refused.value)


def test_a_condition_that_is_wrong_has_its_place() -> None:
    with pytest.raises(BreakpointMistake) as refused:
        in_use([Breakpoint("true"), Breakpoint('api == "Fetch" && client == nobody')])
    assert (refused.value.number, refused.value.wrong.column, refused.value.wrong.length) == (2, 29, 6)


def test_the_apis_that_it_may_stop_are_named() -> None:
    assert stoppable_apis(Breakpoint("apiKey < 3 && clientId == 'x'")) == ["Produce", "Fetch", "ListOffsets"]
    every = stoppable_apis(Breakpoint('principal != "alice"', "response"))
    assert len(every) > 60
    assert not {"SaslHandshake", "SaslAuthenticate", "CreateDelegationToken", "AlterUserScramCredentials"} & set(every)
    with pytest.raises(ValueError, match="part of a login"):
        stoppable_apis(Breakpoint('api == "SaslAuthenticate"'))


def test_the_number_of_breakpoints_is_bounded() -> None:
    with pytest.raises(ValueError, match="at most 50"):
        in_use([Breakpoint("true")] * (MOST_BREAKPOINTS + 1))
