"""Numbers by a million names are a thousand series: those that send most, and one for all others."""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from kproxy.output.escaping import LONGEST_NAME
from kproxy.protocol import Message, request_message, response_message
from kproxy.proxy.analyzer import lag as module
from kproxy.proxy.analyzer.counts import AnalysisCounts
from kproxy.proxy.analyzer.lag import GroupLag
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
from kproxy.session import Connection, Exchange, Frame
from tests.support.messages import make


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


OFFSET_COMMIT, OFFSET_FETCH, FETCH, LIST_OFFSETS, PRODUCE = 8, 9, 1, 2, 0
BY_NAME, BY_ID = 9, 10  # versions of OffsetCommit: what its topics are named by
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"

Fields = dict[str, Any]


def exchange(
    api_key: int,
    version: int,
    asked: Fields | None = None,
    answered: Fields | None = None,
    cluster: str = "c",
    names: dict[str, str] | None = None,
) -> Exchange:
    """An exchange whose bodies have these fields, and defaults for the others."""
    made = Exchange(Connection(1, "a:1", "b:2", cluster=cluster), 0, api_key, version, 1, "app")
    made.topic_names = names or {}
    if asked is not None:
        made.request = body(request_message(api_key), version, asked)
    if answered is not None:
        made.response = body(response_message(api_key), version, answered)
    return made


def body(message: Message | None, version: int, fields: Fields) -> Frame:
    assert message is not None
    data = message.encode(version, make(message.name, **fields))
    return Frame(data, 0, 0, message=message, body_version=version)


def topics(partitions: str = "partitions", index: str = "partition_index", **places: Fields) -> list[Fields]:
    """t_0={...} is partition 0 of the topic t."""
    return [
        {"name": name.rpartition("_")[0], partitions: [{index: int(name.rpartition("_")[2])} | fields]}
        for name, fields in places.items()
    ]


def fetched(lag: GroupLag, cluster: str = "c", **ends: int) -> None:
    found = topics(**{name: {"high_watermark": end} for name, end in ends.items()})
    found = [{"topic": topic.pop("name")} | topic for topic in found]
    made = exchange(FETCH, 12, answered={"responses": found}, cluster=cluster)
    assert made.response is not None
    lag.note_fetched(made, made.response.partitions())


def committed(lag: GroupLag, group: str = "g", cluster: str = "c", error: int = 0, **offsets: int) -> None:
    asked = topics(**{name: {"committed_offset": offset} for name, offset in offsets.items()})
    answered = topics(**{name: {"error_code": error} for name in offsets})
    bodies = {"group_id": group, "topics": asked}, {"topics": answered}
    lag.note_committed(exchange(OFFSET_COMMIT, BY_NAME, *bodies, cluster=cluster))


def rows(lag: GroupLag) -> dict[tuple[str, ...], list[int]]:
    return dict(lag.rows())


def test_the_lag_of_a_group_is_the_sum_over_its_partitions_and_the_largest() -> None:
    lag = GroupLag()
    fetched(lag, t_0=100, t_1=50, u_0=7)
    committed(lag, t_0=90, t_1=10)
    committed(lag, "other", t_0=100)
    assert rows(lag) == {("c", "g"): [50, 40], ("c", "other"): [0, 0]}
    committed(lag, t_1=50, u_0=0)
    assert rows(lag)["c", "g"] == [17, 10]
    fetched(lag, t_0=1_000)
    assert rows(lag)["c", "g"] == [917, 910]


def test_a_commit_that_was_refused_and_a_partition_of_unknown_end_do_not_count() -> None:
    lag = GroupLag()
    fetched(lag, t_0=100)
    committed(lag, error=25, t_0=100)
    assert rows(lag) == {}
    committed(lag, t_0=60, unknown_0=5)
    assert rows(lag) == {("c", "g"): [40, 40]}


def test_the_end_is_not_before_a_commit_nor_before_what_was_produced() -> None:
    lag = GroupLag()
    fetched(lag, t_0=10)
    committed(lag, t_0=20)
    committed(lag, "slow", t_0=15)
    assert rows(lag) == {("c", "g"): [0, 0], ("c", "slow"): [5, 5]}
    produced = topics("partition_responses", "index", t_0={"base_offset": 29})
    made = exchange(PRODUCE, 9, answered={"responses": produced})
    assert made.response is not None
    lag.note_produced(made, made.response.partitions())
    assert rows(lag) == {("c", "g"): [10, 10], ("c", "slow"): [15, 15]}
    fetched(lag, t_0=20)  # the topic was made anew
    assert rows(lag)["c", "g"] == [0, 0]


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, [70, 70]), (-2, None), (1_700_000_000_000, None)])
def test_list_offsets_has_the_end_where_the_latest_offset_is_asked_for(
    timestamp: int, expected: list[int] | None
) -> None:
    lag = GroupLag()
    committed(lag, t_3=30)
    asked = {"topics": topics(t_3={"timestamp": timestamp})}
    lag.note_listed(exchange(LIST_OFFSETS, 7, asked, {"topics": topics(t_3={"offset": 100})}))
    assert rows(lag).get(("c", "g")) == expected


@pytest.mark.parametrize("several", [False, True])
def test_what_a_group_asks_for_is_what_it_has_committed(several: bool) -> None:
    lag = GroupLag()
    fetched(lag, t_0=100, t_1=100)
    offsets = topics(t_0={"committed_offset": 40}, t_1={"committed_offset": -1})
    asked = {"groups": [{"group_id": "g"}]} if several else {"group_id": "g"}
    answered = {"groups": [{"group_id": "g", "topics": offsets}]} if several else {"topics": offsets}
    lag.note_committed(exchange(OFFSET_FETCH, 8 if several else 7, asked, answered))
    assert rows(lag) == {("c", "g"): [60, 60]}


def test_topics_of_ids_are_those_of_their_names_and_clusters_are_told_apart() -> None:
    lag = GroupLag()
    fetched(lag, t_0=100)
    fetched(lag, "another", t_0=1_000)
    asked = [{"topic_id": ID_TEXT, "partitions": [{"committed_offset": 99}]}]
    answered = {"topics": [{"topic_id": ID_TEXT, "partitions": [{}]}]}
    bodies = {"group_id": "g", "topics": asked}, answered
    lag.note_committed(exchange(OFFSET_COMMIT, BY_ID, *bodies, names={ID_TEXT: "t"}))
    assert rows(lag) == {("c", "g"): [1, 1]}
    committed(lag, cluster="another", t_0=997)
    assert rows(lag) == {("c", "g"): [1, 1], ("another", "g"): [3, 3]}


def test_groups_beyond_the_cap_are_shown_together_and_idle_ones_end() -> None:
    lag = GroupLag()
    lag.limit(10, 60.0)
    fetched(lag, t_0=1_000)
    for number in range(100):
        lag.age(float(number))
        committed(lag, f"group-{number}", t_0=1_000 - number)
    found = rows(lag)
    assert len(found) == 10
    assert found["c", "group-99"] == [99, 99] and found["c", "group-91"] == [91, 91]
    assert found[OTHER, OTHER] == [sum(range(40, 91)), 90]  # groups 0 to 39 have committed nothing for a minute


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTITIONS", 500)
    monkeypatch.setattr(module, "MOST_COMMITS", 500)
    lag = GroupLag()
    rng = random.Random(1)
    for number in range(5_000):
        place = {f"topic-{rng.randrange(5_000)}_0": number}
        fetched(lag, **place)
        committed(lag, f"g{number % 300}", **place)
    committed(lag, "x" * 1_001, **place)
    assert len(lag._ends) <= 500 and sum(len(group.commits) for group in lag._groups.values()) <= 500
    assert lag._commits == sum(len(group.commits) for group in lag._groups.values())


def test_it_is_among_the_series_of_the_analyzer() -> None:
    counts = AnalysisCounts()
    fetched(counts.lag, t_0=5)
    committed(counts.lag, t_0=1)
    message = next(message for message in counts.series() if message.kind == "lag")
    assert (message.rows, message.is_gauge) == ([(("c", "g"), [4, 4])], True)
