"""Incremental fetch sessions (KIP-227)."""

from kproxy.protocol import request_message, response_message
from kproxy.session.endings import Cut
from kproxy.session.exchanges import Frame, decoded, read_body
from kproxy.session.fetch_session import FetchSessions
from tests.support.frames import fetch, fetch_answer


def note(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    *,
    partitions: tuple[tuple[int, int], ...] = (),
    forgotten: tuple[int, ...] = (),
    given: int = 77,
) -> int:
    request = Frame(fetch(1, session_id, epoch, partitions=partitions, forgotten=forgotten)[4:], 0, 0, None, 13)
    read_body(request, request_message(1), 7)
    response = Frame(fetch_answer(1, given)[4:], 0, 0, None, 4)
    read_body(response, response_message(1), 7)
    assert request.error is None and response.error is None
    return sessions.note(request, response)


def offsets(sessions: FetchSessions, number: int) -> dict[int, int]:
    session = sessions.at(number)
    assert session is not None
    return {entry.partition: entry.fetch_offset for entry in session.partitions}


def test_a_request_that_somebody_else_read_counts_alike() -> None:
    sessions = FetchSessions(1_000)
    note(sessions, 0, 0, partitions=((0, 10), (1, 20)))
    request = Frame(fetch(1, 77, 1, partitions=((1, 25),), forgotten=(0,))[4:], 0, 0, None, 13)
    read_body(request, request_message(1), 7)
    number = sessions.note_body(77, decoded(request))
    assert number == 2
    assert offsets(sessions, number) == {1: 25}


def test_of_a_session_in_which_a_request_was_cut_only_what_came_later_is_known() -> None:
    whole = fetch(1, 77, 1, partitions=((1, 25),), forgotten=(0,))[4:]
    sessions = FetchSessions(1_000)
    note(sessions, 0, 0, partitions=((0, 10), (1, 20)))
    cut = Frame(whole[:45], 0, 0, None, 13, cut=Cut.SNAPLEN, size=len(whole))
    cut.message, cut.body_version = request_message(1), 7
    session = sessions.at(sessions.note(cut, None))
    assert session is not None and (session.epoch, session.whole, session.partitions) == (1, False, [])
    later = sessions.at(note(sessions, 77, 2, partitions=((6, 60),)))
    assert later is not None and [one.partition for one in later.partitions] == [6] and not later.whole


def test_a_broker_that_gives_no_session_keeps_none() -> None:
    sessions = FetchSessions(1_000)
    assert note(sessions, 0, 0, partitions=((0, 10),), given=0) == 0
    assert note(sessions, 0, -1, partitions=((0, 10),), given=0) == 0
    assert sessions.at(0) is None and sessions.at(1) is None


def test_requests_far_back_are_forgotten_and_their_changes_kept() -> None:
    sessions = FetchSessions(1_000)
    first = note(sessions, 0, 0, partitions=((0, 10), (1, 20)))
    for epoch in range(1, 100):
        last = note(sessions, 77, epoch, partitions=((1, 20 + epoch),))
    assert sessions.at(first) is None
    assert offsets(sessions, last) == {0: 10, 1: 119}


def test_partitions_are_bounded_and_the_session_then_says_so() -> None:
    sessions = FetchSessions(10)
    note(sessions, 0, 0, partitions=tuple((number, 0) for number in range(8)))
    session = sessions.at(note(sessions, 77, 1, partitions=tuple((number, 0) for number in range(8, 16))))
    assert session is not None
    assert len(session.partitions) == 10 and not session.whole


def test_a_request_that_cannot_be_read_belongs_to_no_session() -> None:
    assert FetchSessions(10).note(Frame(b"??", 0, 0), None) == 0
