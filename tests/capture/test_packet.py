"""A packet compares by value."""

from kproxy.capture import Packet


def test_packets_with_the_same_facts_are_equal() -> None:
    assert Packet(5, 1, b"kafka", 9) == Packet(5, 1, b"kafka", 9, comment=None)
    assert Packet(5, 1, b"kafka", 9) != Packet(5, 1, b"kafka", 9, comment="seen")
