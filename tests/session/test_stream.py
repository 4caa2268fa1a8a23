"""One direction: in frames, passing over, hunting, opaque."""

from kproxy.session.events import Direction, Event, Frame
from kproxy.session.framing import FrameBuffer
from kproxy.session.hunting import RequestHunt
from kproxy.session.stream import Stream
from tests.support.frames import frame, heartbeat


class Listener:
    """An owner that writes down what it is told; a frame that begins with "?" is none to it."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.stream = Stream(
            Direction.REQUEST,
            FrameBuffer(1_000),
            owner=self,
            handle=self.on_frame,
            new_hunt=lambda given_up: RequestHunt(1_000, given_up),
        )

    def on_frame(self, found: Frame, events: list[Event]) -> None:
        self.told.append(found.data)
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


FOUND = heartbeat(3)


def test_frames_are_handed_on_in_order() -> None:
    assert Listener().send(frame(b"a") + frame(b"b")[:2], frame(b"b")[2:]) == [b"a", b"b"]


def test_a_refused_size_begins_a_hunt_that_ends_at_the_next_request() -> None:
    told = Listener().send(frame(b"a") + b"\xff\0\0\0junk" + FOUND + frame(b"b"))
    assert told == [b"a", ("refused", b"\xff\0\0\0"), ("skipped", 8), FOUND[4:], b"b"]


def test_a_frame_that_is_none_is_searched_for_one() -> None:
    told = Listener().send(frame(b"?" + FOUND + b"tail") + FOUND)
    assert told == [b"?" + FOUND + b"tail", ("skipped", 5), FOUND[4:], ("refused", b"tail"), ("skipped", 4), FOUND[4:]]


def test_a_gap_inside_a_frame_of_known_size_is_passed_over() -> None:
    listener = Listener()
    listener.send(frame(b"0123456789")[:6])
    assert listener.stream.damage(3) == (frame(b"0123456789")[:6], 0)
    assert listener.send(b"5", b"6789"[:2], b"89" + frame(b"next")) == [b"next"]
    assert not listener.stream.hunting


def test_a_second_gap_in_the_same_frame_is_passed_over_too() -> None:
    listener = Listener()
    listener.send(frame(b"0123456789")[:6])
    listener.stream.damage(3)
    assert listener.stream.damage(2) is None
    assert listener.send(b"789" + frame(b"next")) == [b"next"]


def test_a_gap_that_reaches_beyond_the_frame_begins_a_hunt() -> None:
    listener = Listener()
    listener.send(frame(b"0123456789")[:6])
    listener.stream.damage(50)
    assert listener.stream.hunting
    assert listener.send(b"junk" + FOUND) == [("skipped", 4), FOUND[4:]]


def test_stopped_it_looks_at_nothing() -> None:
    listener = Listener()
    listener.stream.stop()
    assert listener.send(frame(b"a")) == [] and listener.stream.opaque


def test_finishing_a_hunt_tells_what_was_passed_over() -> None:
    listener = Listener()
    listener.stream.hunt()
    listener.send(b"no frame")
    listener.stream.finish(9, [])
    assert listener.told == [("skipped", 8)] and not listener.stream.hunting
