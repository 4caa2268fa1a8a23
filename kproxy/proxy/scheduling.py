"""How the kernel shares a core between our threads. No call needs a privilege; where the kernel refuses one, nothing changes.

worker      short slices (sched_setattr(2)): when it wakes up it preempts threads with longer ones, for an equal share over time.
            Since Linux 6.12; older kernels ignore it
analyzer    SCHED_IDLE (sched(7)): it gets what others leave, and anything that wakes up preempts it at once. A thread cannot
            leave that policy without CAP_SYS_NICE; another thread of its process need never enter it (analyzer/pace.py)
page        SCHED_IDLE as well, except for the threads that answer browsers, which have a low priority (supervisor/live_page.py)
"""

import ctypes
import os
import platform
from contextlib import suppress

SHORT_SLICE_NS = 100_000  # the shortest that the kernel allows; its default is some milliseconds
SCHED_OTHER = 0
SYSCALL_NUMBERS = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}  # of sched_setattr


class SchedAttr(ctypes.Structure):
    """struct sched_attr of sched_setattr(2), in its first version."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("sched_policy", ctypes.c_uint32),
        ("sched_flags", ctypes.c_uint64),
        ("sched_nice", ctypes.c_int32),
        ("sched_priority", ctypes.c_uint32),
        ("sched_runtime", ctypes.c_uint64),  # the slice, for SCHED_OTHER
        ("sched_deadline", ctypes.c_uint64),
        ("sched_period", ctypes.c_uint64),
    ]


def take_short_slices() -> bool:
    """Have this thread, and those that it starts, run in short slices. Return whether the kernel accepted that."""
    number = SYSCALL_NUMBERS.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != SCHED_OTHER:  # someone chose another policy: leave it
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = SchedAttr(ctypes.sizeof(SchedAttr), SCHED_OTHER, 0, nice, 0, SHORT_SLICE_NS, 0, 0)
    return bool(ctypes.CDLL(None).syscall(number, 0, ctypes.byref(wanted), 0) == 0)


def take_what_is_left() -> None:
    """Have this thread run only when no other thread wants its core."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
