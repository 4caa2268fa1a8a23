# Memory that processes share: mapped from a memfd whose size is sealed (sealed.py).

from libc.stdint cimport uint8_t, uint64_t


cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23  /* Linux 5.14; older kernels refuse it, and pages come one by one */
    #endif

    static inline void *kproxy_map(int fd, size_t size) {
        void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return at == MAP_FAILED ? NULL : at;
    }
    static inline void kproxy_touch(void *at, size_t size) { madvise(at, size, MADV_POPULATE_WRITE); }
    static inline void kproxy_unmap(void *at, size_t size) { munmap(at, size); }
    static inline int kproxy_forget(void *at, size_t size) { return madvise(at, size, MADV_REMOVE); }
    static inline uint64_t kproxy_load(const void *at) {
        return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
    }
    static inline void kproxy_store(void *at, uint64_t value) {
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    }
    static inline void kproxy_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    """
    void* map_shared "kproxy_map"(int fd, size_t size)
    void unmap_shared "kproxy_unmap"(void* at, size_t size)
    void touch_shared "kproxy_touch"(void* at, size_t size)  # allocate the pages now, not while traffic passes
    int forget_shared "kproxy_forget"(void* at, size_t size)  # make whole pages 0 and free their memory; 0 or -1
    uint64_t load_acquire "kproxy_load"(const void* at)  # one load, ordered before later reads
    void store_release "kproxy_store"(void* at, uint64_t value)  # one store, ordered after earlier writes
    void full_fence "kproxy_fence"()  # stores before it are seen by others before loads after it are done
