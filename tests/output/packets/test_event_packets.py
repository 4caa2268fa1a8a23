"""Pieces of events, and a connection's packets as blocks of a pcapng file; scapy reads them."""

import io

import pytest
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import RawPcapNgReader

from kproxy.output.packets.blocks import file_header
from kproxy.output.packets.event_packets import Conversation, EventPieces, Piece
from kproxy.output.rewriting.rewriter import Rewriter
from kproxy.session import BadFrame, Connection, Direction, NotKafka
from tests.support.conversation import broker, client, events_of
from tests.support.frames import heartbeat, heartbeat_answer, sasl_authenticate, sasl_authenticate_answer

CONNECTION = Connection(3, "10.0.0.5:51234", "10.0.0.9:9092")


def packets(blocks: bytes) -> list[Packet]:
    return [Ether(data) for data, _ in RawPcapNgReader(io.BytesIO(file_header("test") + blocks))]  # type: ignore[arg-type]


def flags(blocks: bytes) -> list[str]:
    return [str(packet[TCP].flags) for packet in packets(blocks)]


def test_an_exchange_is_its_two_frames_with_their_times_and_comments() -> None:
    sent, answered = heartbeat(7), heartbeat_answer(7)
    (event,) = events_of(client >> sent, broker >> answered)
    asked, answer = EventPieces(Rewriter()).of(event)
    assert (asked.at, asked.direction, asked.data, asked.hole) == (1_000, 0, sent, 0)
    assert (answer.at, answer.direction, answer.data, answer.hole) == (2_000, 1, answered, 0)
    assert "Heartbeat v0" in asked.comment and "Heartbeat v0" in answer.comment


def test_a_frame_that_came_in_two_parts_is_in_two_pieces() -> None:
    sent = heartbeat(7)
    (event,) = events_of(client >> sent[:5], client >> sent[5:], broker >> heartbeat_answer(7))
    first, second, _ = EventPieces(Rewriter()).of(event)
    assert (first.at, second.at) == (1_000, 2_000)
    assert first.data + second.data == sent
    assert (first.comment, bool(second.comment)) == ("", True)


def test_credentials_are_withheld() -> None:
    token = b"\0alice\0canary-of-a-password"
    events = events_of(client >> sasl_authenticate(1, token), broker >> sasl_authenticate_answer(1))
    written = b"".join(
        piece.data + piece.comment.encode() for event in events for piece in EventPieces(Rewriter()).of(event)
    )
    assert b"alice" in written
    assert b"canary" not in written


def test_what_is_no_frame_is_a_hole_or_nothing() -> None:
    pieces = EventPieces(Rewriter())
    assert pieces.of(BadFrame(CONNECTION, 5, Direction.RESPONSE)) == [Piece(5, 1, hole=1)]
    assert pieces.of(NotKafka(CONNECTION, 5)) == []


def test_the_handshake_comes_once_and_a_hole_is_acknowledged() -> None:
    made = Conversation(1, CONNECTION)
    assert flags(made.blocks(Piece(1, 0, b"abc"))) == ["S", "SA", "A", "PA"]
    assert flags(made.blocks(Piece(2, 1, b"de", hole=7))) == ["PA", "A"]
    (after,) = packets(made.blocks(Piece(3, 1, b"fg")))
    (before,) = packets(Conversation(1, CONNECTION).blocks(Piece(3, 1, b"fg")))[3:]
    assert after[TCP].seq - before[TCP].seq == len(b"de") + 7
    assert flags(made.farewell(4, (1, 0))) == ["FA", "FA", "A"]


def test_a_connection_that_said_nothing_has_a_handshake_and_an_end() -> None:
    assert flags(Conversation(1, CONNECTION).farewell(4, (0, 1))) == ["S", "SA", "A", "FA", "FA", "A"]


@pytest.mark.parametrize("address", ["broker.example:9092", "10.0.0.9", "[::1]:9092", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError):
        Conversation(1, Connection(1, "10.0.0.5:1", address))
