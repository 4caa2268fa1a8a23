"""Who is the client, told by requests or by answers to them."""

import random
import struct

import pytest

from kproxy.pipeline.sides import Sides
from tests.support.frames import heartbeat, heartbeat_answer, produce_answer

# The response to InitProducerId v5 in captures/01: to its last byte it reads as Produce v4 without transactions and topics
ZEROS = bytes.fromhex("00000016 00000004 00000000 0000 0000 0000 0000 0000 0000 0000 0000")
HELD = 100_000


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("direction", [0, 1])
def test_a_request_with_a_client_id_settles_it(direction: int) -> None:
    assert Sides(HELD).read(direction, heartbeat(7)) == direction


def test_zeros_alone_settle_nothing() -> None:
    sides = Sides(HELD)
    assert sides.read(1, ZEROS) is None
    assert sides.read(1, ZEROS) is None
    assert sides.read(0, heartbeat(5)) == 0


def test_a_request_without_client_id_is_settled_by_its_answer() -> None:
    sides = Sides(HELD)
    request = frame(struct.pack(">hhihh", 18, 0, 77, -1, 0)[:10])  # ApiVersions v0 of nobody
    assert sides.read(1, request) is None
    assert sides.read(0, frame(struct.pack(">ihi", 77, 0, 0))) == 1


def test_without_an_answer_the_end_settles_it() -> None:
    sides = Sides(HELD)
    assert sides.read(1, heartbeat(7, client_id=None)) is None
    assert sides.claimed() == 1


def test_requests_within_segments_settle_it_too() -> None:
    sides = Sides(HELD)
    noise = random.Random(1).randbytes(1_400)
    assert sides.read(1, noise + heartbeat(7)[:20]) is None
    assert sides.read(0, produce_answer(6)) is None
    assert sides.read(1, heartbeat(7)[20:]) is None
    assert sides.held(1) == len(heartbeat(7))
    assert sides.read(0, heartbeat_answer(7)) == 1


def test_bytes_that_are_missing_part_what_comes_before_and_after() -> None:
    sides = Sides(HELD)
    assert sides.read(1, b"?" + heartbeat(7)[:20]) is None
    sides.interrupt(1)
    assert sides.held(1) == 0
    assert sides.read(1, heartbeat(7)[20:]) is None
    assert sides.claimed() is None


def test_an_answer_may_come_after_bytes_of_the_client_are_missing() -> None:
    sides = Sides(HELD)
    assert sides.read(1, heartbeat(7, client_id=None)) is None
    assert sides.interrupt(1) is None
    assert sides.read(0, heartbeat_answer(7)) == 1


def test_nothing_is_claimed_by_what_is_no_request() -> None:
    sides = Sides(HELD)
    assert sides.read(0, b"log line\n" * 20) is None
    assert sides.claimed() is None


def test_what_is_held_is_bounded() -> None:
    sides = Sides(1_000)
    claims = (50_000_000).to_bytes(4, "big") + heartbeat(1)[4:17]
    for _ in range(100):
        sides.read(0, b"?" + claims + bytes(1_000))
    assert sides.held(0) < 2_000


def cut_request(correlation_id: int, version: int = 5) -> bytes:
    """The first 18 bytes of a request of 104, for which a snaplen left no more."""
    return struct.pack(">ihhih", 100, 3, version, correlation_id, 12) + b"app-"


def test_two_requests_cut_inside_the_name_of_the_same_client_settle_it() -> None:
    sides = Sides(HELD)
    assert sides.read(1, cut_request(7)) is None and sides.interrupt(1, 86) is None
    assert sides.read(1, cut_request(8)) is None and sides.interrupt(1, 86) == 1


def test_a_cut_request_is_settled_by_its_cut_answer() -> None:
    sides = Sides(HELD)
    assert sides.read(1, cut_request(7)) is None and sides.interrupt(1, 86) is None
    answer = struct.pack(">iii", 500, 7, 0) + struct.pack(">ii", 1, 1)
    assert sides.read(0, answer) is None and sides.interrupt(0, 484) == 1


def test_responses_of_old_brokers_that_read_as_cut_requests_settle_nothing() -> None:
    sides = Sides(HELD)
    for correlation_id in (4, 5, 6):  # reads as Produce v4, v5, v6 with correlation id 1 of the client "t09c"
        answer = struct.pack(">iiih", 50, correlation_id, 1, 4) + b"t09c" + struct.pack(">ii", 2, 0)
        assert sides.read(0, answer) is None and sides.interrupt(0, 54 - len(answer)) is None
    assert sides.read(1, cut_request(6)) is None
    assert sides.interrupt(1, 86) is None and sides.claimed() is None
