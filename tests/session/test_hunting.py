"""What every hunt does with bytes, whatever it looks for: positions, segments, bounds."""

import random

import pytest

from kproxy.session.hunting import MOST_CANDIDATES, Hunt
from kproxy.session.limits import Limits
from kproxy.session.request_hunting import RequestHunt
from tests.support.frames import heartbeat

LIMIT = Limits().frame_size


def feed(hunt: Hunt, data: bytes, chunk: int, *, begins: bool = False) -> int | None:
    """How many bytes the hunt passed over before the frame it found; None when it found none."""
    for start in range(0, len(data), chunk):
        if hunt.feed(data[start : start + chunk], start, begins=begins):
            return hunt.skipped
    return None


def test_the_bytes_held_begin_with_the_frame_and_have_their_times_and_segments() -> None:
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(b"xy", 1)
    assert not hunt.feed(b"z" + heartbeat(1)[:9], 2)
    assert not hunt.feed(heartbeat(1)[9:], 3, begins=False)
    assert hunt.feed(heartbeat(2), 4)
    assert list(hunt.rest()) == [(heartbeat(1)[:9], 2, False), (heartbeat(1)[9:], 3, False), (heartbeat(2), 4, True)]
    assert hunt.skipped == 3 and hunt.held == 2 * len(heartbeat(1))


def test_what_was_given_up_before_counts_as_passed_over() -> None:
    hunt = RequestHunt(LIMIT, 40)
    hunt.feed(b"xy", 1)
    assert hunt.feed(heartbeat(1), 2)
    assert hunt.skipped == 42


def test_giving_up_passes_over_what_is_held() -> None:
    hunt = RequestHunt(LIMIT, 0)
    hunt.feed(heartbeat(1)[:20], 1)
    hunt.give_up()
    assert hunt.skipped == 20 and list(hunt.rest()) == []


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize(
    "noise",
    [
        bytes(300_000),
        b"\xff" * 300_000,
        random.Random(3).randbytes(300_000),
        heartbeat(1)[:16] * 9_000,
        b"\0\0\0\x14" * 75_000,
        (b"\0\0\0\x14" + bytes(20)) * 12_000,
        heartbeat(1) * 3 + b"\xff",
    ],
)
def test_little_is_held_of_bytes_without_frames(noise: bytes, begins: bool) -> None:
    hunt = RequestHunt(1_000, 0)
    if feed(hunt, noise, 1_448, begins=begins) is None:
        assert hunt.held < 3 * 1_004 + 1_448 and len(list(hunt.rest())) < 6


def test_walks_through_hostile_candidates_stop_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that each claim all the rest: without a bound the walks would be quadratic in the stream."""
    walked = []
    read = RequestHunt._bytes

    def counted(hunt: RequestHunt, start: int, stop: int) -> bytes:
        walked.append(stop - start)
        return read(hunt, start, stop)

    monkeypatch.setattr(RequestHunt, "_bytes", counted)
    candidate = (100_000).to_bytes(4, "big") + heartbeat(1)[4:17] + b"\xff\xff"
    stream = candidate * 40_000
    for begins in (False, True):
        walked.clear()
        assert feed(RequestHunt(LIMIT, 0), stream, 4_096, begins=begins) is None
        assert 0 < sum(walked) < 16 * len(stream) + (2 << 20)


def test_of_too_many_candidates_those_that_say_least_are_dropped() -> None:
    """A request without a name, beside more places than are kept that claim half a megabyte each and could be requests."""
    claims = (500_000).to_bytes(4, "big") + heartbeat(1)[4:17] + b"\x7f\xff"
    hunt = RequestHunt(LIMIT, 0)
    hunt.feed(b"?" + claims * (2 * MOST_CANDIDATES), 1)
    assert len(hunt._candidates) <= MOST_CANDIDATES
    assert hunt.feed(heartbeat(2), 2)
