"""Batches lend, packets own."""

import pytest

from kproxy.capture.packets import BATCH_PACKETS, Packet, PacketBatch


def test_a_packet_owns_its_bytes() -> None:
    buffer = bytearray(b"kafka")
    batch = PacketBatch(2)
    batch.lend(buffer)
    batch.add_packet(Packet(5, 1, bytes(buffer), 9))
    packet = batch.packet(0)
    buffer[:] = b"XXXXX"
    assert packet == Packet(5, 1, b"kafka", 9)
    assert list(batch) == [Packet(5, 1, b"XXXXX", 9)]


def test_an_empty_packet() -> None:
    batch = PacketBatch()
    batch.lend(b"")
    batch.add_packet(Packet(5, 1, b"", 0))
    assert list(batch) == [Packet(5, 1, b"", 0)]
    assert (len(batch), batch.count, batch.capacity) == (1, 1, BATCH_PACKETS)


def test_a_batch_has_an_end() -> None:
    batch = PacketBatch(1)
    batch.lend(b"x")
    packet = Packet(0, 1, b"x", 1)
    batch.add_packet(packet)
    with pytest.raises(IndexError, match="full"):
        batch.add_packet(packet)
    for index in (-1, 1, 2**40):
        with pytest.raises(IndexError):
            batch.packet(index)


def test_what_was_lent_cannot_be_asked_for_after_clear() -> None:
    batch = PacketBatch()
    batch.lend(b"x")
    batch.add_packet(Packet(0, 1, b"x", 1))
    batch.clear()
    assert list(batch) == []
    with pytest.raises(IndexError):
        batch.packet(0)


def test_a_packet_longer_than_the_buffer_is_not_believed() -> None:
    batch = PacketBatch()
    batch.lend(b"abc")
    batch.add_packet(Packet(0, 1, b"abcdef", 6))
    assert batch.packet(0).data == b"abc"


@pytest.mark.parametrize("capacity", [0, -1, 2**20 + 1])
def test_capacity_has_bounds(capacity: int) -> None:
    with pytest.raises(ValueError, match="a batch holds"):
        PacketBatch(capacity)
