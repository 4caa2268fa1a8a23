# cython: language_level=3
"""Declarations of link.pyx."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from kproxy.proxy.forwarding.lane cimport Lane, LinkBase


cdef enum:
    LIFE_STATES = 5


cdef enum Life:  # see the table in link.pyx
    OPENING = 0
    JOINED = 1
    DRAINING = 2
    HALF_CLOSED = 3
    CLOSED = 4


cdef class Link(LinkBase):
    cdef readonly uint64_t number
    cdef readonly Lane requests  # type: Lane | None  # None before join and after forget
    cdef readonly Lane responses  # type: Lane | None
    cdef int life
    cdef uint32_t taken  # transitions of the life so far: bit from * LIFE_STATES + to
    cdef int client_fd  # of a link between plain sockets; else -1
    cdef int broker_fd
    cdef public bint connecting  # waiting for broker_fd to be connected
    cdef public tuple tls  # type: tuple[bool, bool] | None  # whether (client, broker) have TLS; None before join
    cdef public object facts  # type: ConnectionFacts | None  # ConnectionFacts, made when first needed
    cdef public bytes local  # type: bytes | None  # the address the client connected to (sockaddr), once asked for
    cdef public bytes peer  # the client's address as the kernel reported it (sockaddr)
    cdef public object target  # type: tuple[str, int] | None  # (host, port) of the broker, or None
    cdef public object node_id  # type: int | None
    cdef public object client_host_slot  # type: int | None  # index in the per-address connection counters
    cdef readonly uint64_t opened_at  # ns, monotonic
    cdef public list login_exchanges  # type: list[tuple[bytes, bytes]] | None  # of the client's login, before join; see record_login
    cdef int reset_by  # whose side was reset or failed: 1 the client's, 2 the broker's; 0: neither
    cdef public bint broker_first  # the broker closed before the client

    cdef int enter(self, int life) except -1
    cdef int record_login(self) except -1
    cdef int go_on_after(self, int why) except -1
    cdef int half_close(self, Lane lane) except -1
    cdef int on_eof(self, Lane lane) except -1
    cdef bint awaits_broker(self) noexcept
    cdef int cause_of_end(self) noexcept
    cdef int drop_in_flight(self) except -1
