# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Links between two sockets, from accept(2) to the last send(2): Acceptor, Poller, SocketPipe.

Acceptor  accepts clients and checks the limits. Where two plain sockets are to be joined and the broker's address is a number, it
          connects and joins them without a call of Python code; any other link (TLS, a name, a proxy on the way, a PROXY header) is
          opened by the owner (LinkOwner.open_link).
Poller    an epoll of our own, which uvloop watches as one file descriptor: an event then costs no Python call, and errors come with
          the socket they belong to (uvloop's add_reader gives a socket up at its first error, with bytes unread that came before).
SocketPipe  receives into one buffer and sends from it. The buffer is the process's: a lane copies what it keeps, and most of a large
            frame that is held is received where it is kept (Lane.room_in_held). A chunk is sent
          before the next one is received, so a sink that takes nothing stops its source after one chunk. Where a side is TLS, the
          pipe decrypts what it received and encrypts what it sends (TlsSide).
"""

from asyncio import AbstractEventLoop
from typing import TYPE_CHECKING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport (
    EAGAIN, EALREADY, ECONNABORTED, ECONNREFUSED, EINPROGRESS, EINTR, EISCONN, EMFILE, ENFILE, ENOBUFS, ENOMEM, errno,
)
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy
from posix.unistd cimport close as close_fd

from kproxy.protocol.direction cimport DIRECTION_RESPONSE
from kproxy.proxy.forwarding.lane cimport BY_OUTPUT, HEADROOM, Lane, Pipe, TURN_NS, Worker, monotonic_ns
from kproxy.proxy.forwarding.link cimport Link
from kproxy.proxy.forwarding.tls_side cimport PIECE, TlsSide

from ssl import SSLError

from kproxy.proxy.tap.counted import CloseCause, Total

if TYPE_CHECKING:
    from kproxy.proxy.forwarding.owner import LinkOwner

cdef extern from "<sys/socket.h>" nogil:
    ctypedef unsigned int socklen_t
    cdef struct sockaddr:
        pass
    cdef struct sockaddr_storage:
        unsigned short ss_family
    int accept4(int, sockaddr *, socklen_t *, int)
    int c_socket "socket"(int, int, int)
    int c_connect "connect"(int, const sockaddr *, socklen_t)
    int c_shutdown "shutdown"(int, int)
    int setsockopt(int, int, int, const void *, socklen_t)
    int getsockopt(int, int, int, void *, socklen_t *)
    int getsockname(int, sockaddr *, socklen_t *)
    int getpeername(int, sockaddr *, socklen_t *)
    ssize_t recv(int, void *, size_t, int)
    ssize_t send(int, const void *, size_t, int)
    int SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, SO_KEEPALIVE, SO_ERROR, MSG_NOSIGNAL, SHUT_WR

cdef extern from "<netinet/in.h>" nogil:
    int IPPROTO_TCP

cdef extern from "<netinet/tcp.h>" nogil:
    int TCP_NODELAY

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
    CHUNK = 262_144  # bytes; 16 KiB costs twice as much on frames of 1 MB
    PLAIN = CHUNK + 131_072  # bytes: of a chunk decrypted, after what a handshake has left
    SMALLEST_CHUNK = 4_096  # bytes
    SHARE = 64  # above half of the memory budget a chunk is at most a 64th of what is left of it
    CHUNKS_IN_A_TURN = 4  # received from one socket before others get their turn
    CLIENTS_IN_A_TURN = 64  # accepted before others get their turn
    EVENTS_IN_A_TURN = 128  # before the loop's other work gets its turn

cdef uint8_t *room = <uint8_t *>malloc(HEADROOM + CHUNK)
cdef uint8_t *chunk = room + HEADROOM
cdef uint8_t *plain = <uint8_t *>malloc(HEADROOM + PLAIN) + HEADROOM
cdef int BROKER_CLOSED = CloseCause.BROKER_CLOSED
cdef int ERROR = CloseCause.ERROR
cdef int ACCEPT_ERRORS = Total.ACCEPT_ERRORS
cdef int CONNECTIONS_OPEN = Total.CONNECTIONS_OPEN
cdef int CONNECTIONS_OPENED = Total.CONNECTIONS_OPENED
cdef int REFUSED_CONNECTIONS = Total.REFUSED_CONNECTIONS
cdef int UPSTREAM_CONNECTS = Total.UPSTREAM_CONNECTS

cdef class PolledSocket
cdef class SocketPipe(Pipe)


cdef class Acceptor:
    """Accepts on one listening socket.

    Args:
        worker: what its links share.
        owner: a LinkOwner, the virtual cluster.
        fd: a listening, non-blocking socket; TCP_NODELAY and SO_KEEPALIVE set on it are inherited.
        node_id: of the broker whose clients come here; None: the bootstrap address.
    """

    cdef readonly Worker worker
    cdef readonly object owner  # type: LinkOwner
    cdef readonly int fd
    cdef readonly object node_id  # type: int | None
    cdef bytes target  # sockaddr of the broker; None: ask the owner to open links
    cdef object _address

    def __init__(self, Worker worker not None, owner: LinkOwner, int fd, node_id: int | None = None):
        self.worker = worker
        self.owner = owner
        self.fd = fd
        self.node_id = node_id

    def set_target(self, bytes target: bytes | None, address: tuple[str, int] | None) -> None:
        """Connect clients to the broker at *target* (sockaddr) and *address* (host, port); None: ask the owner."""
        self.target = target
        self._address = address

    def start(self) -> None:
        """Accept clients."""
        self.worker.loop.add_reader(self.fd, self.readable)

    def stop(self) -> None:
        """Stop accepting, after the clients in the backlog, so that none of them is reset."""
        self.worker.loop.remove_reader(self.fd)
        while self.accept_some():
            pass

    def pause(self) -> None:
        """Stop accepting for now; clients wait in the backlog."""
        self.worker.loop.remove_reader(self.fd)

    def readable(self):
        """Accept clients that are waiting."""
        self.accept_some()

    cdef bint accept_some(self) except -1:
        """Accept up to CLIENTS_IN_A_TURN; return whether more may be waiting."""
        cdef sockaddr_storage address
        cdef socklen_t size
        cdef int client
        cdef int _
        for _ in range(CLIENTS_IN_A_TURN):
            size = sizeof(sockaddr_storage)
            client = accept4(self.fd, <sockaddr *>&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC)
            if client < 0:
                if errno in (EMFILE, ENFILE, ENOBUFS, ENOMEM):
                    self.worker.counters.total(ACCEPT_ERRORS)[0] += 1
                    self.owner.on_accept_error(self, errno)
                    return False
                if errno in (EINTR, ECONNABORTED):
                    continue
                return False
            self.accept(client, (<char *>&address)[:size])
        return True

    cdef int accept(self, int client, bytes peer) except -1:
        """Make a link for an accepted client, if the limits allow it, and open it."""
        cdef Link link
        cdef Worker worker = self.worker
        cdef object slot = None
        if not worker.take_place():
            return self.refuse(client)
        try:
            if worker.checks_each_client:
                slot = self.owner.admit_client(peer)
                if slot is None:
                    worker.release_place()
                    return self.refuse(client)
            link = self.make_link(peer, slot)
        except MemoryError:
            worker.release_place()
            close_fd(client)
            return self.starve()
        except Exception as error:
            worker.release_place()
            close_fd(client)
            self.owner.on_fault(None, error)
            return 0
        worker.counters.total(CONNECTIONS_OPENED)[0] += 1
        worker.counters.total(CONNECTIONS_OPEN)[0] += 1
        link.client_fd = client
        try:
            if self.target is None:
                self.owner.open_link(link, self)
            else:
                link.target = self._address
                self.connect(link)
        except MemoryError:
            self.starve()
            link.close(ERROR)
        except Exception as error:
            self.owner.on_fault(link, error)
            link.close(ERROR)
        return 0

    cdef int starve(self) except -1:
        """Count and report that there is no memory for one more link."""
        self.worker.counters.total(ACCEPT_ERRORS)[0] += 1
        self.owner.on_accept_error(self, ENOMEM)
        return 0

    cdef int refuse(self, int client) except -1:
        self.worker.counters.total(REFUSED_CONNECTIONS)[0] += 1
        close_fd(client)
        return 0

    cdef Link make_link(self, bytes peer, object slot):
        cdef Link link
        self.worker.last_link_number += 1
        link = Link(self.worker, self.owner, self.owner.plan, self.worker.last_link_number, self.owner.limits)
        link.peer = peer
        link.node_id = self.node_id
        if self.owner.sampler is not None:
            link.sampled = self.owner.sampler()
        link.client_host_slot = slot
        if self.owner.logs_in:
            link.begin_login()
        return link

    cdef int connect(self, Link link) except -1:
        """Connect the link to the broker, and join both sides now or once that has succeeded."""
        cdef const uint8_t *target = <const uint8_t *><char *>self.target
        cdef socklen_t size = len(self.target)
        cdef int one = 1
        cdef int broker = c_socket((<unsigned short *>target)[0], SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
        if broker < 0:
            return self.fail(link, errno)
        link.broker_fd = broker
        setsockopt(broker, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(int))
        setsockopt(broker, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(int))
        self.worker.counters.total(UPSTREAM_CONNECTS)[0] += 1
        if c_connect(broker, <const sockaddr *>target, size) == 0:
            return self.join(link)
        if errno != EINPROGRESS:
            return self.fail(link, errno)
        if c_connect(broker, <const sockaddr *>target, size) == 0 or errno == EISCONN:  # over loopback it has succeeded by now
            return self.join(link)
        if errno not in (EINPROGRESS, EAGAIN, EALREADY):
            return self.fail(link, errno)
        link.connecting = True
        self.worker.loop.add_writer(broker, self.connected, link)
        return 0

    def connected(self, Link link not None):
        """Join the link, whose connect has ended, or report why it failed."""
        cdef int error = 0
        cdef socklen_t size = sizeof(int)
        if link.closed:
            return
        link.stop_connecting()
        getsockopt(link.broker_fd, SOL_SOCKET, SO_ERROR, &error, &size)
        try:
            if error:
                self.fail(link, error)
            else:
                self.join(link)
        except Exception as fault:
            self.owner.on_fault(link, fault)
            link.close(ERROR)

    cdef int join(self, Link link) except -1:
        if self.is_joined_to_itself(link.broker_fd):
            return self.fail(link, ECONNREFUSED)
        pump(link, link.client_fd, link.broker_fd)
        return 0

    cdef bint is_joined_to_itself(self, int broker) noexcept:
        """Return whether TCP connected the socket to itself, as it can where no process listens on a port of this host."""
        cdef sockaddr_storage ours
        cdef sockaddr_storage theirs
        cdef socklen_t size = sizeof(sockaddr_storage)
        cdef socklen_t other = sizeof(sockaddr_storage)
        if getsockname(broker, <sockaddr *>&ours, &size) != 0 or getpeername(broker, <sockaddr *>&theirs, &other) != 0:
            return False
        return size == other and memcmp(&ours, &theirs, size) == 0

    cdef int fail(self, Link link, int error) except -1:
        self.owner.on_unreachable(link, error)
        return 0


cdef class Poller:
    """The epoll of one worker's plain sockets.

    Args:
        loop: uvloop's.
    """

    cdef int fd  # of the epoll
    cdef object loop
    cdef list detached  # sockets that events still to be handled may name: kept until those are handled
    cdef epoll_event events[EVENTS_IN_A_TURN]
    cdef int event_count
    cdef int next_event  # the first that is not handled yet
    cdef bint run_is_due  # the loop will call run_rest
    cdef uint64_t now  # ns, monotonic: when the last chunk was received; reading the clock once more would cost as much as a frame

    def __cinit__(self, loop: AbstractEventLoop) -> Self:
        self.fd = epoll_create1(EPOLL_CLOEXEC)
        if self.fd < 0:
            raise OSError(errno, "epoll_create1 failed")
        self.loop = loop
        self.detached = []
        loop.add_reader(self.fd, self.run)

    def __dealloc__(self):
        if self.fd >= 0:
            close_fd(self.fd)

    def close(self) -> None:
        """Stop watching."""
        self.loop.remove_reader(self.fd)

    def run(self) -> None:
        """Handle the events of sockets that are ready, for at most TURN_NS: the rest in the next turn, before newer ones."""
        cdef uint64_t until = 0
        cdef epoll_event *event
        if self.run_is_due:
            return
        if self.next_event == self.event_count:
            self.next_event = 0
            self.event_count = max(epoll_wait(self.fd, self.events, EVENTS_IN_A_TURN, 0), 0)
        while self.next_event < self.event_count:
            event = &self.events[self.next_event]
            self.next_event += 1
            self.handle(<PolledSocket>event.data.ptr, event.events)
            if until == 0:
                until = self.now + TURN_NS
            elif self.next_event < self.event_count and self.now > until:
                self.run_is_due = True
                self.loop.call_soon(self.run_rest)  # epoll reports nothing for sockets that are not ready any more
                return
        if self.detached:
            self.detached = []

    def run_rest(self):
        """Go on where the previous turn ended."""
        self.run_is_due = False
        self.run()

    cdef int handle(self, PolledSocket polled, uint32_t events) except -1:
        """Write and read one socket, as its events say; an exception closes its link."""
        cdef bint broken = events & (EPOLLERR | EPOLLHUP) != 0
        cdef Link link = None
        try:
            if polled.writes is not None and polled.writes.writing and (broken or events & EPOLLOUT):
                link = <Link>polled.writes.lane.link
                polled.writes.send_unsent()
            if polled.reads is not None and polled.reads.reading and (broken or events & EPOLLIN):
                link = <Link>polled.reads.lane.link
                polled.reads.receive(broken)
        except Exception as error:  # caught here, as the loop would not know the link
            if link is not None and not link.closed:
                link.owner.on_fault(link, error)
                link.close(ERROR)
        return 0


cdef class PolledSocket:
    """One socket; in the epoll while a pipe reads it or has to write it."""

    cdef int fd
    cdef uint32_t mask  # the events epoll reports; 0: the socket is not in the epoll
    cdef Poller poller
    cdef SocketPipe reads  # the pipe whose source it is
    cdef SocketPipe writes  # the pipe whose sink it is

    cdef int update(self) except -1:
        """Have epoll report the events that the pipes wait for now."""
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
        if wanted == 0:  # with an empty mask epoll would still report errors, again and again
            epoll_ctl(self.poller.fd, EPOLL_CTL_DEL, self.fd, &event)
        elif epoll_ctl(self.poller.fd, EPOLL_CTL_MOD if self.mask else EPOLL_CTL_ADD, self.fd, &event) < 0:
            raise OSError(errno, "a socket cannot be watched")
        self.mask = wanted
        return 0


cdef class SocketPipe(Pipe):
    """Reads one non-blocking socket and writes another; ``close_sockets`` closes them."""

    cdef PolledSocket source
    cdef PolledSocket sink
    cdef TlsSide source_tls  # None: the source is plain
    cdef TlsSide sink_tls
    cdef uint8_t *unsent  # bytes the sink has not taken
    cdef size_t unsent_at
    cdef size_t unsent_size
    cdef size_t unsent_capacity
    cdef bint reading
    cdef bint writing

    def __dealloc__(self):
        free(self.unsent)

    cdef int receive(self, bint to_the_end) except -1:
        """Receive chunks and pass them to the lane; *to_the_end*: the socket is broken, so read until its end, as no event follows."""
        cdef Lane lane = self.lane
        cdef Worker worker = lane.link.worker
        cdef size_t most = CHUNK
        cdef size_t used = worker.buffered[0]
        cdef size_t wanted
        cdef uint8_t *held
        cdef ssize_t n
        cdef int turn = 0
        cdef uint64_t until = 0
        cdef uint64_t now
        if worker.memory_budget and used > worker.memory_budget // 2:
            most = (worker.memory_budget - used) // SHARE if used < worker.memory_budget else 0
            most = SMALLEST_CHUNK if most < SMALLEST_CHUNK else CHUNK if most > CHUNK else most
        while turn < CHUNKS_IN_A_TURN or to_the_end:
            turn += 1
            wanted = most
            held = NULL if self.source_tls is not None else lane.room_in_held(&wanted)
            n = recv(self.source.fd, chunk if held == NULL else held, wanted, 0)
            if n > 0:
                now = self.source.poller.now = monotonic_ns()
                if until == 0:
                    until = now + TURN_NS
                if held != NULL:
                    lane.process_held(n, now)
                elif self.source_tls is None:
                    lane.process(chunk, n, now)
                else:
                    self.receive_encrypted(chunk, n)
                if now > until and not to_the_end:
                    return 0
                if lane.blocked or not self.reading or n < <ssize_t>wanted and not to_the_end:
                    return 0
            elif n == 0:
                return (<Link>lane.link).on_eof(lane)
            elif errno == EAGAIN:
                return 0
            elif errno != EINTR:
                (<Link>lane.link).source_lost(lane)
                return 0
        return 0

    cdef int receive_encrypted(self, const uint8_t *data, size_t size) except -1:
        """Decrypt what was received, and pass it to the lane."""
        cdef Link link = <Link>self.lane.link
        cdef TlsSide tls = self.source_tls
        cdef SocketPipe back = self.source.writes
        cdef Py_ssize_t n
        cdef bytes due
        try:
            n = tls.decrypt(data, size, plain, PLAIN)
            due = tls.due()
        except SSLError:
            link.source_lost(self.lane)
            return 0
        if due and back is not None:
            back.send_or_keep(<const uint8_t *>PyBytes_AS_STRING(due), PyBytes_GET_SIZE(due))
        if n and not link.closed:
            self.lane.process(plain, n, monotonic_ns())
        if tls.ended and not link.closed:
            link.on_eof(self.lane)
        return 0

    cdef int send_unsent(self) except -1:
        """Send what the sink did not take before; once all is sent, unblock the lane."""
        cdef Link link = <Link>self.lane.link
        cdef ssize_t n = send(self.sink.fd, self.unsent + self.unsent_at, self.unsent_size - self.unsent_at, MSG_NOSIGNAL)
        if n < 0:
            if errno != EAGAIN and errno != EINTR:
                self.free_unsent()
                link.sink_lost(self.lane)
                if not link.closed:  # what the source still sends is read and discarded, so that the link can end
                    self.lane.unblock(BY_OUTPUT)
                    link.settle()
            return 0
        self.unsent_at += n
        link.last_at = monotonic_ns()  # not idle
        if self.unsent_at == self.unsent_size:
            self.free_unsent()
            if self.lane.passed_count:
                self.lane.note_sent_later()
            self.lane.unblock(BY_OUTPUT)
            link.settle()
        return 0

    cdef int emit(self, const uint8_t *data, size_t size) except -1:
        if size == 0 or self.lane.discarding:
            return 0
        return self.send_or_keep(data, size) if self.sink_tls is None else self.emit_encrypted(data, size)

    cdef int emit_encrypted(self, const uint8_t *data, size_t size) except -1:
        cdef Link link = <Link>self.lane.link
        cdef size_t n
        cdef bytes sealed
        while size and not self.lane.discarding and not link.closed:
            n = min(size, <size_t>PIECE)
            try:
                sealed = self.sink_tls.encrypt(data, n)
            except SSLError:
                link.sink_lost(self.lane)
                return 0
            self.send_or_keep(<const uint8_t *>PyBytes_AS_STRING(sealed), PyBytes_GET_SIZE(sealed))
            data += n
            size -= n
        return 0

    cdef int send_or_keep(self, const uint8_t *data, size_t size) except -1:
        """Send bytes as they go over the socket; keep what it does not take."""
        cdef ssize_t n = 0
        if self.unsent_size == 0:
            n = send(self.sink.fd, data, size, MSG_NOSIGNAL)
            if n == <ssize_t>size:
                return 0
            if n < 0:
                if errno != EAGAIN and errno != EINTR:
                    (<Link>self.lane.link).sink_lost(self.lane)
                    return 0
                n = 0
        return self.keep_unsent(data + n, size - n)

    cdef int keep_unsent(self, const uint8_t *data, size_t size) except -1:
        """Keep what the sink did not take; block the lane until the sink has taken it."""
        cdef uint8_t *grown
        if self.unsent_size + size > self.unsent_capacity:
            grown = <uint8_t *>realloc(self.unsent, self.unsent_size + size)
            if grown == NULL:
                raise MemoryError
            self.lane.link.worker.charge(self.unsent_size + size - self.unsent_capacity)
            self.unsent = grown
            self.unsent_capacity = self.unsent_size + size
        memcpy(self.unsent + self.unsent_size, data, size)
        self.unsent_size += size
        if not self.writing:
            self.writing = True
            self.sink.update()
        return self.lane.block(BY_OUTPUT)

    cdef int free_unsent(self) except -1:
        free(self.unsent)
        self.unsent = NULL
        self.lane.link.worker.charge(-<int64_t>self.unsent_capacity)
        self.unsent_at = self.unsent_size = self.unsent_capacity = 0
        if self.writing:
            self.writing = False
            self.sink.update()
        return 0

    cdef int is_flushed(self) except -1:
        return self.unsent_size == 0

    cdef size_t buffered(self) noexcept:
        return self.unsent_capacity

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
        """Send FIN. A side over TLS ends with the link: a broker that got close_notify earlier could drop what it has to answer."""
        if self.sink_tls is None:
            c_shutdown(self.sink.fd, SHUT_WR)
        elif self.lane.direction == DIRECTION_RESPONSE:
            (<Link>self.lane.link).close(BROKER_CLOSED)
        return 0

    cdef int say_goodbye(self) except -1:
        """Send close_notify if all before it has been sent."""
        cdef bytes goodbye
        if self.sink_tls is not None and self.unsent_size == 0 and not self.lane.discarding:
            goodbye = self.sink_tls.goodbye()
            send(self.sink.fd, PyBytes_AS_STRING(goodbye), PyBytes_GET_SIZE(goodbye), MSG_NOSIGNAL)
        return 0

    cdef int detach(self) except -1:
        """Stop reading and sending, after close_notify where the sink has TLS."""
        self.stop_reading()
        self.say_goodbye()
        self.free_unsent()
        self.source.poller.detached.append(self.source)
        self.source.reads = None
        self.sink.writes = None
        return 0


def pump(Link link not None, int client, int broker, TlsSide client_tls=None, TlsSide broker_tls=None) -> None:
    """Join two connected, non-blocking sockets (file descriptors), which the link owns from now on; *_tls*: of a side with TLS."""
    cdef Worker worker = link.worker
    cdef PolledSocket client_socket = PolledSocket()
    cdef PolledSocket broker_socket = PolledSocket()
    cdef SocketPipe requests = SocketPipe()
    cdef SocketPipe responses = SocketPipe()
    if worker.poller is None:
        worker.poller = Poller(worker.loop)
    link.client_fd = client_socket.fd = client
    link.broker_fd = broker_socket.fd = broker
    client_socket.poller = broker_socket.poller = <Poller>worker.poller
    client_socket.reads = broker_socket.writes = requests
    broker_socket.reads = client_socket.writes = responses
    requests.source = responses.sink = client_socket
    requests.sink = responses.source = broker_socket
    requests.source_tls = responses.sink_tls = client_tls
    requests.sink_tls = responses.source_tls = broker_tls
    link.tls = client_tls is not None, broker_tls is not None
    link.join(requests, responses)
    for pipe in (requests, responses):  # what came with the last bytes of the handshake
        if (<SocketPipe>pipe).source_tls is not None and not link.closed:
            (<SocketPipe>pipe).receive_encrypted(NULL, 0)


def close_sockets(Link link not None) -> None:
    """Close the sockets that a link owns."""
    if link.client_fd >= 0:
        close_fd(link.client_fd)
    if link.broker_fd >= 0:
        close_fd(link.broker_fd)
    link.client_fd = link.broker_fd = -1
