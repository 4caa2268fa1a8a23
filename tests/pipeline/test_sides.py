"""Who is the client, told by requests or by answers to them."""

import struct

from kproxy.pipeline.sides import CLAIMS, Sides
from tests.support.frames import heartbeat

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
    assert sides.claimed() is None


def test_claims_are_bounded() -> None:
    sides = Sides()
    for number in range(10 * CLAIMS):
        sides.read(0, frame(struct.pack(">hhih", 18, 0, number + 1, -1)))
    assert len(sides._claims[0]) == CLAIMS
