# cython: language_level=3
"""Calls that Python has no function for. In C, as the ctypes module would take more memory than all of them."""

from threading import Thread  # no-cython-lint

from libc.stdint cimport int32_t, uint64_t

cdef extern from * nogil:
    """
    #include <link.h>
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

    static int kproxy_forget_code_of(struct dl_phdr_info *object, size_t size, void *unused) {
        const ElfW(Phdr) *part, *end = object->dlpi_phdr + object->dlpi_phnum;
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        for (part = object->dlpi_phdr; part < end; part++) {  /* with relocations in its code, its pages are not the file's */
            const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(object->dlpi_addr + part->p_vaddr);
            if (part->p_type != PT_DYNAMIC) continue;
            for (; entry->d_tag != DT_NULL; entry++)
                if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL)) return 0;
        }
        for (part = object->dlpi_phdr; part < end; part++) {
            uintptr_t first = object->dlpi_addr + part->p_vaddr, last = first + part->p_filesz;
            if (part->p_type == PT_LOAD && !(part->p_flags & PF_W))
                madvise((void *)(first & ~(page - 1)), (last & ~(page - 1)) - (first & ~(page - 1)), MADV_DONTNEED);
        }
        return 0;
    }
    static inline void kproxy_forget_code(void) { dl_iterate_phdr(kproxy_forget_code_of, 0); }
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
    neighbours. These are pages of files, which the kernel may keep for other processes.
    """
    kproxy_forget_code()


def raise_in(thread: Thread, exception: type[BaseException]) -> None:
    """Raise an exception in a thread, at its next step in Python."""
    PyThreadState_SetAsyncExc(thread.ident or 0, exception)
