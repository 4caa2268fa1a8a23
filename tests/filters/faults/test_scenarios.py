"""Scenarios by name: each can be made a fault, and answers as Kafka's documentation of the APIs has it."""

import pytest

from kproxy.filters.faults import FaultInjection
from kproxy.filters.faults.options import Fault
from kproxy.filters.faults.rules import rules
from kproxy.filters.faults.scenarios import SCENARIOS
from kproxy.protocol import ApiKey


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_an_effect_and_is_documented(name: str) -> None:
    (rule,) = rules([Fault(scenario=name)])
    fault = rule.fault
    effects = [rule.code(key) for key in rule.apis] + [fault.delay, fault.throttle, fault.black_hole or None]
    assert any(effect is not None for effect in effects)
    assert f"        {name} " in (FaultInjection.__doc__ or "")
    assert SCENARIOS[name].meaning.endswith(".")


def test_what_a_fault_says_itself_wins() -> None:
    (rule,) = rules([Fault(scenario="leader_moved", times=3, api_name="Produce", topic="orders")])
    assert rule.apis == {ApiKey.PRODUCE}
    assert rule.fault.times == 3
    assert rule.topics == ("orders",)
    (rule,) = rules([Fault(scenario="slow_broker", delay=0.1)])
    assert (rule.fault.delay, rule.fault.when, len(rule.apis) > 80) == (0.1, "after", True)


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
