"""Fetch requests ask for no more than can be held, where a filter needs the response whole; else they are as they came."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kproxy.filters import fetch_sizes
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Direction, Filter, Forward, RequestFacts, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.protocol import message
from tests.support.filtering import BrokerClient, GivenRuntime, connection, make, part, request_frame

MOST = 1_000
ASKED = 52_428_800  # fetch.max.bytes of Java's consumer and librdkafka
UNKNOWN_SERVER_ERROR = -1
AUDIT = {"file": {"path": "audit.jsonl"}}


class Sizes(Filter):
    """Holds Fetch responses, and can do without those that are too large."""

    responses = (1, 78)

    def wants_of_large(self, direction: Direction, api_key: int, api_version: int) -> Want:
        return Want.PASS


def fetch(version: int, *names: str, size: int = ASKED) -> bytes:
    partitions = [part("FetchRequest", "FetchPartition", partition=3, partition_max_bytes=size)]
    topics = [part("FetchRequest", "FetchTopic", topic=name, partitions=partitions) for name in names or ("t",)]
    return request_frame("FetchRequest", version, make("FetchRequest", max_bytes=ASKED, topics=topics))


def sent(made: Filter, frame: bytes, held_frame_size: int = 2 * MOST) -> Send:
    outcome = Chain([made], runtime=GivenRuntime(), held_frame_size=held_frame_size).on_request(connection(), frame)
    assert isinstance(outcome, Send)
    return outcome


def body(frame: bytes, version: int) -> Any:
    client_id = int.from_bytes(frame[12:14], "big")
    return message("FetchRequest").decode(version, frame[14 + client_id + (version >= 12) :])


def test_before_version_3_partitions_share_the_limit() -> None:
    sizes = (100, 600, 5_000, 5_000)
    partitions = [part("FetchRequest", "FetchPartition", partition_max_bytes=size) for size in sizes]
    asked = make("FetchRequest", topics=[part("FetchRequest", "FetchTopic", partitions=partitions)])
    assert fetch_sizes.limit(asked, 2, MOST)
    assert [each.partition_max_bytes for each in partitions] == [100, 250, 250, 250]
    assert not fetch_sizes.limit(asked, 2, MOST)


def test_before_version_3_what_is_little_together_stays() -> None:
    partitions = [part("FetchRequest", "FetchPartition", partition_max_bytes=size) for size in (100, 900)]
    asked = make("FetchRequest", topics=[part("FetchRequest", "FetchTopic", partitions=partitions)])
    assert not fetch_sizes.limit(asked, 2, MOST)


def test_share_fetches_are_limited() -> None:
    asked = make("ShareFetchRequest", max_bytes=5_000)
    assert fetch_sizes.limit_share(asked, MOST)
    assert (asked.max_bytes, fetch_sizes.limit_share(asked, MOST)) == (MOST, False)


@pytest.mark.parametrize(
    ("use", "options"),
    [
        ("mask", {"rules": [{"fields": ["$.a"]}]}),
        ("deny", {"rules": [{"when": 'topic == "x"'}]}),
        ("audit", {**AUDIT, "topics": ["t"]}),
    ],
)
def test_filters_that_need_responses_whole_have_requests_limited(use: str, options: dict[str, Any]) -> None:
    made = load_filter(use, options)
    for version in (4, 12):
        assert body(sent(made, fetch(version)).frame, version).max_bytes == MOST
        fits = request_frame("FetchRequest", version, make("FetchRequest", max_bytes=MOST))
        assert sent(made, fits).frame is fits
    frame = request_frame("ShareFetchRequest", 1, make("ShareFetchRequest", max_bytes=ASKED))
    limited: Any = message("ShareFetchRequest").decode(1, sent(made, frame).frame[len(frame) - len(frame) + 18 :])
    assert limited.max_bytes == MOST


@pytest.mark.parametrize(
    "made",
    [
        load_filter("audit", AUDIT),
        load_filter("audit", {**AUDIT, "topics": ["t"], "mode": "drop-and-count"}),
        load_filter("throttle", {"limits": [{"by": "topic", "fetch_bytes": 1}]}),
        load_filter("deny", {"rules": [{"when": "true", "api_name": ["CreateTopics"]}]}),
        Sizes(),
    ],
)
def test_filters_that_do_with_less_change_no_request(made: Filter) -> None:
    frame = fetch(12)
    assert sent(made, frame).frame is frame


@pytest.mark.parametrize("version", [4, 12, 13, 17])
def test_a_response_that_is_too_large_all_the_same_is_an_error_of_each_partition(version: int) -> None:
    """As a broker says it: not of the whole response, of which clients tell their users nothing."""
    runtime = GivenRuntime()
    runtime.kept["topic_names"] = {}
    chain = Chain([load_filter("mask", {"rules": [{"fields": ["$.a"]}]})], runtime=runtime, held_frame_size=2 * MOST)
    ids = {} if version < 13 else {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    name = {"topic": "t"} if version < 13 else ids
    topic = part("FetchRequest", "FetchTopic", partitions=[part("FetchRequest", "FetchPartition", partition=3)], **name)
    frame = request_frame("FetchRequest", version, make("FetchRequest", max_bytes=ASKED, topics=[topic]))
    outcome = chain.on_request(connection(), frame)
    assert isinstance(outcome, Send) and outcome.request is not None
    error = chain.refuse_large(connection(), outcome.request)
    assert isinstance(error, Send)
    answer: Any = message("FetchResponse").decode(version, error.frame[9 if version >= 12 else 8 :])
    assert [(p.partition_index, p.error_code) for t in answer.responses for p in t.partitions] == [
        (3, UNKNOWN_SERVER_ERROR)
    ]
    assert getattr(answer, "error_code", 0) == 0


def test_in_a_session_that_names_nothing_it_is_an_error_of_the_response() -> None:
    """The client begins another session then (FetchSessionHandler), and names all."""
    chain = Chain([load_filter("mask", {"rules": [{"fields": ["$.a"]}]})], runtime=GivenRuntime())
    asked = make("FetchRequest", max_bytes=ASKED, session_id=5, session_epoch=1)
    outcome = chain.on_request(connection(), request_frame("FetchRequest", 12, asked))
    assert isinstance(outcome, Send) and outcome.request is not None
    error = chain.refuse_large(connection(), outcome.request)
    assert isinstance(error, Send)
    answer: Any = message("FetchResponse").decode(12, error.frame[9:])
    assert (answer.error_code, answer.session_id) == (UNKNOWN_SERVER_ERROR, 5)


def test_an_error_in_place_of_a_large_response_goes_through_the_filters_before() -> None:
    audited = load_filter("audit", {**AUDIT, "topics": ["t"]})
    runtime = GivenRuntime()
    chain = Chain([audited, load_filter("mask", {"rules": [{"fields": ["$.a"]}]})], runtime=runtime)
    at = connection()
    outcome = chain.on_request(at, fetch(12))
    assert isinstance(outcome, Send) and outcome.request is not None
    assert isinstance(chain.refuse_large(at, outcome.request), Send)
    (line,) = runtime.journals["audit.jsonl"].fields()
    assert (line["api"], line["outcome"], line["errors"]) == ("Fetch", "failed", {"UNKNOWN_SERVER_ERROR": 1})


def test_a_line_of_audit_that_is_late_is_written_though_the_error_comes_too_late() -> None:
    audited = load_filter("audit", {**AUDIT, "topics": ["t"]})
    runtime = GivenRuntime()
    chain = Chain([audited, load_filter("mask", {"rules": [{"fields": ["$.a"]}]})], runtime=runtime)
    at, journal = connection(), runtime.journals["audit.jsonl"]
    outcome = chain.on_request(at, fetch(12))
    assert isinstance(outcome, Send) and outcome.request is not None
    journal.is_writable = False
    pending = chain.refuse_large(at, outcome.request)
    assert isinstance(pending, Awaitable)
    chain.on_close(at)
    journal.is_writable = True

    async def finish(outcome: Awaitable[Any]) -> None:
        await outcome

    asyncio.run(finish(pending))
    assert (journal.seen, journal.written, journal.dropped) == (1, 1, 0)


def test_what_only_observes_has_no_error_for_a_large_response() -> None:
    observing = BrokerClient(lambda response: Forward(), responses=(1,), fails_open=True)
    assert Chain([observing]).refuse_large(connection(), RequestFacts(1, 12, 7)) is None


def test_the_log_says_what_is_too_large_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain([load_filter("mask", {"rules": [{"fields": ["$.a"]}]})])
    assert chain.when_too_large_to_hold(Direction.RESPONSE, 1, 12, 20_000_000) is Want.REFUSE
    assert "20000000 bytes" in caplog.text
    assert "limits.held_frame_size" in caplog.text and "message.max.bytes" in caplog.text
