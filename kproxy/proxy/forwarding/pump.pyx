# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A lane between two plain sockets: recv into one buffer, send from it.

The sockets are in an epoll of our own, which uvloop watches as one file descriptor: an event then costs no Python call, and
errors are told as they are (uvloop's add_reader gives up a socket at its first error, with bytes unread that came before it).
The buffer is the process's: whoever is called uses it up or copies what must stay. A chunk is sent before the next one is
received, so that a sink which takes nothing stops its source after one chunk.
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from posix.unistd cimport close as close_fd

from kproxy.proxy.forwarding.lane cimport BY_OUTPUT, HEADROOM, Lane, Worker, monotonic_ns
from kproxy.proxy.forwarding.link cimport Link

from kproxy.proxy.tap.counted import CloseCause

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int, void *, size_t, int)
    ssize_t send(int, const void *, size_t, int)
    int c_shutdown "shutdown"(int, int)
    int MSG_NOSIGNAL
    int SHUT_WR

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int)
    int epoll_ctl(int, int, int, epoll_event *)
    int epoll_wait(int, epoll_event *, int, int)
    int EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL
    uint32_t EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP

cdef enum:
    CHUNK = 262_144  # 16 KiB costs twice as much on frames of 1 MB
    SMALLEST_CHUNK = 4_096
    SHARE = 64  # of the memory that is left when half of the budget is used: what one chunk may take
    TURNS = 4  # chunks of one socket before others get their turn
    MOST_EVENTS = 128  # before the loop's other work gets its turn

cdef uint8_t *room = <uint8_t *>malloc(HEADROOM + CHUNK)
cdef uint8_t *chunk = room + HEADROOM
cdef int ERROR = CloseCause.ERROR


cdef class Poller:
    """The epoll of one worker's plain sockets.

    Args:
        loop: uvloop's.
    """

    def __cinit__(self, loop):
        self.fd = epoll_create1(EPOLL_CLOEXEC)
        if self.fd < 0:
            raise OSError(errno, "no epoll can be had")
        self.loop = loop
        self.gone = []
        loop.add_reader(self.fd, self.run)

    def __dealloc__(self):
        if self.fd >= 0:
            close_fd(self.fd)

    def close(self):
        """Watch nothing any more."""
        self.loop.remove_reader(self.fd)

    def run(self):
        """Something has happened to some of the sockets."""
        cdef epoll_event events[MOST_EVENTS]
        cdef int count = epoll_wait(self.fd, events, MOST_EVENTS, 0)
        cdef int i
        for i in range(count):
            self.handle(<Watched>events[i].data.ptr, events[i].events)
        if self.gone:
            self.gone = []

    cdef int handle(self, Watched watched, uint32_t events) except -1:
        cdef bint broken = events & (EPOLLERR | EPOLLHUP) != 0
        cdef Link link = None
        try:
            if watched.writes is not None and watched.writes.writing and (broken or events & EPOLLOUT):
                link = <Link>watched.writes.lane.link
                watched.writes.send_on()
            if watched.reads is not None and watched.reads.reading and (broken or events & EPOLLIN):
                link = <Link>watched.reads.lane.link
                watched.reads.receive(broken)
        except Exception as error:  # never into the loop: it would be told of nobody
            if link is not None and not link.closed:
                link.owner.on_fault(link, error)
                link.close(ERROR)
        return 0


cdef class Watched:
    """One socket in the epoll, there while somebody wants to hear of it."""

    cdef int update(self) except -1:
        """Have epoll tell what is wanted now."""
        cdef epoll_event event
        cdef uint32_t wanted = 0
        if self.reads is not None and self.reads.reading:
            wanted |= EPOLLIN
        if self.writes is not None and self.writes.writing:
            wanted |= EPOLLOUT
        if wanted == self.mask:
            return 0
        event.events = wanted
        event.data.ptr = <void *>self
        if wanted == 0:  # errors would be told all the same, again and again
            epoll_ctl(self.poller.fd, EPOLL_CTL_DEL, self.fd, &event)
        elif epoll_ctl(self.poller.fd, EPOLL_CTL_MOD if self.mask else EPOLL_CTL_ADD, self.fd, &event) < 0:
            raise OSError(errno, "a socket cannot be watched")
        self.mask = wanted
        return 0


cdef class SocketPipe(Pipe):
    """Reads one non-blocking socket and writes another; whoever made them closes them."""

    def __dealloc__(self):
        free(self.output)

    cdef int receive(self, bint to_the_end) except -1:
        """Take what has come; where the socket is broken, everything, for nothing will be told of it again."""
        cdef Lane lane = self.lane
        cdef Worker worker = lane.link.worker
        cdef size_t most = CHUNK
        cdef size_t used = worker.buffered[0]
        cdef ssize_t n
        cdef int turn = 0
        if worker.memory_budget and used > worker.memory_budget // 2:
            most = (worker.memory_budget - used) // SHARE if used < worker.memory_budget else 0
            most = SMALLEST_CHUNK if most < SMALLEST_CHUNK else CHUNK if most > CHUNK else most
        while turn < TURNS or to_the_end:
            turn += 1
            n = recv(self.source.fd, chunk, most, 0)
            if n > 0:
                lane.process(chunk, n, monotonic_ns())
                if lane.blocked or not self.reading or n < <ssize_t>most and not to_the_end:
                    return 0
            elif n == 0:
                return (<Link>lane.link).on_eof(lane)
            elif errno == EAGAIN:
                return 0
            elif errno != EINTR:
                (<Link>lane.link).source_lost(lane)
                return 0
        return 0

    cdef int send_on(self) except -1:
        """The sink takes more."""
        cdef Link link = <Link>self.lane.link
        cdef ssize_t n = send(self.sink.fd, self.output + self.output_at, self.output_size - self.output_at, MSG_NOSIGNAL)
        if n < 0:
            if errno != EAGAIN and errno != EINTR:
                self.drop_output()
                link.sink_lost(self.lane)
            return 0
        self.output_at += n
        link.note_progress()
        if self.output_at == self.output_size:
            self.drop_output()
            self.lane.unblock(BY_OUTPUT)
            link.settle()
        return 0

    cdef int emit(self, const uint8_t *data, size_t size) except -1:
        cdef ssize_t n = 0
        if size == 0 or self.lane.discarding:
            return 0
        if self.output_size == 0:
            n = send(self.sink.fd, data, size, MSG_NOSIGNAL)
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
            self.sink.update()
        return self.lane.block(BY_OUTPUT)

    cdef int drop_output(self) except -1:
        free(self.output)
        self.output = NULL
        self.lane.link.worker.buffered[0] -= self.output_capacity
        self.output_at = self.output_size = self.output_capacity = 0
        if self.writing:
            self.writing = False
            self.sink.update()
        return 0

    cdef bint is_flushed(self) noexcept:
        return self.output_size == 0

    cdef int start_reading(self) except -1:
        if not self.reading:
            self.reading = True
            self.source.update()
        return 0

    cdef int stop_reading(self) except -1:
        if self.reading:
            self.reading = False
            self.source.update()
        return 0

    cdef int end_output(self) except -1:
        c_shutdown(self.sink.fd, SHUT_WR)
        return 0

    cdef int detach(self) except -1:
        self.stop_reading()
        self.drop_output()
        self.source.poller.gone.append(self.source)
        self.source.reads = None
        self.sink.writes = None
        return 0


def pump(Link link not None, int client, int broker):
    """Join two connected, non-blocking sockets (file descriptors); they are the link's from now on."""
    cdef Worker worker = link.worker
    cdef Watched of_client = Watched()
    cdef Watched of_broker = Watched()
    cdef SocketPipe requests = SocketPipe()
    cdef SocketPipe responses = SocketPipe()
    if worker.poller is None:
        worker.poller = Poller(worker.loop)
    link.client_fd = of_client.fd = client
    link.broker_fd = of_broker.fd = broker
    of_client.poller = of_broker.poller = <Poller>worker.poller
    of_client.reads = of_broker.writes = requests
    of_broker.reads = of_client.writes = responses
    requests.source = responses.sink = of_client
    requests.sink = responses.source = of_broker
    link.join(requests, responses)


def close_sockets(Link link not None):
    """Close the sockets of a link that was pumped, or was going to be."""
    if link.client_fd >= 0:
        close_fd(link.client_fd)
    if link.broker_fd >= 0:
        close_fd(link.broker_fd)
    link.client_fd = link.broker_fd = -1
