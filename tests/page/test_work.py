"""Work is given up after its time, or when it is cancelled."""

import threading

import pytest

from kproxy.page.work import Cancelled, Work


def test_it_is_given_up_by_who_asked() -> None:
    work, ended = Work(), threading.Event()
    with pytest.raises(Cancelled, match="disconnected"), work.ended_by(ended.set):
        threading.Thread(target=work.cancel).start()
        assert ended.wait(30)
        raise ValueError("what an interrupted query raises")
    with pytest.raises(Cancelled):
        work.check()


def test_it_is_given_up_after_its_time() -> None:
    ended = threading.Event()
    with pytest.raises(Cancelled, match="seconds"), Work(0.01).ended_by(ended.set):
        assert ended.wait(30)
        raise ValueError


def test_other_errors_are_what_they_are() -> None:
    with pytest.raises(ValueError, match="mine"), Work().ended_by(lambda: None):
        raise ValueError("mine")


def test_a_block_is_left_only_when_its_end_is_over() -> None:
    """Else it would be the end of what comes next: another question to the same process, a connection that is closed."""
    still_inside: list[bool] = []

    def end() -> None:
        leaving = threading.Thread(target=block.__exit__, args=(None, None, None))
        leaving.start()
        leaving.join(0.1)
        still_inside.append(leaving.is_alive())

    work = Work()
    block = work.ended_by(end)
    block.__enter__()
    work.cancel()
    assert still_inside == [True]


def test_what_is_given_up_just_before_a_block_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    monkeypatch.setattr(work, "check", work.cancel)  # as by another thread, right behind the check
    with pytest.raises(Cancelled, match="disconnected"), work.ended_by(lambda: None):
        pytest.fail("nothing would end it")


def test_a_block_is_ended_until_it_is_left() -> None:
    """DuckDB forgets an interrupt that comes between two queries, of which an analysis has some."""
    work, ended = Work(), threading.Semaphore(0)
    with pytest.raises(Cancelled), work.ended_by(ended.release):
        work.cancel()
        times = [ended.acquire(timeout=60) for _ in range(3)]
        raise ValueError("what an interrupted query raises")
    assert times == [True] * 3
