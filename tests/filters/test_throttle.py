"""Rates: what a client is told, and for how long it is not read."""

from typing import Any

import pytest

from kproxy.errors import UsageError
from kproxy.filters.contract import Direction, Send, Want
from kproxy.filters.loading import load_filter
from tests.support.filtering import Bench
from tests.support.messages import make, request_frame


class Limiting(Bench):
    def __init__(self, *limits: dict[str, Any], **options: Any) -> None:
        super().__init__(load_filter("throttle", {"limits": list(limits), **options}))

    def produced(self, size: int, topic: str = "t", *, version: int = 9, acks: int = -1) -> tuple[int | None, float]:
        """The throttle time that the client is told, and for how long it is muted."""
        outcome = self.produce(topic, records=b"x" * size, version=version, acks=acks)
        assert outcome == Send(self.frame)
        return (None, self._muted()) if acks == 0 else self._told(outcome)

    def fetched(self, size: int, topic: str = "t", throttled: int = 0) -> tuple[int | None, float]:
        told = {"topic": topic, "partitions": [{"records": b"x" * size}]}
        outcome = self.ask("FetchRequest", 12, topics=[{"topic": topic}])
        return self._told(outcome, responses=[told], throttle_time_ms=throttled)

    def _told(self, outcome: Any, **values: Any) -> tuple[int | None, float]:
        answer, version = self.answered(outcome, **values), outcome.request.api_version
        return answer.throttle_time_ms if version else None, self._muted()

    def _muted(self) -> float:
        seconds, self.at.mute_s = self.at.mute_s, 0.0
        return round(seconds, 9)


def test_bytes_above_the_rate_are_waited_for() -> None:
    bench = Limiting({"by": "client_id", "produce_bytes": 1_000})
    assert bench.produced(1_000) == (0, 0.0)
    assert bench.produced(500) == (500, 0.5)
    bench.runtime.at += 0.25
    assert bench.produced(100) == (350, 0.35)
    bench.runtime.at += 10
    assert bench.produced(1_000) == (0, 0.0)


def test_what_is_fetched() -> None:
    bench = Limiting({"by": "client_id", "fetch_bytes": "1KiB"})
    assert bench.fetched(1_024) == (0, 0.0)
    assert bench.fetched(2_048) == (2_000, 2.0)
    assert bench.produced(1_000_000) == (0, 0.0)


def test_a_broker_that_throttles_longer_is_believed() -> None:
    bench = Limiting({"by": "client_id", "fetch_bytes": 1_000})
    assert bench.fetched(1_500, throttled=9_000) == (9_000, 0.5)


def test_requests() -> None:
    bench = Limiting({"by": "client_id", "requests": 2})
    assert [bench.produced(0) for _ in range(4)] == [(0, 0.0), (0, 0.0), (500, 0.5), (1_000, 1.0)]


def test_each_has_a_rate_of_its_own() -> None:
    bench = Limiting(
        {"by": "topic", "match": "a*", "produce_bytes": 100}, {"by": "principal", "match": "mallory", "requests": 1}
    )
    assert bench.produced(200, "a1")[0] == 1_000
    assert bench.produced(100, "a2")[0] == 0
    assert bench.produced(10_000, "b")[0] == 0
    bench.at.principal = "mallory"
    assert [bench.produced(0, "b")[0] for _ in range(2)] == [0, 1_000]


def test_a_version_without_a_throttle_time_is_delayed() -> None:
    bench = Limiting({"by": "client_id", "produce_bytes": 100})
    before = bench.runtime.at
    assert bench.produced(300, version=0) == (None, 2.0)
    assert bench.runtime.at - before == pytest.approx(2.0)


def test_acks_0_mutes_without_a_word() -> None:
    assert Limiting({"by": "client_id", "produce_bytes": 100}).produced(200, acks=0) == (None, 1.0)


def test_nothing_waits_longer_than_it_may() -> None:
    assert Limiting({"by": "client_id", "produce_bytes": 1}, longest="5s").produced(1_000_000) == (5_000, 5.0)


def test_only_what_is_limited_is_held() -> None:
    bytes_only = Limiting({"by": "topic", "produce_bytes": 1}).filter
    assert {key for key in range(93) if bytes_only.wants(Direction.REQUEST, key, 1) is Want.HOLD} == {0, 1, 78}
    every = Limiting({"by": "client_id", "requests": 1}).filter
    assert {17, 18, 36}.isdisjoint(key for key in range(93) if every.wants(Direction.REQUEST, key, 1) is Want.HOLD)
    assert every.wants(Direction.REQUEST, 19, 1) is Want.HOLD


def test_workers_count_together_and_a_reload_forgets_nothing() -> None:
    limit = {"by": "client_id", "produce_bytes": 1_000}
    here, there = Limiting(limit), Limiting(limit)
    there.runtime = here.runtime
    there.use(there.filter)
    assert here.produced(1_000) == (0, 0.0)
    assert there.produced(500) == (500, 0.5)
    assert here.produced(500) == (1_000, 1.0)
    again, other = Limiting(limit), Limiting({**limit, "produce_bytes": 2_000})
    for one in (again, other):
        one.runtime = here.runtime
        one.use(one.filter)
    assert again.produced(0) == (1_000, 1.0)
    assert other.produced(0) == (0, 0.0)


def test_a_limit_that_limits_nothing() -> None:
    with pytest.raises(UsageError, match="it limits nothing"):
        load_filter("throttle", {"limits": [{"by": "topic"}]})


def test_frames_that_are_too_large_to_be_held_count_with_their_size() -> None:
    bench = Limiting(
        {"by": "client_id", "produce_bytes": 1_000, "fetch_bytes": 1_000, "requests": 100},
        {"by": "topic", "requests": 1},
    )
    bench.produced(0)  # by which the client id is known
    for direction, api_key, waited in (
        (Direction.REQUEST, 0, 2.0),
        (Direction.RESPONSE, 0, 0.0),
        (Direction.RESPONSE, 1, 2.0),
        (Direction.REQUEST, 19, 2.0),  # what is produced is due still
        (Direction.RESPONSE, 78, 5.0),
    ):
        bench.at.mute_s = 0.0
        bench.chain.note_too_large(bench.at, direction, api_key, 1 if api_key == 78 else 4, 3_000)
        assert (direction, api_key, bench.at.mute_s) == (direction, api_key, waited)


def test_in_a_fetch_session_each_request_counts_for_all_topics_of_the_session() -> None:
    """Of these it names none but what changes (KIP-227)."""
    bench = Limiting({"by": "topic", "match": "a", "requests": 1})

    def fetch(*names: str, forgotten: tuple[str, ...] = (), **session: int) -> float:
        partitions = [{"partition": 0}]
        topics = [{"topic": name, "partitions": partitions} for name in names]
        gone = [{"topic": name, "partitions": [0]} for name in forgotten]
        asked = make("FetchRequest", topics=topics, forgotten_topics_data=gone, **session)
        bench.at.mute_s = 0.0
        bench.chain.on_request(bench.at, request_frame("FetchRequest", 12, asked))
        return round(bench.at.mute_s, 9)

    assert fetch("a", "b", session_id=0, session_epoch=0) == 0.0
    assert fetch(session_id=5, session_epoch=1) == 1.0
    assert fetch(session_id=5, session_epoch=2, forgotten=("a",)) == 0.0
    assert fetch("a", session_id=5, session_epoch=3) == 2.0
    assert fetch("b", session_id=5, session_epoch=-1) == 0.0  # closes the session
    bench.chain.on_close(bench.at)
    assert "throttle fetched" not in bench.at.state
