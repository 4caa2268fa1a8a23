"""What the kernel says of a thread after it asked for its way of sharing a core."""

import os
from threading import Thread

from kproxy.proxy.scheduling import SchedAttr, take_short_slices, take_what_is_left


def in_a_thread(*steps: object) -> list[object]:
    """The results of steps in a thread of their own: its policy dies with it."""
    results: list[object] = []
    thread = Thread(target=lambda: results.extend(step() for step in steps))  # type: ignore[operator]
    thread.start()
    thread.join()
    return results


def policy() -> int:
    return os.sched_getscheduler(0)


def test_the_policy_of_one_thread_is_not_that_of_another() -> None:
    assert in_a_thread(policy, take_what_is_left, policy) == [os.SCHED_OTHER, None, os.SCHED_IDLE]
    assert policy() == os.SCHED_OTHER


def test_short_slices_change_neither_policy_nor_priority() -> None:
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    _, *after = in_a_thread(take_short_slices, policy, lambda: os.getpriority(os.PRIO_PROCESS, 0))
    assert after == [os.SCHED_OTHER, nice]


def test_another_policy_is_left_alone() -> None:
    assert in_a_thread(take_what_is_left, take_short_slices, policy)[1:] == [False, os.SCHED_IDLE]


def test_the_structure_is_that_of_the_manual_page() -> None:
    """sched_setattr(2): SCHED_ATTR_SIZE_VER0 is 48."""
    import ctypes  # noqa: PLC0415

    assert ctypes.sizeof(SchedAttr) == 48
