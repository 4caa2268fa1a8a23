"""Finding frames among other bytes."""

import os
import random

import pytest

from kproxy.session.exchanges import Route, route_of
from kproxy.session.hunting import Hunt, RequestHunt, ResponseHunt
from kproxy.session.limits import Limits
from tests.support.frames import heartbeat, heartbeat_answer, metadata, produce_answer, sasl_authenticate

LIMIT = Limits().frame_size


def route(api_key: int, api_version: int) -> Route:
    found = route_of(api_key, api_version)
    assert found is not None
    return found


def feed(hunt: Hunt, data: bytes, chunk: int) -> int | None:
    """How many bytes the hunt passed over before the frame it found; None when it found none."""
    for start in range(0, len(data), chunk):
        if hunt.feed(data[start : start + chunk], start):
            return hunt.skipped
    return None


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_a_request_is_found_behind_other_bytes(chunk: int) -> None:
    noise = random.Random(5).randbytes(3_000)
    assert feed(RequestHunt(LIMIT, 0), noise + metadata(9), chunk) == 3_000


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_a_false_beginning_that_claims_much_does_not_hide_a_request(chunk: int) -> None:
    false = (50_000_000).to_bytes(4, "big") + heartbeat(1)[4:]
    assert feed(RequestHunt(LIMIT, 0), false + heartbeat(2), chunk) == len(false)


def test_a_request_is_not_found_until_it_is_whole_and_not_when_it_is_damaged() -> None:
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(heartbeat(1)[:-1], 1)
    assert hunt.feed(heartbeat(1)[-1:], 2)
    assert list(hunt.rest()) == [(heartbeat(1)[:-1], 1), (heartbeat(1)[-1:], 2)]
    damaged = heartbeat(1)[:-5] + b"\x7f" + heartbeat(1)[-4:]
    assert feed(RequestHunt(LIMIT, 0), damaged, 100) is None


@pytest.mark.parametrize("chunk", [1, 100])
def test_a_response_is_found_by_the_correlation_id_and_its_body(chunk: int) -> None:
    hunt = ResponseHunt(LIMIT, 0, lambda: [(70_001, route(12, 0)), (70_002, route(12, 0))])
    data = b"\0\0\x01" + produce_answer(70_001) + heartbeat_answer(7) + heartbeat_answer(70_002)
    assert feed(hunt, data, chunk) == len(data) - 10


def test_without_requests_in_flight_nothing_is_a_response() -> None:
    assert feed(ResponseHunt(LIMIT, 0, lambda: []), heartbeat_answer(1) * 50, 100) is None


def test_a_negative_correlation_id_is_looked_for_too() -> None:
    assert feed(ResponseHunt(LIMIT, 0, lambda: [(-5, route(12, 0))]), b"??" + heartbeat_answer(-5), 100) == 2


def test_what_was_given_up_before_counts_as_passed_over() -> None:
    assert feed(RequestHunt(LIMIT, 40), b"xy" + heartbeat(1), 100) == 42


def test_giving_up_passes_over_what_is_held() -> None:
    hunt = RequestHunt(LIMIT, 0)
    hunt.feed(heartbeat(1)[:20], 1)
    hunt.give_up()
    assert hunt.skipped == 20 and list(hunt.rest()) == []


@pytest.mark.parametrize("noise", [bytes(300_000), b"\xff" * 300_000, os.urandom(300_000), heartbeat(1)[:16] * 9_000])
def test_little_is_held_of_bytes_without_frames(noise: bytes) -> None:
    hunt = RequestHunt(1_000, 0)
    feed(hunt, noise, 1_448)
    assert sum(len(data) for data, _ in hunt.rest()) < 1_004 + 1_448


def test_walks_through_hostile_candidates_stop_in_time() -> None:
    """Candidates that each claim all the rest: without a bound the walks would be quadratic in the stream."""
    walks = []

    class Counted(RequestHunt):
        __slots__ = ()

        def _judge(self, data: bytes) -> bool:
            walks.append(len(data))
            return super()._judge(data)

    candidate = (100_000).to_bytes(4, "big") + heartbeat(1)[4:17] + b"\xff\xff"
    stream = candidate * 40_000
    assert feed(Counted(LIMIT, 0), stream, 4_096) is None
    assert 0 < sum(walks) < 8 * len(stream) + (1 << 20)


@pytest.mark.parametrize("chunk", [1, 5, 1_000])
def test_of_two_frames_one_inside_the_other_the_first_to_be_whole_wins_in_any_chunking(chunk: int) -> None:
    outer = sasl_authenticate(1, b"token " + heartbeat(2) + b" token")
    assert feed(RequestHunt(LIMIT, 0), outer, chunk) == outer.index(heartbeat(2))
