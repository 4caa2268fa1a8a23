"""On which calls a fault fires."""

from collections.abc import Iterable

import pytest

from kproxy.filters.faults.schedule import Schedule


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
