"""One direction cut into frames, whatever the chunks; and every transition between the states of a stream."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol import Direction
from kproxy.session.endings import Cut
from kproxy.session.exchanges import Event, Frame
from kproxy.session.limits import Limits
from kproxy.session.request_hunting import RequestHunt
from kproxy.session.stream import FrameBuffer, State, Stream
from tests.support.frames import frame, heartbeat, heartbeat_answer


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


# Stream


class Listener:
    """An owner that writes down what it is told; a frame that begins with "?" is none to it."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.frames: list[Frame] = []
        self.stream = Stream(
            Direction.REQUEST,
            FrameBuffer(1_000),
            owner=self,
            handle=self.on_frame,
            new_hunt=lambda given_up: RequestHunt(1_000, given_up),
        )

    def on_frame(self, found: Frame, events: list[Event]) -> None:
        self.told.append(found.data)
        self.frames.append(found)
        if found.data.startswith(b"?"):
            self.stream.lose(found)

    def on_refused(self, stream: Stream, size_field: bytes, at: int, events: list[Event]) -> None:
        self.told.append(("refused", size_field))

    def on_found(self, stream: Stream, skipped: int, at: int, events: list[Event]) -> None:
        self.told.append(("skipped", skipped))

    def send(self, *chunks: bytes) -> list[object]:
        for at, chunk in enumerate(chunks):
            self.stream.receive(chunk, at, [])
        return self.told

    def miss(self, size: int | None, at: int = 0, cut: Cut = Cut.SNAPLEN) -> None:
        self.stream.miss(size, at, cut, [])


FOUND = heartbeat(3)


def test_a_refused_size_begins_a_hunt_that_ends_at_the_next_request() -> None:
    told = Listener().send(frame(b"a") + b"\xff\0\0\0junk" + FOUND + FOUND + frame(b"b"))
    assert told == [b"a", ("refused", b"\xff\0\0\0"), ("skipped", 8), FOUND[4:], FOUND[4:], b"b"]


def test_a_frame_that_is_none_is_searched_for_one() -> None:
    told = Listener().send(frame(b"?" + FOUND * 2 + b"tail") + FOUND * 2)
    twice = [FOUND[4:]] * 2
    assert told == [b"?" + FOUND * 2 + b"tail", ("skipped", 5), *twice, ("refused", b"tail"), ("skipped", 4), *twice]


LONG = frame(b"0123456789")


def test_a_gap_inside_a_frame_makes_a_cut_frame_that_comes_when_its_end_was_due() -> None:
    listener = Listener()
    listener.send(LONG[:6])
    listener.miss(3, at=5)
    assert listener.send(b"5", b"678") == []
    assert listener.send(b"9" + frame(b"next")) == [b"01", b"next"]
    cut = listener.frames[0]
    assert (cut.cut, cut.size, cut.wire_size, cut.data) == (Cut.SNAPLEN, 10, len(LONG), b"01")
    assert listener.stream.state is State.IN_FRAMES


def test_a_gap_at_the_end_of_a_frame_has_the_time_of_the_last_byte() -> None:
    listener = Listener()
    listener.send(LONG[:6])
    listener.miss(8, at=77)
    assert listener.told == [b"01"] and (listener.frames[0].started_at, listener.frames[0].ended_at) == (0, 77)


def test_a_second_gap_in_the_same_frame_is_passed_over_too() -> None:
    listener = Listener()
    listener.send(LONG[:6])
    listener.miss(3)
    listener.miss(2)
    assert listener.send(b"789" + frame(b"next")) == [b"01", b"next"]


def test_a_gap_that_reaches_beyond_the_frame_begins_a_hunt() -> None:
    listener = Listener()
    listener.send(LONG[:6])
    listener.miss(50)
    assert listener.stream.state is State.HUNTING
    assert listener.send(b"junk" + FOUND * 2) == [b"01", ("skipped", 4), FOUND[4:], FOUND[4:]]


def test_frames_left_out_on_purpose_end_with_a_frame() -> None:
    listener = Listener()
    listener.send(LONG[:6])
    listener.miss(8 + len(LONG), cut=Cut.LEFT_OUT)
    assert listener.send(LONG) == [b"01", b"0123456789"] and listener.frames[0].cut is Cut.LEFT_OUT
    listener.miss(len(LONG), cut=Cut.LEFT_OUT)
    assert listener.send(LONG) == [b"01", b"0123456789", b"0123456789"]


def test_the_end_of_a_stream_cuts_its_last_frame() -> None:
    listener = Listener()
    listener.send(LONG[:9])
    assert listener.stream.end(9, Cut.RESET, []) == 0
    assert listener.told == [b"01234"] and listener.frames[0].cut is Cut.RESET
    assert listener.frames[0].ended_at == 0  # when the last byte came, not when the connection ended
    listener.send(LONG[:3])
    assert listener.stream.end(9, Cut.RESET, []) == 3


def test_the_end_of_a_frame_is_the_latest_of_its_bytes() -> None:
    """Bytes that overtook others have their own times: the hole was filled last."""
    buffer = FrameBuffer(100)
    for at, piece in ((4, LONG[:3]), (9, LONG[3:8]), (5, LONG[8:])):
        buffer.push(piece, at)
        found = buffer.next()
    assert found is not None and (found.started_at, found.ended_at) == (4, 9)


def test_stopped_it_looks_at_nothing() -> None:
    listener = Listener()
    listener.stream.stop()
    assert listener.send(frame(b"a")) == [] and listener.stream.state is State.OPAQUE


def test_what_a_hunt_waits_for_is_a_cut_frame_when_bytes_are_missing_in_it() -> None:
    listener = Listener()
    listener.stream.hunt()
    listener.send(FOUND[:-3])
    listener.miss(3)
    assert listener.send(FOUND) == [("skipped", 0), FOUND[4:-3], FOUND[4:]]


def test_a_response_ends_the_hunt_for_its_request() -> None:
    listener = Listener()
    listener.stream.hunt()
    listener.send(b"?" + heartbeat(9))
    assert not listener.stream.confirm(Frame(heartbeat_answer(8)[4:], 1, 1), [])
    assert listener.stream.confirm(Frame(heartbeat_answer(9)[4:], 1, 1), [])
    assert listener.told == [("skipped", 1), heartbeat(9)[4:]]


def test_finishing_a_hunt_tells_what_was_passed_over() -> None:
    listener = Listener()
    listener.stream.hunt()
    listener.send(b"no frame")
    listener.stream.finish(9, [])
    assert listener.told == [("skipped", 8)] and listener.stream.state is State.IN_FRAMES


# The table of kproxy/session/stream.pyx, walked: every event in every state.

IN_FRAMES, SKIPPING, HUNTING, OPAQUE = State
HALF = frame(b"0123456789")[:6]

REACH: dict[State, Callable[[Listener], object]] = {
    IN_FRAMES: lambda to: to.send(HALF),
    SKIPPING: lambda to: (to.send(HALF), to.miss(3)),
    HUNTING: lambda to: to.stream.hunt(),
    OPAQUE: lambda to: to.stream.stop(),
}


def rest(to: Listener) -> bytes:
    """What is left of the frame that HALF began."""
    return {IN_FRAMES: b"23456789", SKIPPING: b"56789"}.get(to.stream.state, b"")


EVENTS: dict[str, Callable[[Listener], object]] = {
    "some bytes of the frame": lambda to: to.send(b"23"),
    "the rest of the frame": lambda to: to.send(rest(to)),
    "a frame": lambda to: to.send(rest(to) + FOUND),
    "a frame that is none": lambda to: to.send(rest(to) + frame(b"?")),
    "a size that no frame has": lambda to: to.send(rest(to) + b"\xff\xff\xff\xff"),
    "a gap inside the frame": lambda to: to.miss(2),
    "a gap to the end of the frame": lambda to: to.miss(len(rest(to)) or None),
    "a gap beyond the frame": lambda to: to.miss(1_000),
    "a gap of unknown size": lambda to: to.miss(None),
    "a gap of frames left out": lambda to: to.miss(1_000, cut=Cut.LEFT_OUT),
    "the end": lambda to: to.stream.end(9, Cut.RESET, []),
    "finish": lambda to: to.stream.finish(9, []),
    "stop": lambda to: to.stream.stop(),
}
NEXT = {
    IN_FRAMES: {
        "a frame that is none": HUNTING,
        "a size that no frame has": HUNTING,
        "a gap inside the frame": SKIPPING,
        "a gap beyond the frame": HUNTING,
        "a gap of unknown size": HUNTING,
        "stop": OPAQUE,
    },
    SKIPPING: {
        "the end": IN_FRAMES,
        "a gap of frames left out": IN_FRAMES,
        "the rest of the frame": IN_FRAMES,
        "a frame": IN_FRAMES,
        "a frame that is none": HUNTING,
        "a size that no frame has": HUNTING,
        "a gap to the end of the frame": IN_FRAMES,
        "a gap beyond the frame": HUNTING,
        "a gap of unknown size": HUNTING,
        "stop": OPAQUE,
    },
    HUNTING: {"a frame": IN_FRAMES, "the end": IN_FRAMES, "finish": IN_FRAMES, "stop": OPAQUE},
    OPAQUE: {},
}


# Session.gap ignores an opaque stream: such an event never reaches it.
CASES = [(state, event) for state in State for event in EVENTS if not (state is OPAQUE and event.startswith("a gap"))]


@pytest.mark.parametrize(("state", "event"), CASES)
def test_every_event_in_every_state_leads_where_the_table_says(state: State, event: str) -> None:
    listener = Listener()
    REACH[state](listener)
    assert listener.stream.state == state
    EVENTS[event](listener)
    assert listener.stream.state == NEXT[state].get(event, state)
