"""Fetch sessions that are known, and what they fetch; requests that ask for no more than can be held."""

from collections.abc import Awaitable
from typing import Any

import pytest

from kproxy.filters import fetching
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Direction, Filter, Forward, Request, RequestFacts, Response, Send, Want
from kproxy.filters.fetching import MOST, FetchedTopics, OpenedSessions
from kproxy.filters.loading import load_filter
from kproxy.protocol import ApiKey, message
from tests.support.filtering import GivenRuntime, Scripted, connection, settled
from tests.support.messages import make, request_frame

AT = connection()


def share(epoch: int, member: str = "m") -> Request:
    asked = make("ShareFetchRequest", group_id="g", member_id=member, share_session_epoch=epoch)
    return Request(AT, ApiKey.SHARE_FETCH, 1, 7, "app", asked)


def fetch(session_id: int, epoch: int) -> Request:
    return Request(AT, ApiKey.FETCH, 12, 7, "app", make("FetchRequest", session_id=session_id, session_epoch=epoch))


def answered(sessions: OpenedSessions, request: Request, **values: Any) -> None:
    name = "FetchResponse" if request.api_key == ApiKey.FETCH else "ShareFetchResponse"
    about = RequestFacts(request.api_key, request.api_version, 7, "app", request.message)
    sessions.note(Response(AT, about, make(name, **values)))


def code(sessions: OpenedSessions, request: Request) -> int | None:
    found: Any = sessions.refusal(request)
    return None if found is None else found.error_code


def test_share_sessions() -> None:
    sessions = OpenedSessions({ApiKey.SHARE_FETCH})
    assert code(sessions, share(1)) == 122
    assert code(sessions, share(0)) is None
    answered(sessions, share(0), error_code=30)
    assert code(sessions, share(1)) == 122, "the broker has not opened it"
    answered(sessions, share(0))
    assert [code(sessions, each) for each in (share(1), share(-1), share(1, "other"))] == [None, None, 122]
    sessions.forget(AT)
    assert code(sessions, share(2)) == 122


def test_an_answer_that_only_repeats_the_id_opens_nothing() -> None:
    sessions = OpenedSessions({ApiKey.FETCH})
    answered(sessions, fetch(5, 0), session_id=5)
    assert [code(sessions, each) for each in (fetch(5, 1), fetch(5, -1), fetch(0, 0))] == [70, None, None]


def test_what_is_remembered_of_a_connection_is_bounded() -> None:
    sessions = OpenedSessions({ApiKey.FETCH})
    for number in range(1, MOST + 2):
        answered(sessions, fetch(0, 0), session_id=number)
    assert [code(sessions, fetch(number, 1)) for number in (1, 2, MOST + 1)] == [70, None, None]


def test_other_apis_are_let_through() -> None:
    assert code(OpenedSessions(()), fetch(5, 3)) is None


def share_of(
    epoch: int, *topics: tuple[str, list[int]], forgotten: tuple[str, list[int]] | None = None, member: str = "m"
) -> Request:
    def partitions(numbers: list[int]) -> list[Any]:
        return [{"partition_index": number} for number in numbers]

    asked = [{"topic_id": id_, "partitions": partitions(n)} for id_, n in topics]
    gone = [{"topic_id": forgotten[0], "partitions": forgotten[1]}] if forgotten else []
    fields = {"group_id": "g", "member_id": member, "share_session_epoch": epoch}
    made = make("ShareFetchRequest", topics=asked, forgotten_topics_data=gone, **fields)
    return Request(AT, ApiKey.SHARE_FETCH, 1, 7, "app", made)


def names(fetched: dict[tuple[str, str], set[int]]) -> list[str]:
    return sorted(name or topic_id for name, topic_id in fetched)


def test_topics_of_share_sessions() -> None:
    fetched = FetchedTopics()
    assert names(fetched.note(share_of(0, ("A" * 22, [0, 1])))) == ["A" * 22]
    assert names(fetched.note(share_of(1, ("B" * 22, [0])))) == ["A" * 22, "B" * 22]
    assert names(fetched.note(share_of(2, forgotten=("A" * 22, [0])))) == ["A" * 22, "B" * 22]
    assert names(fetched.note(share_of(3, forgotten=("A" * 22, [1])))) == ["B" * 22]
    assert names(fetched.note(share_of(-1))) == []
    assert names(fetched.note(share_of(1))) == []


def fetch_of(
    epoch: int, version: int = 12, forgotten: dict[str, list[int]] | None = None, **topics: list[int]
) -> Request:
    asked = [
        {"topic": name, "partitions": [{"partition": index} for index in indexes]} for name, indexes in topics.items()
    ]
    gone = [{"topic": name, "partitions": indexes} for name, indexes in (forgotten or {}).items()]
    message = make("FetchRequest", session_epoch=epoch, topics=asked, forgotten_topics_data=gone)
    return Request(AT, ApiKey.FETCH, version, 7, "app", message)


def test_a_fetch_session_grows_and_shrinks_and_begins_anew() -> None:
    fetched = FetchedTopics()
    assert fetched.note(fetch_of(0, a=[0, 1], b=[0])) == {("a", ""): {0, 1}, ("b", ""): {0}}
    fetched.note(fetch_of(1, c=[3]))
    assert fetched.note(fetch_of(2, forgotten={"a": [0], "b": [0]})) == {("a", ""): {1}, ("c", ""): {3}}
    assert fetched.note(fetch_of(-1, d=[0])) == {("d", ""): {0}}
    assert fetched.note(fetch_of(0, version=4, e=[0])) == {("e", ""): {0}}


@pytest.mark.slow
def test_what_is_remembered_is_bounded() -> None:
    fetched = FetchedTopics()
    for round_ in range(3):
        for epoch in range(10):
            topics = fetched.note(share_of(epoch, (f"{epoch}" * 22, list(range(10_000)))))
        assert len(topics) == 5 + (epoch > 4), round_
    for number in range(2 * MOST):
        fetched.note(share_of(0, member=f"m{number}"))
        fetched.note(share_of(1, ("C" * 22, [0]), member=f"m{number}"))
    assert names(fetched.note(share_of(2, member="m1"))) == []
    assert names(fetched.note(share_of(2, member=f"m{2 * MOST - 1}"))) == ["C" * 22]


MOST_BYTES = 1_000
ASKED = 52_428_800  # fetch.max.bytes of Java's consumer and librdkafka
UNKNOWN_SERVER_ERROR = -1
AUDIT = {"file": {"path": "audit.jsonl"}}


class Sizes(Filter):
    """Holds Fetch responses, and can do without those that are too large."""

    responses = (1, 78)

    def wants_of_large(self, direction: Direction, api_key: int, api_version: int) -> Want:
        return Want.PASS


def sized_fetch(version: int, *names: str, size: int = ASKED) -> bytes:
    partitions = [{"partition": 3, "partition_max_bytes": size}]
    topics = [{"topic": name, "partitions": partitions} for name in names or ("t",)]
    return request_frame("FetchRequest", version, max_bytes=ASKED, topics=topics)


def sent(made: Filter, frame: bytes, held_frame_size: int = 2 * MOST_BYTES) -> Send:
    outcome = Chain([made], runtime=GivenRuntime(), held_frame_size=held_frame_size).on_request(connection(), frame)
    assert isinstance(outcome, Send)
    return outcome


def fetch_body(frame: bytes, version: int) -> Any:
    client_id = int.from_bytes(frame[12:14], "big")
    return message("FetchRequest").decode(version, frame[14 + client_id + (version >= 12) :])


def test_before_version_3_partitions_share_the_limit() -> None:
    sizes = (100, 600, 5_000, 5_000)
    asked = make("FetchRequest", topics=[{"partitions": [{"partition_max_bytes": size} for size in sizes]}])
    assert fetching.limit(asked, 2, MOST_BYTES)
    assert [each.partition_max_bytes for each in asked.topics[0].partitions] == [100, 250, 250, 250]
    assert not fetching.limit(asked, 2, MOST_BYTES)


def test_before_version_3_what_is_little_together_stays() -> None:
    partitions = [{"partition_max_bytes": size} for size in (100, 900)]
    asked = make("FetchRequest", topics=[{"partitions": partitions}])
    assert not fetching.limit(asked, 2, MOST_BYTES)


def test_share_fetches_are_limited() -> None:
    asked = make("ShareFetchRequest", max_bytes=5_000)
    assert fetching.limit_share(asked, MOST_BYTES)
    assert (asked.max_bytes, fetching.limit_share(asked, MOST_BYTES)) == (MOST_BYTES, False)


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
        assert fetch_body(sent(made, sized_fetch(version)).frame, version).max_bytes == MOST_BYTES
        fits = request_frame("FetchRequest", version, max_bytes=MOST_BYTES)
        assert sent(made, fits).frame is fits
    frame = request_frame("ShareFetchRequest", 1, max_bytes=ASKED)
    limited: Any = message("ShareFetchRequest").decode(1, sent(made, frame).frame[len(frame) - len(frame) + 18 :])
    assert limited.max_bytes == MOST_BYTES


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
    frame = sized_fetch(12)
    assert sent(made, frame).frame is frame


@pytest.mark.parametrize("version", [4, 12, 13, 17])
def test_a_response_that_is_too_large_all_the_same_is_an_error_of_each_partition(version: int) -> None:
    """As a broker says it: not of the whole response, of which clients tell their users nothing."""
    runtime = GivenRuntime()
    runtime.kept["topic_names"] = {}
    chain = Chain(
        [load_filter("mask", {"rules": [{"fields": ["$.a"]}]})], runtime=runtime, held_frame_size=2 * MOST_BYTES
    )
    ids = {} if version < 13 else {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    name = {"topic": "t"} if version < 13 else ids
    topic = {"partitions": [{"partition": 3}], **name}
    frame = request_frame("FetchRequest", version, max_bytes=ASKED, topics=[topic])
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
    outcome = chain.on_request(at, sized_fetch(12))
    assert isinstance(outcome, Send) and outcome.request is not None
    assert isinstance(chain.refuse_large(at, outcome.request), Send)
    (line,) = runtime.journals["audit.jsonl"].fields()
    assert (line["api"], line["outcome"], line["errors"]) == ("Fetch", "failed", {"UNKNOWN_SERVER_ERROR": 1})


def test_a_line_of_audit_that_is_late_is_written_though_the_error_comes_too_late() -> None:
    audited = load_filter("audit", {**AUDIT, "topics": ["t"]})
    runtime = GivenRuntime()
    chain = Chain([audited, load_filter("mask", {"rules": [{"fields": ["$.a"]}]})], runtime=runtime)
    at, journal = connection(), runtime.journals["audit.jsonl"]
    outcome = chain.on_request(at, sized_fetch(12))
    assert isinstance(outcome, Send) and outcome.request is not None
    journal.is_writable = False
    pending = chain.refuse_large(at, outcome.request)
    assert isinstance(pending, Awaitable)
    chain.on_close(at)
    journal.is_writable = True
    settled(pending)
    assert (journal.seen, journal.written, journal.dropped) == (1, 1, 0)


def test_what_only_observes_has_no_error_for_a_large_response() -> None:
    observing = Scripted(lambda response: Forward(), responses=(1,), fails_open=True)
    assert Chain([observing]).refuse_large(connection(), RequestFacts(1, 12, 7)) is None


def test_the_log_says_what_is_too_large_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain([load_filter("mask", {"rules": [{"fields": ["$.a"]}]})])
    assert chain.when_too_large_to_hold(Direction.RESPONSE, 1, 12, 20_000_000) is Want.REFUSE
    assert "20000000 bytes" in caplog.text
    assert "limits.held_frame_size" in caplog.text and "message.max.bytes" in caplog.text
