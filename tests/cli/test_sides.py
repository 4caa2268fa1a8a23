"""Who is the client, told by requests, by answers to them, or by responses alone."""

import struct

import pytest

from kproxy.cli.sides import CLAIMS, ResponseChain, Sides
from tests.support.frames import heartbeat, heartbeat_answer

# The response to InitProducerId v5 in captures/01: to its last byte it reads as Produce v4 without transactions and topics
ZEROS = bytes.fromhex("00000016 00000004 00000000 0000 0000 0000 0000 0000 0000 0000 0000")


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_a_request_with_a_client_id_settles_it() -> None:
    assert Sides().read(1, heartbeat(7)) == 1
    assert Sides().read(0, heartbeat(7)) == 0


def test_zeros_alone_settle_nothing_at_once() -> None:
    sides = Sides()
    assert sides.read(1, ZEROS) is None
    assert sides.read(0, heartbeat(5)) == 0


def test_a_request_without_client_id_is_settled_by_its_answer() -> None:
    sides = Sides()
    request = frame(struct.pack(">hhihh", 18, 0, 77, -1, 0)[:10])  # ApiVersions v0 of nobody
    assert sides.read(1, request) is None
    assert sides.claimed() == 1
    assert sides.read(0, frame(struct.pack(">ihi", 77, 0, 0))) == 1


def test_nothing_is_claimed_by_what_is_no_request() -> None:
    sides = Sides()
    assert sides.read(0, b"log line\n" * 20) is None
    assert (sides.claimed(), sides.of_responses_alone()) == (None, None)


def test_claims_are_bounded() -> None:
    sides = Sides()
    for number in range(10 * CLAIMS):
        sides.read(0, frame(struct.pack(">hhih", 18, 0, number + 1, -1)))
    assert len(sides._claims[0]) == CLAIMS


@pytest.mark.parametrize("step", [1, 3, 8, 1000])
@pytest.mark.parametrize("direction", [0, 1])
def test_responses_alone_are_the_brokers(direction: int, step: int) -> None:
    sides = Sides()
    data = b"".join(map(heartbeat_answer, (4, 3, 5)))  # the connections of a Java client share one counter
    for at in range(0, len(data), step):
        sides.read(direction, data[at : at + step])
    assert sides.of_responses_alone() == 1 - direction
    sides.read(1 - direction, b"x")
    assert sides.of_responses_alone() is None


@pytest.mark.parametrize(
    ("data", "plausible"),
    [
        (b"", False),
        (heartbeat_answer(3), True),
        (heartbeat_answer(3)[:-1], False),
        (heartbeat_answer(3) + b"\0\0", False),  # one frame and what may be anything
        (heartbeat_answer(3) + heartbeat_answer(4)[:9], True),
        (heartbeat_answer(3) + heartbeat_answer(3), False),
        (heartbeat_answer(3) + heartbeat_answer(5000), False),
        (heartbeat_answer(-3), False),
        (frame(b"abc") * 2, False),
        (b"\x7f\xff\xff\xff" + bytes(8), False),
    ],
)
def test_what_a_chain_of_responses_is(data: bytes, plausible: bool) -> None:
    chain = ResponseChain()
    chain.read(data)
    assert chain.plausible == plausible


def test_after_lost_bytes_the_next_piece_begins_with_a_frame() -> None:
    sides = Sides()
    sides.read(1, heartbeat_answer(1)[:9])
    sides.lose(1)
    sides.read(1, heartbeat_answer(2))
    assert sides.of_responses_alone() == 0
