"""Pipes in the page: what comes of a capture is shown as it comes, and nobody waits for the rest."""

import gzip
import os
from pathlib import Path

from kproxy.page.recorded import Arriving, Recorded
from kproxy.page.work import Work
from tests.page.asking import opened
from tests.support.kafka.processes import eventually
from tests.support.traffic import CAPTURES

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"


def test_it_waits_for_bytes_until_it_is_told_not_to() -> None:
    reading, writing = os.pipe()
    answers = [True, True, False]
    arriving = Arriving(os.fdopen(reading, "rb", buffering=0), lambda: answers.pop(0))
    buffer = memoryview(bytearray(10))
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(b"orders")
        assert (arriving.readinto(buffer), bytes(buffer[:6])) == (6, b"orders")
        assert answers == [True, True, False], "there was something to read"
        assert arriving.readinto(buffer) == 0
        assert answers == []
    assert arriving.readinto(buffer) == 0, "the end of a pipe is none to wait for"
    arriving.close()


def test_a_pipe_is_shown_as_it_comes_and_may_be_left_at_any_time() -> None:
    """What a capture of half the bytes has is there while nothing comes, and the rest once it does."""
    whole = ORDERS.read_bytes()
    half = whole[: len(whole) // 2]
    with opened(ORDERS) as of_file:
        expected = of_file.page(Work()).rows
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as pipe, Recorded([Path(f"/dev/fd/{reading}")]) as store:
        store.start()
        pipe.write(half)
        seen = eventually(lambda: store.last, what="rows of the first half")
        assert store.page(Work()).rows == expected[:seen]
        assert not store.wait(0)
        pipe.write(whole[len(half) :])
        eventually(lambda: store.last == len(expected), what="rows of all")
        assert store.page(Work()).rows == expected
        assert not store.wait(0), "the pipe is open"
    os.close(reading)


def test_the_end_of_a_pipe_ends_it() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(gzip.compress(ORDERS.read_bytes()))  # which a pipe holds
    with opened(Path(f"/dev/fd/{reading}")) as store, opened(ORDERS) as of_file:
        assert (store.last, store.loading, store.damages) == (of_file.last, None, [])
    os.close(reading)
