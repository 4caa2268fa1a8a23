# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Accepts clients: asks the limits, makes a link and has it connected.

Where nothing but two plain sockets is to be joined, and the broker's address is a number, all is done here; everything else
(TLS, names, a proxy on the way, a PROXY header) is the owner's, who awaits.
"""

from libc.errno cimport EAGAIN, EALREADY, ECONNABORTED, ECONNREFUSED, EINPROGRESS, EINTR, EISCONN, EMFILE, ENFILE, ENOBUFS, ENOMEM, errno
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp
from posix.unistd cimport close as close_fd

from kproxy.proxy.tap.counters cimport (
    ACCEPT_ERRORS, CONNECTIONS_OPEN, CONNECTIONS_OPENED, REFUSED_CONNECTIONS, UPSTREAM_CONNECTS,
)
from kproxy.proxy.forwarding.lane cimport Worker
from kproxy.proxy.forwarding.link cimport Link

from kproxy.proxy.tap.counted import CloseCause
from kproxy.proxy.forwarding.pump import pump

cdef extern from "<sys/socket.h>" nogil:
    ctypedef unsigned int socklen_t
    cdef struct sockaddr:
        pass
    cdef struct sockaddr_storage:
        unsigned short ss_family
    int accept4(int, sockaddr *, socklen_t *, int)
    int c_socket "socket"(int, int, int)
    int c_connect "connect"(int, const sockaddr *, socklen_t)
    int setsockopt(int, int, int, const void *, socklen_t)
    int getsockopt(int, int, int, void *, socklen_t *)
    int getsockname(int, sockaddr *, socklen_t *)
    int getpeername(int, sockaddr *, socklen_t *)
    int SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, SO_KEEPALIVE, SO_ERROR

cdef extern from "<netinet/in.h>" nogil:
    int IPPROTO_TCP

cdef extern from "<netinet/tcp.h>" nogil:
    int TCP_NODELAY

cdef enum:
    MOST_AT_ONCE = 64  # clients accepted before others get their turn

cdef int UPSTREAM_UNREACHABLE = CloseCause.UPSTREAM_UNREACHABLE
cdef int ERROR = CloseCause.ERROR


cdef class Acceptor:
    """Accepts on one listening socket.

    Args:
        worker: what its links share.
        owner: the virtual cluster; see virtual_cluster.py for what is asked of it.
        fd: a listening, non-blocking socket; TCP_NODELAY and SO_KEEPALIVE set on it are inherited.
        node_id: of the broker whose clients come here; None: the bootstrap address.
    """

    cdef readonly Worker worker
    cdef readonly object owner
    cdef readonly int fd
    cdef readonly object node_id
    cdef bytes target  # sockaddr of the broker, when it is a number and nothing else is to be done
    cdef object _address

    def __init__(self, Worker worker not None, owner, int fd, node_id=None):
        self.worker = worker
        self.owner = owner
        self.fd = fd
        self.node_id = node_id

    def set_target(self, bytes target, address):
        """Connect clients straight to *target*, a sockaddr; *address* is its (host, port). None: ask the owner to open links."""
        self.target = target
        self._address = address

    def start(self):
        """Accept from now on."""
        self.worker.loop.add_reader(self.fd, self.readable)

    def stop(self):
        """Accept no more; what waits in the backlog is taken first, so that no client is turned away."""
        self.worker.loop.remove_reader(self.fd)
        while self.accept_some():
            pass

    def pause(self):
        """Accept nothing for now; who comes waits in the backlog."""
        self.worker.loop.remove_reader(self.fd)

    def readable(self):
        """Clients are waiting."""
        self.accept_some()

    cdef bint accept_some(self) except -1:
        """Accept up to MOST_AT_ONCE; whether more may be waiting."""
        cdef sockaddr_storage address
        cdef socklen_t size
        cdef int client
        cdef int turn
        for turn in range(MOST_AT_ONCE):
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
        cdef Link link
        cdef Worker worker = self.worker
        try:
            if worker.counters.total(CONNECTIONS_OPEN)[0] >= worker.connection_limit or worker.checks_each_client and self.owner.refuses_client(peer):
                worker.counters.total(REFUSED_CONNECTIONS)[0] += 1
                close_fd(client)
                return 0
            link = self.make_link(peer)
        except Exception as error:
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
        except Exception as error:
            self.owner.on_fault(link, error)
            link.close(ERROR)
        return 0

    cdef Link make_link(self, bytes peer):
        cdef Link link
        slot = self.owner.count_client(peer) if self.worker.checks_each_client else None
        self.worker.last_link_number += 1
        link = Link(self.worker, self.owner, self.owner.plan, self.worker.last_link_number, self.owner.limits)
        link.peer = peer
        link.node_id = self.node_id
        if self.owner.sampler is not None:
            link.sampled = self.owner.sampler()
        link.client_host_slot = slot
        return link

    cdef int connect(self, Link link) except -1:
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
        if c_connect(broker, <const sockaddr *>target, size) == 0 or errno == EISCONN:  # on loopback it is done by now
            return self.join(link)
        if errno not in (EINPROGRESS, EAGAIN, EALREADY):
            return self.fail(link, errno)
        link.connecting = True
        self.worker.loop.add_writer(broker, self.connected, link)
        return 0

    def connected(self, Link link not None):
        """The broker has answered, or something has in its place."""
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
        """Whether the kernel joined a free port of this host with itself: nobody listens there."""
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
