# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A lane between two plain sockets: recv into one buffer, send from it; uvloop's add_reader says when.

The buffer is the process's: a callback uses it up or copies what must stay. A chunk is sent before the next one is received, so
that a sink which takes nothing stops its source after one chunk.
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from posix.unistd cimport close as close_fd

from kproxy.proxy.counted import CloseCause
from kproxy.proxy.lane cimport BY_OUTPUT, HEADROOM, Lane, monotonic_ns
from kproxy.proxy.link cimport Link

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int, void *, size_t, int)
    ssize_t send(int, const void *, size_t, int)
    int c_shutdown "shutdown"(int, int)
    int MSG_NOSIGNAL
    int SHUT_WR

cdef enum:
    CHUNK = 262_144  # 16 KiB costs twice as much on frames of 1 MB
    TURNS = 4  # chunks a callback takes before others get their turn

cdef uint8_t *room = <uint8_t *>malloc(HEADROOM + CHUNK)
cdef uint8_t *chunk = room + HEADROOM
cdef int ERROR = CloseCause.ERROR


cdef class SocketPipe(Pipe):
    """Reads one non-blocking socket and writes another.

    Args:
        loop: uvloop's.
        source, sink: file descriptors; whoever made them closes them.
    """

    def __init__(self, loop, int source, int sink):
        self.loop = loop
        self.source = source
        self.sink = sink
        self.on_readable = self.readable

    def __dealloc__(self):
        free(self.output)

    def readable(self):
        """The source has something."""
        cdef Link link = <Link>self.lane.link
        try:
            self.receive()
        except Exception as error:  # never into the loop: it would be told of nobody
            link.owner.on_fault(link, error)
            link.close(ERROR)

    cdef int receive(self) except -1:
        cdef Lane lane = self.lane
        cdef ssize_t n
        cdef int turn
        for turn in range(TURNS):
            n = recv(self.source, chunk, CHUNK, 0)
            if n > 0:
                lane.process(chunk, n, monotonic_ns())
                if n < CHUNK or lane.blocked or not self.reading:
                    return 0
            elif n == 0:
                return (<Link>lane.link).on_eof(lane)
            elif errno == EAGAIN:
                return 0
            elif errno != EINTR:
                (<Link>lane.link).source_lost(lane)
                return 0
        return 0

    def writable(self):
        """The sink takes more."""
        cdef Link link = <Link>self.lane.link
        cdef ssize_t n
        try:
            n = send(self.sink, self.output + self.output_at, self.output_size - self.output_at, MSG_NOSIGNAL)
            if n < 0:
                if errno != EAGAIN and errno != EINTR:
                    self.drop_output()
                    link.sink_lost(self.lane)
                return
            self.output_at += n
            link.note_progress()
            if self.output_at == self.output_size:
                self.drop_output()
                self.lane.unblock(BY_OUTPUT)
                link.settle()
        except Exception as error:
            link.owner.on_fault(link, error)
            link.close(ERROR)

    cdef int emit(self, const uint8_t *data, size_t size) except -1:
        cdef ssize_t n = 0
        if size == 0 or self.lane.discarding:
            return 0
        if self.output_size == 0:
            n = send(self.sink, data, size, MSG_NOSIGNAL)
            if n == <ssize_t>size:
                return 0
            if n < 0:
                if errno != EAGAIN and errno != EINTR:
                    (<Link>self.lane.link).sink_lost(self.lane)
                    return 0
                n = 0
        return self.keep_output(data + n, size - n)

    cdef int keep_output(self, const uint8_t *data, size_t size) except -1:
        """What the sink did not take waits until it does; nothing more is read meanwhile."""
        cdef uint8_t *grown
        if self.output_size + size > self.output_capacity:
            grown = <uint8_t *>realloc(self.output, self.output_size + size)
            if grown == NULL:
                raise MemoryError
            self.lane.link.worker.buffered[0] += self.output_size + size - self.output_capacity
            self.output = grown
            self.output_capacity = self.output_size + size
        memcpy(self.output + self.output_size, data, size)
        self.output_size += size
        if not self.writing:
            self.writing = True
            self.loop.add_writer(self.sink, self.writable)
        return self.lane.block(BY_OUTPUT)

    cdef int drop_output(self) except -1:
        free(self.output)
        self.output = NULL
        self.lane.link.worker.buffered[0] -= self.output_capacity
        self.output_at = self.output_size = self.output_capacity = 0
        if self.writing:
            self.writing = False
            self.loop.remove_writer(self.sink)
        return 0

    cdef bint is_flushed(self) noexcept:
        return self.output_size == 0

    cdef int start_reading(self) except -1:
        if not self.reading:
            self.reading = True
            self.loop.add_reader(self.source, self.on_readable)
        return 0

    cdef int stop_reading(self) except -1:
        if self.reading:
            self.reading = False
            self.loop.remove_reader(self.source)
        return 0

    cdef int end_output(self) except -1:
        c_shutdown(self.sink, SHUT_WR)
        return 0

    cdef int detach(self) except -1:
        self.stop_reading()
        self.drop_output()
        self.on_readable = None
        return 0


def pump(Link link not None, int client, int broker):
    """Join two connected, non-blocking sockets (file descriptors); they are the link's from now on."""
    link.client_fd = client
    link.broker_fd = broker
    link.join(SocketPipe(link.worker.loop, client, broker), SocketPipe(link.worker.loop, broker, client))


def close_sockets(Link link not None):
    """Close the sockets of a link that was pumped, or was going to be."""
    if link.client_fd >= 0:
        close_fd(link.client_fd)
    if link.broker_fd >= 0:
        close_fd(link.broker_fd)
    link.client_fd = link.broker_fd = -1
