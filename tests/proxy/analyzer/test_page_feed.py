"""PageFeed: what the page takes arrives whole and in order; what it does not take is dropped, counted, and never waited for."""

import socket
from collections.abc import Iterator

import pytest

from kproxy.proxy.analyzer.page_feed import MOST_WAITING, PageFeed, connect

PIECE = bytes(range(256)) * 1_024


class Watched(PageFeed):
    """A feed with its other end, and those before."""

    def __init__(self) -> None:
        self.busy = False
        self.ends: list[socket.socket] = []
        super().__init__(self._pair, lambda: self.busy)
        self.begin_part = lambda: b"begin"

    def _pair(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.settimeout(60)
        self.ends.append(theirs)
        return ours

    @property
    def other(self) -> socket.socket:
        return self.ends[-1]


@pytest.fixture
def feed() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.close()
    for end in made.ends:
        end.close()


def received(feed: Watched, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        feed.flush()
        found += feed.other.recv(size - len(found))
    return bytes(found)


def test_pieces_arrive_in_order_behind_what_a_part_begins_with(feed: Watched) -> None:
    for number in range(20):
        assert feed.is_open()
        feed.append(PIECE + bytes([number]))
    expected = b"begin" + b"".join(PIECE + bytes([number]) for number in range(20))
    assert received(feed, len(expected)) == expected
    assert feed.dropped == 0


def test_what_is_not_taken_is_dropped_and_a_capture_of_its_own_begins_behind_it(feed: Watched) -> None:
    begun = 0

    def begin() -> bytes:
        nonlocal begun
        begun += 1
        return b"part %d" % begun

    feed.begin_part = begin
    sent = 0
    while feed.is_open():  # nobody reads
        feed.append(PIECE)
        sent += 1
    assert feed.dropped == 1
    assert MOST_WAITING <= sent * len(PIECE) < MOST_WAITING + (4 << 20)
    assert not feed.is_open()
    assert feed.dropped == 2
    before = received(feed, len(b"part 1") + sent * len(PIECE))
    assert before == b"part 1" + PIECE * sent
    first = feed.other
    assert feed.is_open()
    feed.append(b"after")
    assert received(feed, len(b"part 2after")) == b"part 2after"
    assert first.recv(1) == b"", "the capture before is at its end"


def test_an_analyzer_that_has_no_time_leaves_the_page_out(feed: Watched) -> None:
    assert feed.is_open()
    feed.append(b"one")
    feed.busy = True
    assert [feed.is_open(), feed.is_open()] == [False, False]
    assert feed.dropped == 2
    feed.busy = False
    assert feed.is_open()
    feed.append(b"two")
    assert received(feed, len(b"begintwo")) == b"begintwo"
    assert feed.ends[0].recv(100) == b"beginone"


def test_a_page_that_has_ended_is_no_fault(feed: Watched) -> None:
    feed.other.close()
    assert feed.is_open()
    feed.append(b"x")
    feed.flush()
    assert feed.has_ended
    assert not feed.is_open()
    feed.flush()
    feed.close()


def test_a_page_that_is_not_there_is_an_error(tmp_path: object) -> None:
    with pytest.raises(OSError, match="No such file"):
        connect(f"{tmp_path}/nothing")
