"""GroupLag: the difference of commits and ends that passed, by the frames that Kafka's own encoder wrote, and its bounds."""

import random
from typing import Any

import msgspec
import pytest

from kproxy.output.text.body_fields import FetchResponse
from kproxy.proxy.analyzer import lag as module
from kproxy.proxy.analyzer.counts import AnalysisCounts
from kproxy.proxy.analyzer.lag import GroupLag
from kproxy.proxy.analyzer.series import OTHER
from kproxy.session import Connection, Exchange

OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT, FETCH, LIST_OFFSETS, PRODUCE = 8, 9, 28, 1, 2, 0
encode = msgspec.json.encode


def exchange(api_key: int, cluster: str = "c", names: dict[str, str] | None = None) -> Exchange:
    made = Exchange(Connection(1, "a:1", "b:2", cluster=cluster), 0, api_key, 8, 1, "app")
    made.topic_names = names or {}
    return made


def topics(**partitions: dict[str, Any]) -> list[dict[str, Any]]:
    """Kafka's JSON: t_0={...} is partition 0 of the topic t."""
    return [
        {"name": name.rpartition("_")[0], "partitions": [{"partitionIndex": int(name.rpartition("_")[2])} | fields]}
        for name, fields in partitions.items()
    ]


def fetched(lag: GroupLag, cluster: str = "c", **ends: int) -> None:
    found = topics(**{name: {"highWatermark": end, "errorCode": 0} for name, end in ends.items()})
    lag.note_fetched(exchange(FETCH, cluster), msgspec.convert({"responses": found}, FetchResponse).responses)


def committed(lag: GroupLag, group: str = "g", cluster: str = "c", error: int = 0, **offsets: int) -> None:
    asked = topics(**{name: {"committedOffset": offset} for name, offset in offsets.items()})
    answered = topics(**{name: {"errorCode": error} for name in offsets})
    body = {"groupId": group, "topics": asked}
    lag.note_committed(exchange(OFFSET_COMMIT, cluster), encode(body), encode({"topics": answered}))


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
    produced = [{"name": "t", "partitionResponses": [{"index": 0, "errorCode": 0, "baseOffset": 29}]}]
    lag.note_produced(exchange(PRODUCE), encode({"responses": produced}))
    assert rows(lag) == {("c", "g"): [10, 10], ("c", "slow"): [15, 15]}
    fetched(lag, t_0=20)  # the topic was made anew
    assert rows(lag)["c", "g"] == [0, 0]


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, [70, 70]), (-2, None), (1_700_000_000_000, None)])
def test_list_offsets_has_the_end_where_the_latest_offset_is_asked_for(
    timestamp: int, expected: list[int] | None
) -> None:
    lag = GroupLag()
    committed(lag, t_3=30)
    asked = encode({"topics": topics(t_3={"timestamp": timestamp})})
    lag.note_listed(exchange(LIST_OFFSETS), asked, encode({"topics": topics(t_3={"errorCode": 0, "offset": 100})}))
    assert rows(lag).get(("c", "g")) == expected


@pytest.mark.parametrize("several", [False, True])
def test_what_a_group_asks_for_is_what_it_has_committed(several: bool) -> None:
    lag = GroupLag()
    fetched(lag, t_0=100, t_1=100)
    told = topics(t_0={"committedOffset": 40, "errorCode": 0}, t_1={"committedOffset": -1, "errorCode": 0})
    group = {"groupId": "g", "topics": told}
    asked = {"groups": [{"groupId": "g"}]} if several else {"groupId": "g"}
    answered = {"groups": [group]} if several else {"topics": told}
    lag.note_committed(exchange(OFFSET_FETCH), encode(asked), encode(answered))
    assert rows(lag) == {("c", "g"): [60, 60]}


def test_topics_of_ids_are_those_of_their_names_and_clusters_are_told_apart() -> None:
    lag = GroupLag()
    fetched(lag, t_0=100)
    fetched(lag, "another", t_0=1_000)
    body = [{"topicId": "id-of-t", "partitions": [{"partitionIndex": 0, "committedOffset": 99}]}]
    answered = [{"topicId": "id-of-t", "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]
    by_id = exchange(OFFSET_COMMIT, names={"id-of-t": "t"})
    lag.note_committed(by_id, encode({"groupId": "g", "topics": body}), encode({"topics": answered}))
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
