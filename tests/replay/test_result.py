"""What is counted, and that it stays bounded whatever is replayed."""

import pytest

from kproxy.replay.comparing import Difference
from kproxy.replay.result import MOST_EXAMPLES, Outcome, Result, which
from tests.support.replayed import recorded


def test_differences_of_a_kind_are_counted_together() -> None:
    result = Result()
    one = recorded(1).requests[0]
    for offset in range(10):
        result.note_difference(one, Difference("a.b", f"a[{offset}].b", "1", "2"))
    [kind] = result.differences.values()
    assert kind.count == 10 and len(kind.examples) == MOST_EXAMPLES
    assert kind.examples[0] == f"a[0].b, {which(one)}"
    assert result.differs


def test_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.replay.result.MOST_KINDS", 5)
    result = Result()
    one = recorded(1).requests[0]
    for number in range(20):
        result.note_difference(one, Difference("a", "a", str(number), "x"))
        result.note_trouble(one, f"why {number}")
    assert len(result.differences) == len(result.troubles) == 6
    assert sum(kind.count for kind in result.differences.values()) == 20
    assert result.count(Outcome.NO_ANSWER) == 20


def test_a_request_is_named_as_it_is_found_in_the_capture() -> None:
    assert which(recorded(1).requests[0]) == "request 1 (correlation id 0 of 127.0.0.1:59808)"
