"""What a fault may say."""

from typing import Any, get_args

import pytest

from kproxy.filters.faults.options import Fault, FaultsOptions
from kproxy.filters.faults.scenarios import SCENARIOS
from kproxy.filters.options import OptionMistakes, read_options


def mistakes(**fault: Any) -> list[tuple[str, str]]:
    with pytest.raises(OptionMistakes) as raised:
        read_options(FaultsOptions, {"faults": [fault]})
    return raised.value.problems


def test_names_are_given_alone_or_in_a_list() -> None:
    options = read_options(
        FaultsOptions, {"faults": [{"api_name": "Produce", "error": "NOT_COORDINATOR", "delay": "2s"}]}
    )
    assert options.faults == (Fault(api_name="Produce", error="NOT_COORDINATOR", delay=2.0),)
    assert read_options(FaultsOptions, {"faults": [{"api_name": ["Produce"], "disconnect": True}]}).faults[
        0
    ].api_name == ("Produce",)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"api_name": "Product", "error": "NONE"}, "there is no API 'Product': did you mean Produce?"),
        ({"error": "NOT_LEADER"}, "there is no error 'NOT_LEADER': did you mean NOT_LEADER_OR_FOLLOWER?"),
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
