"""Frames that a filter does not want, as their header says, go on without it; others still get them."""

from collections.abc import Awaitable

from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts, Direction, Forward, Outcome, RequestFacts, Send
from kproxy.protocol import message
from tests.support.filtering import Asking, connection, make, response_frame
from tests.support.frames import request

PRODUCE = 0
BODY = message("ProduceRequest").encode(9, make("ProduceRequest", acks=-1))
ANSWER = response_frame(PRODUCE, 9, message("ProduceResponse").encode(9, make("ProduceResponse")))


class OfOneClient(Asking):
    """Wants what the client "app" sends and gets."""

    name = "of one client"

    def wants_frame(self, connection: ConnectionFacts, direction: Direction, request: RequestFacts) -> bool:
        if request.client_id == "broken":
            raise RuntimeError("broken")
        return request.client_id == "app"


def of_one_client() -> OfOneClient:
    return OfOneClient(lambda _: Forward(), requests={PRODUCE}, responses={PRODUCE}, fails_open=True)


def asked(client_id: str, body: bytes = BODY) -> bytes:
    return request(PRODUCE, 9, 7, body, tags=b"\0", client_id=client_id)


def at_once(outcome: Outcome | Awaitable[Outcome]) -> Send:
    assert isinstance(outcome, Send)
    return outcome


def test_a_frame_that_no_filter_wants_is_not_read() -> None:
    filter_ = of_one_client()
    chain = Chain([filter_])
    unreadable = asked("other", b"no Produce")
    assert at_once(chain.on_request(connection(), unreadable)).frame is unreadable
    assert not filter_.seen
    assert not chain.faults
    chain.on_request(connection(), asked("app", b"no Produce"))
    assert chain.faults == {"of one client": 1}


def test_others_get_it_and_the_request_is_kept_for_who_wants_it() -> None:
    first, second = of_one_client(), Asking(lambda _: Forward(), requests={PRODUCE}, responses={PRODUCE})
    chain, alone = Chain([first, second]), Chain([first, Asking(lambda _: Forward(), requests={PRODUCE})])
    for client_id, seen in (("other", 0), ("app", 2)):
        first.seen.clear()
        sent = at_once(chain.on_request(connection(), asked(client_id)))
        assert sent.request is not None
        assert sent.request.message is not None
        at_once(chain.on_response(connection(), sent.request, ANSWER))
        assert len(first.seen) == seen
        sent = at_once(alone.on_request(connection(), asked(client_id)))
        assert sent.request is not None
        assert (sent.request.message is None) is (seen == 0)
    assert len(second.seen) == 4


def test_a_filter_that_fails_to_say_gets_the_frame() -> None:
    filter_ = of_one_client()
    chain = Chain([filter_])
    at_once(chain.on_request(connection(), asked("broken")))
    assert len(filter_.seen) == 1
    assert chain.faults == {"of one client": 1}


def test_a_request_without_a_readable_header_is_a_fault_of_who_wants_it() -> None:
    filter_ = of_one_client()
    chain = Chain([filter_])
    frame = asked("other")[:14]
    assert at_once(chain.on_request(connection(), frame)).frame == frame
    assert chain.faults == {"of one client": 1}
