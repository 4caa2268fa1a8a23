"""Faults as words of a command line."""

from typing import Any

import pytest

from kproxy.errors import UsageError
from kproxy.filters.faults.words import parse_fault


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
