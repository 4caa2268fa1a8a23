"""BoundedCounter: so many names at most, of which none is lost."""

import msgspec

from kproxy.proxy.analyzer.bounded_counter import MOST_NAMES, BoundedCounter
from kproxy.proxy.analyzer.series import MOST_SERIES, OTHER


def test_names_beyond_the_cap_are_counted_together() -> None:
    counter = BoundedCounter(10)
    for number in range(100):
        counter.add(f"name-{number}", "x", n=2)
    rows = counter.rows()
    assert len(rows) == 10
    assert (OTHER, OTHER, 2 * 91) in rows
    assert sum(count for *_, count in rows) == 200


def test_long_names_take_the_room_of_many() -> None:
    counter = BoundedCounter()
    for number in range(5_000):
        counter.add(f"{number:05}" + "\u202e" * 500)
    assert len(counter.rows()) < MOST_SERIES
    assert len(msgspec.json.encode(counter.rows())) < 2 * MOST_NAMES
    assert sum(count for *_, count in counter.rows()) == 5_000
