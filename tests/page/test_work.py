"""Work is given up after its time, or when it is cancelled."""

import threading

import pytest

from kproxy.page.work import Cancelled, Work


def test_it_is_given_up_by_who_asked() -> None:
    work, ended = Work(), threading.Event()
    with pytest.raises(Cancelled, match="nobody waits"), work.ended_by(ended.set):
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
