# cython: language_level=3
"""Calls that Python has no function for. In C, as the ctypes module would take more memory than all of them."""

from threading import Thread  # no-cython-lint

from libc.stdint cimport int32_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    struct kproxy_sched_attr {  /* struct sched_attr of sched_setattr(2), in its first version */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    };
    static inline int kproxy_take_slices(int32_t nice, uint64_t slice_ns) {
        struct kproxy_sched_attr wanted;
        memset(&wanted, 0, sizeof wanted);
        wanted.size = sizeof wanted;
        wanted.nice = nice;
        wanted.runtime = slice_ns;  /* the slice, for SCHED_OTHER, which is 0 */
        return (int)syscall(SYS_sched_setattr, 0, &wanted, 0);
    }
    static inline int kproxy_die_with_parent(int number) { return prctl(PR_SET_PDEATHSIG, number); }
    """
    int kproxy_take_slices(int32_t nice, uint64_t slice_ns)
    int kproxy_die_with_parent(int number)

cdef extern from "Python.h":
    int PyThreadState_SetAsyncExc(unsigned long thread, object exception) except -1


def take_slices(int nice, uint64_t slice_ns) -> bool:
    """Have this thread run in slices of that length, at that niceness. Return whether the kernel accepted it."""
    return kproxy_take_slices(nice, slice_ns) == 0


def die_with_parent(int number) -> None:
    """Have the kernel send this process a signal when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    kproxy_die_with_parent(number)


def raise_in(thread: Thread, exception: type[BaseException]) -> None:
    """Raise an exception in a thread, at its next step in Python."""
    PyThreadState_SetAsyncExc(thread.ident or 0, exception)
