"""Options from plain values: the right ones, and every mistake with its path."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from kproxy.filters.options import Count, OptionMistakes, Options, Seconds, Size, read_options, text


class Rule(Options, frozen=True):
    when: Annotated[str, text("A condition.")]
    code: int | None = None


class Sample(Options, frozen=True):
    name: Annotated[str, Meta(max_length=5)] = "x"
    rate: Annotated[int, Meta(ge=1, le=10)] = 5
    share: float = 0.5
    wait: Seconds = 1.0
    room: Size = 1_024
    least: Count = 0
    mode: Literal["block", "drop-and-count"] = "block"
    on: bool = False
    topics: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    values: dict[str, int] = msgspec.field(default_factory=dict)
    first: Rule | None = None

    def __post_init__(self) -> None:
        if self.rate == 7:
            raise ValueError("7 is not for rates")


def mistakes(**values: Any) -> list[tuple[str, str]]:
    with pytest.raises(OptionMistakes) as caught:
        read_options(Sample, values)
    return caught.value.problems


def test_defaults() -> None:
    assert read_options(Sample, {}) == Sample()


def test_values_of_all_types() -> None:
    given = {
        "name": "y",
        "rate": 2,
        "share": 1,
        "wait": "500ms",
        "room": "16KiB",
        "mode": "drop-and-count",
        "on": True,
        "topics": ["a", "b"],
        "rules": [{"when": "true"}, {"when": "false", "code": 3}],
        "values": {"a": 1},
        "first": {"when": "x"},
    }
    assert read_options(Sample, given) == Sample(
        name="y",
        rate=2,
        share=1.0,
        wait=0.5,
        room=16_384,
        mode="drop-and-count",
        on=True,
        topics=("a", "b"),
        rules=(Rule(when="true"), Rule(when="false", code=3)),
        values={"a": 1},
        first=Rule(when="x"),
    )


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"nam": "x"}, "nam", "unknown name: did you mean name?"),
        ({"name": 2024}, "name", 'expected text; found "2024": write it in quotes'),
        ({"name": False}, "name", "expected text; found false: write it in quotes"),
        ({"name": "abcdef"}, "name", "0 to 5 characters"),
        ({"rate": 11}, "rate", "at most 10"),
        ({"rate": "5"}, "rate", "expected a whole number"),
        ({"rate": True}, "rate", "expected a whole number; found true"),
        ({"wait": "5 parsecs"}, "wait", "write 10"),
        ({"wait": -1}, "wait", "more than 0"),
        ({"mode": "blok"}, "mode", "did you mean block?"),
        ({"on": "yes"}, "on", "expected true or false"),
        ({"topics": "a"}, "topics", "expected a list"),
        ({"topics": ["a", 1]}, "topics[1]", "expected text"),
        ({"rules": [{"when": "x"}, {}]}, "rules[1].when", "it is missing"),
        ({"rules": [{"when": "x", "code": "y"}]}, "rules[0].code", "expected a whole number"),
        ({"values": {"a": []}}, "values.a", "expected a whole number; found a list"),
        ({"first": {"when": 1}}, "first.when", "expected text"),
        ({"rate": 7}, "", "7 is not for rates"),
    ],
)
def test_mistakes(values: dict[str, Any], path: str, words: str) -> None:
    ((found, message),) = mistakes(**values)
    assert found == path
    assert words in message


def test_all_mistakes_are_found_at_once() -> None:
    assert [path for path, _ in mistakes(name=1, rate=0, rules=[{"code": "x"}])] == [
        "name",
        "rate",
        "rules[0].code",
        "rules[0].when",
    ]


def test_values_nested_without_end() -> None:
    nested: Any = []
    for _ in range(10_000):
        nested = [nested]
    assert mistakes(topics=nested)[0][0] == "topics[0]"
