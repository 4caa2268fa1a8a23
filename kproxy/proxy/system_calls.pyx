# cython: language_level=3
"""Calls that Python has no function for. In C, as the ctypes module would take more memory than all of them."""

from threading import Thread  # no-cython-lint

from libc.stdint cimport int32_t, uint64_t

cdef extern from * nogil:
    """
    #include <fcntl.h>
    #include <link.h>
    #include <malloc.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/mman.h>
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

    enum { KPROXY_TOGETHER = 512, KPROXY_MOST_PARTS = 32 };
    static int kproxy_forget_code_of(struct dl_phdr_info *object, size_t size, void *pagemap) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at, end;
        uint64_t pages[KPROXY_TOGETHER];  /* see proc_pid_pagemap(5) */
        ElfW(Phdr) parts[KPROXY_MOST_PARTS], *part;  /* a copy: reading would have the kernel bring pages back */
        size_t number = object->dlpi_phnum < KPROXY_MOST_PARTS ? object->dlpi_phnum : KPROXY_MOST_PARTS;
        memcpy(parts, object->dlpi_phdr, number * sizeof *parts);
        for (part = parts; part < parts + number; part++) {
            if (part->p_type != PT_LOAD || part->p_flags & PF_W) continue;
            at = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
            end = (object->dlpi_addr + part->p_vaddr + part->p_filesz) & ~(page - 1);
            while (at < end) {
                size_t count = (end - at) / page < KPROXY_TOGETHER ? (end - at) / page : KPROXY_TOGETHER, one;
                int differs = 0;  /* from the file: a breakpoint or a probe is set there, or the page was made huge */
                if (pread(*(int *)pagemap, pages, count * 8, (off_t)(at / page * 8)) != (ssize_t)(count * 8)) return 0;
                for (one = 0; one < count; one++) differs |= pages[one] >> 62 && !(pages[one] >> 61 & 1);
                if (!differs) madvise((void *)at, count * page, MADV_DONTNEED);
                at += count * page;
            }
        }
        return 0;
    }
    static inline void kproxy_forget_code(void) {
        int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        if (pagemap < 0) return;
        dl_iterate_phdr(kproxy_forget_code_of, &pagemap);
        close(pagemap);
    #ifdef __GLIBC__
        malloc_trim(0);  /* what imports have freed */
    #endif
    }
    """
    void kproxy_forget_code()
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


def forget_code() -> None:
    """Give up the pages of programs and libraries that this process has read; what it needs, it reads again.

    Start-up reads much that is never needed afterwards: symbols, relocations, what initializes a library, and with each page its
    neighbours. These are pages of files, which the kernel may keep for other processes. Freed memory is given up too.
    """
    kproxy_forget_code()


def raise_in(thread: Thread, exception: type[BaseException]) -> None:
    """Raise an exception in a thread, at its next step in Python."""
    PyThreadState_SetAsyncExc(thread.ident or 0, exception)
