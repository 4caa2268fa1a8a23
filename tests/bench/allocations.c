/* Counts the calls of malloc, calloc and realloc of each process that has this library preloaded: in $ALLOCATIONS/PID. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static unsigned long before, *count = &before;

static void begin(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", getenv("ALLOCATIONS"), getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof before)) return;
    void *at = mmap(0, sizeof before, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) count = at;
    close(fd);
}

__attribute__((constructor)) static void start(void) { begin(); pthread_atfork(0, 0, begin); }

void *malloc(size_t size) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); return __libc_calloc(n, size); }
void *realloc(void *at, size_t size) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); return __libc_realloc(at, size); }
