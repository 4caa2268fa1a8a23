"""Finding responses among other bytes: which signs are enough."""

from struct import pack

import pytest

from kproxy.session.exchanges import Route, route_of
from kproxy.session.limits import Limits
from kproxy.session.response_hunting import ResponseHunt, Sought
from tests.support.frames import frame, heartbeat_answer, produce_answer

LIMIT = Limits().frame_size


def route(api_key: int, api_version: int) -> Route:
    found = route_of(api_key, api_version)
    assert found is not None
    return found


HEARTBEATS: list[Sought] = [(70_001, route(12, 0)), (70_002, route(12, 0))]


def hunted(*segments: bytes, sought: list[Sought] = HEARTBEATS, end: bool = True) -> int | None:
    """How many bytes are passed over before the response found in segments; None: none is."""
    hunt = ResponseHunt(LIMIT, 0, lambda: sought)
    for at, segment in enumerate(segments):
        if hunt.feed(segment, at):
            return hunt.skipped
    return hunt.skipped if end and hunt.finish() else None


def test_a_response_is_found_by_the_correlation_id_and_its_body() -> None:
    noise = b"\0\0\x01" + produce_answer(70_001) + heartbeat_answer(7)
    assert hunted(noise, heartbeat_answer(70_002)) == len(noise)
    assert hunted(noise + heartbeat_answer(70_002)) == len(noise)  # the segment ends with it
    assert hunted(noise + heartbeat_answer(70_002) + b"\0", end=False) is None
    assert hunted(noise + heartbeat_answer(70_001) + heartbeat_answer(70_002)[:9]) == len(noise)
    assert hunted(noise + heartbeat_answer(70_001) + bytes(20)) is None


def test_without_requests_in_flight_nothing_is_a_response() -> None:
    assert hunted(heartbeat_answer(1) * 50, sought=[]) is None


def test_a_negative_correlation_id_is_looked_for_too() -> None:
    assert hunted(b"??", heartbeat_answer(-5), sought=[(-5, route(12, 0))]) == 2


def test_a_large_response_that_begins_a_segment_is_waited_for() -> None:
    """Not what is inside of it, although that would fit to the last byte."""
    inside = heartbeat_answer(2) * 4
    fetched = frame(pack(">iih1siihqi", 1, 1, 1, b"t", 1, 0, 0, 9, len(inside)) + inside)
    sought = [(1, route(1, 0)), (2, route(12, 0))]
    assert hunted(fetched[:40], fetched[40:60], end=False, sought=sought) is None
    assert hunted(fetched[:40], fetched[40:60], fetched[60:], end=False, sought=sought) == 0
    assert hunted(fetched[:40], sought=sought) == 0


def test_the_response_to_an_api_newer_than_the_facts_fills_segments() -> None:
    assert hunted(b"?", heartbeat_answer(5), end=False, sought=[(5, None)]) == 1
    assert hunted(b"?" + heartbeat_answer(5), end=False, sought=[(5, None)]) is None


@pytest.mark.parametrize("count", [0, 1, 300_000])
def test_runs_of_small_numbers_cost_little_and_hold_little(count: int) -> None:
    hunt = ResponseHunt(1_000, 0, lambda: [(0, route(12, 0)), (4, route(12, 0))])
    data = b"\0\0\0\4" * count
    for start in range(0, len(data), 1_448):
        hunt.feed(data[start : start + 1_448], start, begins=start % 3 == 0)
    assert hunt.held < 3_000
