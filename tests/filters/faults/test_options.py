"""A fault: options, scenarios, words of a command line, schedules; its name, its side of the broker, what it selects."""

from collections.abc import Iterable
from typing import Any, get_args

import pytest

from kproxy.errors import UsageError
from kproxy.filters.contract import Request
from kproxy.filters.faults import FaultInjection
from kproxy.filters.faults.options import SCENARIOS, Fault, FaultsOptions, parse_fault
from kproxy.filters.faults.rules import Rule, Schedule, describe, requests_topics, rules
from kproxy.options import OptionMistakes, read_options
from kproxy.protocol import ApiKey
from tests.support.filtering import connection
from tests.support.messages import make


def mistakes(**fault: Any) -> list[tuple[str, str]]:
    with pytest.raises(OptionMistakes) as raised:
        read_options(FaultsOptions, {"faults": [fault]})
    return raised.value.problems


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"api_name": "Product", "error": "NONE"}, "there is no API 'Product': did you mean Produce?"),
        ({"error": "NOT_LEADER"}, "there is no error 'NOT_LEADER': did you mean NOT_LEADER_OR_FOLLOWER"),
        (
            {"api_name": "Produce"},
            "it does nothing: give one of error, disconnect, black_hole, truncate, delay, throttle, or",
        ),
        ({"error": "NONE", "where": "topic == 'a'"}, "where: it has no topic"),
        ({"error": "NONE", "where": "api =="}, "where"),
        ({"error": "NONE", "truncate": 0}, "a fault cannot have both error and truncate"),
    ],
)
def test_what_contradicts_itself_is_a_mistake(fault: dict[str, Any], message: str) -> None:
    ((path, said),) = mistakes(**fault)
    assert path == "faults[0]"
    assert said.replace('"', "'").startswith(message)


def test_mistakes_of_types_have_their_place() -> None:
    assert [path for path, _ in mistakes(times=0, probability=2, scenario="leader")] == [
        "faults[0].times",
        "faults[0].probability",
        "faults[0].scenario",
    ]


def test_the_scenarios_that_may_be_named_are_those_that_there_are() -> None:
    named = Fault.__annotations__["scenario"]
    assert set(get_args(get_args(get_args(named)[0])[0])) == set(SCENARIOS)


def test_the_former_name_of_an_option_goes_on_to_work() -> None:
    former = read_options(FaultsOptions, {"faults": [{"api": "Produce", "disconnect": True}]})
    assert former.faults == (Fault(api_name="Produce", disconnect=True),)
    with pytest.raises(OptionMistakes, match="api: it is the former name of api_name, which is here as well"):
        read_options(FaultsOptions, {"faults": [{"api": "Produce", "api_name": "Fetch", "disconnect": True}]})


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_an_effect_and_is_documented(name: str) -> None:
    (rule,) = rules([Fault(scenario=name)])
    fault = rule.fault
    effects = [rule.code(key) for key in rule.apis] + [fault.delay, fault.throttle, fault.black_hole or None]
    assert any(effect is not None for effect in effects)
    assert f"        {name} " in (FaultInjection.__doc__ or "")


@pytest.mark.parametrize(
    ("scenario", "api", "code"),
    [
        ("leader_moved", ApiKey.FETCH, 6),
        ("coordinator_moved", ApiKey.OFFSET_COMMIT, 16),
        ("fenced_producer", ApiKey.PRODUCE, 47),
        ("fenced_producer", ApiKey.END_TXN, 90),
        ("authorization_lost", ApiKey.PRODUCE, 29),
        ("authorization_lost", ApiKey.JOIN_GROUP, 30),
        ("authorization_lost", ApiKey.INIT_PRODUCER_ID, 53),
    ],
)
def test_apis_have_the_errors_that_are_theirs(scenario: str, api: ApiKey, code: int) -> None:
    (rule,) = rules([Fault(scenario=scenario)])
    assert rule.code(api) == code


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            "api_name=Produce error=NOT_LEADER_OR_FOLLOWER times=2",
            {"api_name": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2},
        ),
        ("leader_moved topic=orders,'my topic'", {"scenario": "leader_moved", "topic": ["orders", "my topic"]}),
        (
            "api_name=Fetch,Produce delay=2s probability=0.5 seed=7",
            {"api_name": ["Fetch", "Produce"], "delay": "2s", "probability": 0.5, "seed": 7},
        ),
        ("disconnect call=1,3", {"disconnect": True, "call": [1, 3]}),
        ("black_hole=true call=3 skip=1", {"black_hole": True, "call": 3, "skip": 1}),
        ("truncate=0 'where=clientId == \"a b\"'", {"truncate": 0, "where": 'clientId == "a b"'}),
    ],
)
def test_words_are_options(text: str, options: dict[str, Any]) -> None:
    assert parse_fault(text) == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("api_name=Produce", "it does nothing"),
        ("api_name=Produce api=Fetch", "twice"),
        ("api_name=Produce error", "is no scenario and no NAME=VALUE"),
        ("api_name='Produce", "a quote without an end"),
        ("error=NONE times=two", "times: expected a whole number"),
        ("error=NONE probability=2", "probability: 2.0 is out of range"),
        ("error=NONE colour=red", "colour: unknown name"),
        ("error=NONE disconnect=maybe", "disconnect: expected true or false"),
    ],
)
def test_mistakes_are_one_sentence_with_the_words(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_fault(text)
    assert str(raised.value).startswith("the fault ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def fired(schedule: Schedule, calls: Iterable[int] = range(1, 11)) -> list[int]:
    return [call for call in calls if schedule.fires(call)]


@pytest.mark.parametrize(
    ("schedule", "calls"),
    [
        (Schedule(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (Schedule(times=1), [1]),
        (Schedule(times=2), [1, 2]),
        (Schedule(calls=[3]), [3]),
        (Schedule(calls=[9, 2]), [2, 9]),
        (Schedule(calls=[9, 2, 5], times=2), [2, 5]),
        (Schedule(after=8), [9, 10]),
        (Schedule(after=3, times=2), [4, 5]),
        (Schedule(after=3, calls=[2, 7]), [7]),
        (Schedule(probability=0.0), []),
    ],
)
def test_the_calls_on_which_it_fires(schedule: Schedule, calls: list[int]) -> None:
    assert fired(schedule) == calls


def test_the_same_seed_gives_the_same_calls_in_any_order_of_asking() -> None:
    first = fired(Schedule(probability=0.3, seed=7), range(1, 201))
    assert fired(Schedule(probability=0.3, seed=7), range(200, 0, -1)) == first[::-1]
    assert first != fired(Schedule(probability=0.3, seed=8), range(1, 201))
    assert 40 < len(first) < 80  # 60 on average, with a standard deviation of 6.5


def test_as_many_times_as_allowed_are_the_first_that_chance_chooses() -> None:
    unlimited = fired(Schedule(probability=0.3, seed=7), range(1, 201))
    limited = Schedule(probability=0.3, seed=7, times=5)
    assert fired(limited, range(1, 201)) == unlimited[:5]
    assert fired(limited, range(1, 201)) == unlimited[:5]
    assert fired(Schedule(probability=0.3, seed=7, times=5), [150, *range(1, 150)]) == unlimited[:5]


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
    assert rule(**options).selects(request, {}, topics) is selected


@pytest.mark.parametrize(
    ("version", "topics", "asks"), [(1, None, True), (1, [], False), (0, [], True), (9, ["orders"], True)]
)
def test_a_metadata_request_asks_for_all_topics_for_some_or_for_none(version: int, topics: Any, asks: bool) -> None:
    named = topics and [{"name": name} for name in topics]
    request = Request(connection(), 3, version, 7, None, make("MetadataRequest", topics=named))
    assert requests_topics(request) is asks


@pytest.mark.parametrize(("group", "is_call"), [("g", True), ("bill*", False), (("a", "g"), True)])
def test_requests_that_name_a_group_are_selected(group: Any, is_call: bool) -> None:
    request = Request(connection(), ApiKey.HEARTBEAT, 4, 1, "app", make("HeartbeatRequest", group_id="g"))
    assert rule(group=group).selects(request, {}, ()) is is_call
