"""Which fetch sessions are known: those that were opened here, on the same connection."""

from typing import Any

from kproxy.filters.contract import Request, RequestFacts, Response
from kproxy.filters.fetch_sessions import MOST, AskedTopics, OpenedSessions
from kproxy.protocol import ApiKey
from tests.support.filtering import connection, make, part

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
        return [part("ShareFetchRequest", "FetchPartition", partition_index=number) for number in numbers]

    asked = [part("ShareFetchRequest", "FetchTopic", topic_id=id_, partitions=partitions(n)) for id_, n in topics]
    gone = (
        [part("ShareFetchRequest", "ForgottenTopic", topic_id=forgotten[0], partitions=forgotten[1])]
        if forgotten
        else []
    )
    made = make("ShareFetchRequest", group_id="g", member_id=member, share_session_epoch=epoch, topics=asked)
    made.forgotten_topics_data = gone
    return Request(AT, ApiKey.SHARE_FETCH, 1, 7, "app", made)


def test_topics_of_share_sessions() -> None:
    asked = AskedTopics()
    assert asked.note(share_of(0, ("A" * 22, [0, 1]))) == ["A" * 22]
    assert sorted(asked.note(share_of(1, ("B" * 22, [0])))) == ["A" * 22, "B" * 22]
    assert sorted(asked.note(share_of(2, forgotten=("A" * 22, [0])))) == ["A" * 22, "B" * 22]
    assert asked.note(share_of(3, forgotten=("A" * 22, [1]))) == ["B" * 22]
    assert asked.note(share_of(-1)) == []
    assert asked.note(share_of(1)) == []


def test_what_is_remembered_is_bounded() -> None:
    asked = AskedTopics()
    for round_ in range(3):
        for epoch in range(10):
            topics = asked.note(share_of(epoch, (f"{epoch}" * 22, list(range(10_000)))))
        assert len(topics) == 5 + (epoch > 4), round_
    for number in range(2 * MOST):
        asked.note(share_of(0, member=f"m{number}"))
        asked.note(share_of(1, ("C" * 22, [0]), member=f"m{number}"))
    assert asked.note(share_of(2, member="m1")) == []
    assert asked.note(share_of(2, member=f"m{2 * MOST - 1}")) == ["C" * 22]
