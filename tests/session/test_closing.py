"""Who ended a connection, in words."""

from kproxy.protocol import Direction
from kproxy.session.closing import CAPTURE_ENDED, before_response, inside, who_closed


def test_it_is_said_who_sent_fin_or_rst() -> None:
    assert who_closed(Direction.REQUEST, reset=False) == "the client closed the connection"
    assert who_closed(Direction.RESPONSE, reset=True) == "the broker reset the connection"


def test_it_is_said_what_was_in_flight() -> None:
    assert before_response(CAPTURE_ENDED) == "the capture ended before the response"
    assert inside(who_closed(Direction.REQUEST, reset=True), "response") == (
        "the client reset the connection inside the response"
    )
