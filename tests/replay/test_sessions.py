"""Fetch sessions (KIP-227) and share sessions before a broker that numbers them otherwise, refuses them, or forgets them."""

from typing import Any

from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.sessions import FINAL, LAST, FetchSessions, ShareSessions, acquires_later
from kproxy.session import FetchPartition, FetchSession
from tests.support.messages import make
from tests.support.replayed import recorded


def request(session: int, epoch: int, **offsets: int) -> Any:
    """A Fetch of topic t: partition p0=offset, p1=offset."""
    partitions = [{"partition": int(p[1:]), "fetch_offset": o} for p, o in offsets.items()]
    topics = [{"topic": "t", "partitions": partitions}] if partitions else []
    return make("FetchRequest", session_id=session, session_epoch=epoch, topics=topics)


def answer(session: int, error: int = 0) -> Any:
    return make("FetchResponse", session_id=session, error_code=error)


def asked(fetch: Any) -> dict[int, int]:
    return {one.partition: one.fetch_offset for topic in fetch.topics for one in topic.partitions}


def opened(new_id: int) -> FetchSessions:
    sessions = FetchSessions()
    first = request(0, 0, p0=10, p1=20)
    assert not sessions.translate(first, None)
    sessions.learn(first, answer(500), answer(new_id))
    return sessions


def test_its_id_and_epochs() -> None:
    sessions = opened(901)
    for epoch in (1, 2):
        fetch = request(500, epoch, p0=11)
        assert sessions.translate(fetch, None)
        assert (fetch.session_id, fetch.session_epoch, asked(fetch)) == (901, epoch, {0: 11})


def test_one_that_is_sent_again_has_the_next_epoch() -> None:
    sessions = opened(901)
    first, second = request(500, 1, p0=11), request(500, 2)
    sessions.translate(first, None)
    assert sessions.again(first) and first.session_epoch == 2
    assert sessions.translate(second, None) and second.session_epoch == 3
    last = request(500, -1)
    sessions.translate(last, None)
    assert not sessions.again(first)  # it was ended


def test_a_broker_without_room_for_it_is_asked_in_full() -> None:
    sessions = opened(0)
    fetch = request(500, 1, p0=11)
    sessions.translate(fetch, None)
    assert (fetch.session_id, fetch.session_epoch, asked(fetch)) == (0, -1, {0: 11, 1: 20})
    forgetting = request(500, 2)
    forgetting.forgotten_topics_data = [make("FetchRequest", "ForgottenTopic", topic="t", partitions=[1])]
    sessions.translate(forgetting, None)
    assert (asked(forgetting), forgetting.forgotten_topics_data) == ({0: 11}, [])


def test_a_session_that_the_broker_has_forgotten() -> None:
    sessions = opened(901)
    sessions.learn(request(500, 1), answer(500), answer(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    fetch = request(500, 2)
    sessions.translate(fetch, None)
    assert (fetch.session_epoch, asked(fetch)) == (-1, {0: 10, 1: 20})


def test_requests_before_it_that_are_not_sent() -> None:
    fetch = request(500, 7, p0=11)
    full = FetchSession(500, 7, [FetchPartition("t", 0, 11, 99), FetchPartition("t", 3, 33, 99)])
    assert FetchSessions().translate(fetch, full)
    assert (fetch.session_id, fetch.session_epoch, asked(fetch)) == (0, -1, {0: 11, 3: 33})


def test_its_end_and_fetches_without_one() -> None:
    sessions = opened(901)
    last = request(500, -1)
    assert sessions.translate(last, None) and (last.session_id, last.session_epoch) == (901, -1)
    alone = request(0, -1, p0=1)
    assert not sessions.translate(alone, None)


def share_fetch(epoch: int) -> Any:
    return make("ShareFetchRequest", share_session_epoch=epoch, topics=[{}])


def test_epochs_go_on_after_one_that_was_sent_again() -> None:
    session = ShareSessions()
    first, second, third = share_fetch(0), share_fetch(1), share_fetch(2)
    assert not session.translate(first)
    session.ask_again(first)
    assert (first.share_session_epoch, first.topics) == (1, [])
    assert session.translate(second) and second.share_session_epoch == 2
    assert session.translate(third) and third.share_session_epoch == 3


def test_a_session_that_begins_or_ends() -> None:
    session = ShareSessions(epoch=7)
    last, new, next_one = share_fetch(FINAL), share_fetch(0), share_fetch(1)
    assert not session.translate(last) and last.share_session_epoch == FINAL
    assert not session.translate(new) and not session.translate(next_one) and next_one.share_session_epoch == 1


def test_after_the_last_epoch_comes_the_first() -> None:
    session = ShareSessions(epoch=LAST)
    one, other = share_fetch(5), share_fetch(6)
    session.translate(one)
    session.translate(other)
    assert (one.share_session_epoch, other.share_session_epoch) == (LAST, 1)


def test_only_a_share_fetch_is_sent_again() -> None:
    assert not acquires_later(recorded(1).requests[0], share_fetch(1), None)
