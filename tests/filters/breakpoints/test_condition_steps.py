"""ConditionSteps: at least what CEL's library takes, counted by hand, and no more than a small factor of it."""

import pytest

from kproxy.filters.breakpoints.condition_steps import MATCH_STEPS, ConditionSteps, count_items


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
