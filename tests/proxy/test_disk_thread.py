"""Calls that hang, and for how long they are waited for."""

import threading

from kproxy.proxy.disk_thread import MOST_WAIT_S, SHORT_S, DiskThread


def test_results_come_at_once() -> None:
    disk = DiskThread("test")
    assert [disk.call(lambda number=number: number % 2 == 0) for number in range(4)] == [True, False, True, False]
    assert not disk.is_busy
    disk.end()


def test_a_call_that_fails_counts_as_false() -> None:
    disk = DiskThread("test")
    assert disk.call(lambda: bool(1 // 0)) is False
    assert disk.call(lambda: True) is True
    disk.end()


def test_a_call_that_hangs_is_left_to_go_on() -> None:
    answering = threading.Event()
    disk = DiskThread("test")
    assert disk.call(answering.wait, 0.0) is None
    assert disk.is_busy
    assert not disk.settle(0.0)
    answering.set()
    assert disk.settle(60.0)
    assert disk.call(lambda: True) is True
    disk.end()


def test_slow_calls_are_waited_for_less_and_less() -> None:
    """By a clock of the test's: each call has taken 50 ms when it was waited for. What is waited is a tenth of the time."""

    class Timed(DiskThread):
        waits: list[float]

        def _wait(self, seconds: float) -> None:
            self.waits.append(seconds)
            clock[0] += 0.05
            super()._wait(60.0)

    clock = [0.0]
    disk = Timed("test", lambda: clock[0])
    disk.waits = []
    for _ in range(10):
        disk.call(lambda: True)
    assert disk.waits[0] == SHORT_S + MOST_WAIT_S
    assert disk.waits[-1] == SHORT_S
    clock[0] += 100.0
    disk.call(lambda: True)
    assert disk.waits[-1] == SHORT_S + MOST_WAIT_S
    disk.end()


def test_hanging_is_said_after_a_second() -> None:
    clock, answering = [0.0], threading.Event()
    disk = DiskThread("test", lambda: clock[0])
    disk.call(answering.wait, 0.0)
    assert disk.is_busy and not disk.hangs
    clock[0] = 1.5
    assert disk.hangs
    answering.set()
    disk.settle(60.0)
    assert not disk.hangs
    disk.end()
