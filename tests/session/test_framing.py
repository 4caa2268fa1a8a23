"""One direction cut into frames, whatever the chunks."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.session.framing import FrameBuffer
from kproxy.session.limits import Limits
from tests.support.frames import frame


def cut(chunks: list[bytes], limit: int = 1 << 20) -> list[tuple[bytes, int, int]]:
    """(data, started_at, ended_at) of the frames in chunks that come at 1, 2, 3, ..."""
    buffer = FrameBuffer(limit)
    frames = []
    for at, chunk in enumerate(chunks, 1):
        buffer.push(chunk, at)
        while (found := buffer.next()) is not None:
            frames.append((found.data, found.started_at, found.ended_at))
    return frames


def test_whole_frames_in_one_chunk_have_its_time() -> None:
    assert cut([frame(b"one") + frame(b"") + frame(b"three")]) == [(b"one", 1, 1), (b"", 1, 1), (b"three", 1, 1)]


def test_a_frame_in_pieces_has_the_times_of_its_first_and_last_byte() -> None:
    whole = frame(b"abcdef")
    assert cut([whole[:2], whole[2:5], b"", whole[5:] + frame(b"x")[:4], b"x"]) == [(b"abcdef", 1, 4), (b"x", 4, 5)]


@given(st.lists(st.binary(max_size=40), max_size=12), st.lists(st.integers(0, 30), max_size=80))
def test_any_chunking_gives_the_same_frames(parts: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(map(frame, parts))
    chunks = []
    for size in sizes:
        chunks.append(stream[:size])
        stream = stream[size:]
    assert [data for data, _, _ in cut([*chunks, stream])] == parts


@pytest.mark.parametrize("size", [-1, -(1 << 31), 101, (1 << 31) - 1])
@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_a_refused_size_stops_and_gives_back_everything_from_its_size_field(size: int, chunk: int) -> None:
    stream = frame(b"fine") + size.to_bytes(4, "big", signed=True) + b"what follows"
    buffer = FrameBuffer(100)
    cut_off = []
    for start in range(0, len(stream), chunk):
        buffer.push(stream[start : start + chunk], start)
        while (found := buffer.next()) is not None:
            cut_off.append(found.data)
        if buffer.refused is not None:
            rest = b"".join(data for data, _ in buffer.rest()) + stream[start + chunk :]
            break
    assert cut_off == [b"fine"] and buffer.count == 1
    assert rest == stream[8:]
    assert buffer.refused is None and buffer.held == 0


def test_the_largest_frame_is_taken_and_one_byte_more_is_not() -> None:
    assert cut([frame(bytes(100))], limit=100) == [(bytes(100), 1, 1)]
    assert cut([frame(bytes(101))], limit=100) == []


def test_nothing_is_set_aside_for_a_size_that_is_only_claimed() -> None:
    buffer = FrameBuffer(Limits().frame_size)
    tracemalloc.start()
    buffer.push((100_000_000).to_bytes(4, "big") + b"begin", 1)
    assert buffer.next() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000
    assert (buffer.held, buffer.missing) == (9, 99_999_995)


def test_what_is_missing_is_known_once_the_size_is() -> None:
    buffer = FrameBuffer(100)
    assert (buffer.held, buffer.missing) == (0, 0)
    buffer.push(b"\0\0\0", 1)
    assert buffer.next() is None
    assert (buffer.held, buffer.missing) == (3, None)


def test_a_large_frame_byte_by_byte() -> None:
    whole = frame(bytes(range(256)) * 256)
    assert cut([whole[i : i + 1] for i in range(len(whole))]) == [(whole[4:], 1, len(whole))]


def test_the_limits_are_those_of_a_broker() -> None:
    # socket.request.max.bytes and sasl.server.max.receive.size in Kafka's documentation
    assert (Limits().frame_size, Limits().unauthenticated_frame_size) == (104_857_600, 524_288)
