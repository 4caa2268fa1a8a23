"""Unpacked: what came out, and why there is no more of it."""

from kproxy.protocol.records.unpacked import Unpacked


def test_nothing_is_wrong_unless_it_is_said() -> None:
    unpacked = Unpacked(b"records")
    assert (unpacked.data, unpacked.error, unpacked.skipped) == (b"records", None, None)
