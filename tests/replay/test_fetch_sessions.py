"""Fetch sessions before a broker that numbers them otherwise, refuses them, or forgets them (KIP-227)."""

from typing import Any

from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.structs import struct_types
from kproxy.replay.fetch_sessions import FetchSessions
from kproxy.session import FetchPartition, FetchSession

TYPES = struct_types("FetchRequest")


def request(session: int, epoch: int, **offsets: int) -> Any:
    """A Fetch of topic t: partition p0=offset, p1=offset."""
    partitions = [TYPES["FetchPartition"](partition=int(p[1:]), fetch_offset=o) for p, o in offsets.items()]
    topics = [TYPES["FetchTopic"](topic="t", partitions=partitions)] if partitions else []
    return TYPES["FetchRequest"](session_id=session, session_epoch=epoch, topics=topics)


def answer(session: int, error: int = 0) -> Any:
    return struct_types("FetchResponse")["FetchResponse"](session_id=session, error_code=error)


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
    forgetting.forgotten_topics_data = [TYPES["ForgottenTopic"](topic="t", partitions=[1])]
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
