"""Hostile bytes for the codec, by their numbers: 2, counts beyond the bytes left; 3, elements and tags of nothing."""

import tracemalloc

import pytest

from kproxy.errors import DecodeError, Malformed
from kproxy.protocol import message

SINKS = ["walk", "to_json", "decode", "check"]


def peak_of_refusal(name: str, version: int, sink: str, data: bytes) -> tuple[DecodeError, int]:
    """The error that *data* gives, and the most memory in bytes that finding it took."""
    message(name).programs(version)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as caught:
            getattr(message(name), sink)(version, data)
        return caught.value, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("count", [2, 1000, 0x7FFFFFFF])
def test_2_an_array_count_beyond_the_bytes_left_is_refused_before_anything_is_made(sink: str, count: int) -> None:
    """Topic names take two bytes at least: a count is refused when it exceeds half of the three bytes left."""
    error, peak = peak_of_refusal("MetadataRequest", 1, sink, count.to_bytes(4, "big") + b"\0\1a")
    assert isinstance(error, Malformed)
    assert (error.message, error.version, error.path, error.position) == ("MetadataRequest", 1, "topics", 4)
    assert (error.needed, error.left) == (count, 3)
    assert peak < 100_000


@pytest.mark.parametrize("sink", SINKS)
def test_3_a_tag_count_of_all_ones_ends_at_once(sink: str) -> None:
    """A tagged field takes two bytes at least (KIP-482): 2^32 - 1 of them do not fit into two."""
    heartbeat = b"\2g" + bytes(4) + b"\2m" + b"\0"  # groupId, generationId, memberId, groupInstanceId null
    error, peak = peak_of_refusal("HeartbeatRequest", 4, sink, heartbeat + b"\xff\xff\xff\xff\x0f" + b"\0\0")
    assert isinstance(error, Malformed)
    assert (error.needed, error.left) == (0xFFFFFFFF, 2)
    assert peak < 100_000


@pytest.mark.parametrize("sink", SINKS)
def test_3_structs_whose_arrays_are_empty_still_take_bytes(sink: str) -> None:
    """An element has a name and an array at least, so that a loop over a count always moves on."""
    error, _ = peak_of_refusal("DeleteRecordsRequest", 0, sink, (1 << 28).to_bytes(4, "big") + bytes(60))
    assert (error.path, error.needed, error.left) == ("topics", 1 << 28, 60)
