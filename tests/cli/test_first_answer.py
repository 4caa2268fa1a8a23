"""The process that gives the first answer: what it sends arrives whole or not at all, and it never outlives the other one."""

import os
import select
import time

import pytest

from kproxy.cli import first_answer as module
from kproxy.cli.first_answer import FirstAnswer


def is_gone(process: int | None) -> bool:
    """Whether a child of this process has ended, and has been waited for."""
    assert process is not None
    try:
        os.waitpid(process, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


@pytest.mark.parametrize("text", ["one line\n", "w\u00f6rds \udcff\n" * 3_000])
def test_what_is_sent_is_received_once(text: str) -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            first.send(text)
        process = first._process
        received = ""
        while not received:
            select.select([first._pipe], [], [], 60)
            received = first.received()
        assert received == text.encode("utf-8", "backslashreplace").decode()
        assert first.received() == ""
    assert is_gone(process)


def test_of_a_process_that_fails_there_is_no_answer() -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            raise RuntimeError("not seen by anyone")
        select.select([first._pipe], [], [], 60)
        assert first.received() == ""
        assert first._process is None


def test_a_process_that_takes_long_is_ended() -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            time.sleep(600)
        process = first._process
        assert first.received() == ""
    assert is_gone(process)


def test_a_cancelled_one_is_not_shown() -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            first.send("too late")
        first.cancel()
        select.select([first._pipe], [], [], 60)
        assert first.received() == ""


@pytest.mark.parametrize(
    ("read", "total", "due"),
    [
        (10, 1_000_000, True),
        (10, None, True),  # of a pipe nobody knows
        (999_999, 1_000_000, False),  # the whole answer comes as soon
    ],
)
def test_it_is_due_once_and_where_much_is_left(
    read: int, total: int | None, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FirstAnswer()
    assert not first.is_due(read, total)  # too early
    monkeypatch.setattr(module, "AFTER_S", 0.0)
    monkeypatch.setattr(module, "LEAST_LEFT_S", 0.001)
    first._began = first._began[0] - 1.0, first._began[1]
    assert first.is_due(read, total) is due
    assert not first.is_due(read, total)
