"""Numbers by a million names are a thousand series: those that send most, and one for all others."""

from collections import Counter

import msgspec

from kproxy.output.labels import LONGEST_NAME
from kproxy.proxy.analyzer.series import (
    EXCHANGED,
    IDLE,
    LEAST,
    MOST_NAMES,
    MOST_SERIES,
    OTHER,
    PERIOD,
    BoundedCounter,
    Series,
)


def clients(most: int = MOST_SERIES, idle: float = IDLE) -> Series:
    made: Series = Series(2, labels=2)
    made.limit(most, idle)
    return made


def send(series: Series, name: str | None, times: int = 1) -> None:
    series.add(("one", name), times, times * 100)


def requests(series: Series) -> dict[str, int]:
    rows = [(labels[1], numbers[0]) for labels, numbers in series.rows()]
    assert len(dict(rows)) == len(rows)  # no series twice: Prometheus would refuse the whole scrape
    return dict(rows)


def test_any_number_of_names_is_a_thousand_series_and_nothing_is_lost() -> None:
    series = clients()
    for number in range(100_000):
        send(series, f"client-{number}")
    found = requests(series)
    assert len(found) == MOST_SERIES
    assert sum(found.values()) == 100_000
    assert found[OTHER] == 100_000 - (MOST_SERIES - 1)


def test_who_sends_most_gets_a_series_although_many_others_came_first() -> None:
    series = clients()
    sent: Counter[str] = Counter()
    for number in range(200_000):
        send(series, f"client-{number}")
        if number % 400 == 399:
            send(series, f"heavy-{number // 400 % 5}")  # 100 requests each among 40,000 names that are not theirs
    series.age(PERIOD)
    assert {f"heavy-{n}" for n in range(5)} <= requests(series).keys()
    assert len(requests(series)) == MOST_SERIES
    for _ in range(7):
        send(series, "heavy-3")
        sent["heavy-3"] += 1
    assert requests(series)["heavy-3"] == sent["heavy-3"]  # from when it has its series


def test_few_series_are_new_in_a_period_whatever_is_sent() -> None:
    series = clients(most=101)
    send(series, "first")
    for number in range(99):
        send(series, f"a{number}")
    before = requests(series).keys()
    for number in range(1_000):
        send(series, f"b{number}", LEAST)
    series.age(PERIOD)
    assert len(requests(series).keys() - before - {OTHER}) == 101 // EXCHANGED


def test_a_series_that_is_as_heavy_as_another_stays() -> None:
    series = clients(most=2)
    send(series, "a", 50)
    send(series, "b", 100)
    series.age(PERIOD)
    assert requests(series) == {"a": 50, OTHER: 100}
    send(series, "a", 50)
    send(series, "b", 101)
    series.age(2 * PERIOD)
    assert requests(series) == {"b": 0, OTHER: 201}


def test_idle_ones_end_and_begin_again_at_0() -> None:
    series = clients(idle=100)
    series.age(1.0)
    send(series, "a", 3)
    send(series, "b", 3)
    series.age(2.0)
    send(series, "b")
    series.age(101.9)
    assert requests(series) == {"a": 3, "b": 4}
    series.age(102.0)
    assert requests(series) == {"b": 4}  # OTHER did not get what "a" had: its rate would be wrong
    send(series, "a")
    assert requests(series) == {"a": 1, "b": 4}


def test_no_number_goes_down_while_its_series_is_there() -> None:
    series = clients(most=20, idle=3 * PERIOD)
    before: dict[str, int] = {}
    for minute in range(20):
        for number in range(60):
            send(series, f"c{(number * minute) % 47}", 1 + (number * minute) % 13)
        series.age(minute * PERIOD)
        now = requests(series)
        assert len(now) <= 20
        assert all(now[name] >= before[name] for name in now.keys() & before.keys() if name == OTHER or now[name])
        before = now


def test_hostile_names_are_escaped_and_never_a_series_twice() -> None:
    series = clients()
    for name in (
        'a"\n',
        "a\x1b[31m",
        "a\u202e",
        "a\udcff",
        "a\0",
        "x" * 500,
        "x" * 501,
        None,
        "",
        OTHER,
        "a\\n",
        "a\n",
    ):
        send(series, name)
    found = requests(series)
    assert all(name.isprintable() for name in found)
    longest = [name for name in found if name.startswith("xxx")]
    assert [found[name] for name in longest] == [1, 1] and all(len(name) == LONGEST_NAME for name in longest)
    assert found["a\\n"] == 2  # a backslash and an n, or a newline
    assert (found[""], found[OTHER]) == (2, 1)


def test_a_name_in_two_clusters_is_two_series() -> None:
    series = Series(1, labels=2)
    for cluster, times in (("one", 2), ("other", 3)):
        series.add((cluster, "orders"), times)
    assert series.rows() == [(("one", "orders"), [2]), (("other", "orders"), [3])]


def test_a_smaller_limit_ends_series() -> None:
    series = clients()
    for number in range(10):
        send(series, f"c{number}")
    series.limit(4, IDLE)
    send(series, "c9")
    assert requests(series) == {"c0": 1, "c1": 1, "c2": 1, OTHER: 1}


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
