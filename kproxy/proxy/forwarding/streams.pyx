# cython: language_level=3, boundscheck=False, wraparound=False
"""A lane between two of uvloop's transports: where either leg is TLS.

What uvloop does that one would not expect: ``pause_reading()`` inside ``connection_made`` is ignored, so a leg keeps what comes
before its link is joined; data may come after ``pause_reading()``, so a blocked lane keeps that too. TLS has no half-close here:
the end of one side's data closes the other's connection once everything in flight has been answered (uvloop #471, #564).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from kproxy.proxy.tap.counted import CloseCause
from kproxy.proxy.forwarding.lane cimport BY_OUTPUT, HEADROOM, Joint, Lane, Pipe, RESPONSE_SIDE, monotonic_ns
from kproxy.proxy.forwarding.link cimport Link

cdef enum:
    LINGER_S = 30  # what a peer has not taken of a closed connection by then is thrown away
    MOST_EARLY = 1_048_576  # bytes a side may send before the other is there

cdef int ERROR = CloseCause.ERROR
cdef int BROKER_CLOSED = CloseCause.BROKER_CLOSED


cdef class Leg:
    """The asyncio protocol of one side of a link."""

    cdef readonly object transport
    cdef readonly bint tls
    cdef readonly bint lost  # the connection is gone
    cdef TransportPipe reads  # from this side
    cdef TransportPipe writes  # to this side
    cdef list early
    cdef size_t early_size
    cdef bint early_end
    cdef bint over  # its link has been forgotten

    def __init__(self, bint tls):
        self.tls = tls
        self.early = []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, bytes data):
        if self.reads is not None:
            self.reads.take(data)
            return
        if self.over:
            return
        self.early.append(data)
        self.early_size += len(data)
        if self.early_size > MOST_EARLY:
            self.transport.pause_reading()

    def eof_received(self):
        if self.reads is None:
            self.early_end = True
        else:
            self.reads.end()
        return not self.tls  # True keeps the transport open for what is still to be written

    def pause_writing(self):
        if self.writes is not None:
            self.writes.stall()

    def resume_writing(self):
        if self.writes is not None:
            self.writes.go_on()

    def connection_lost(self, error):
        self.lost = True
        if self.reads is not None:
            self.reads.lose(error)

    cdef int begin(self) except -1:
        """The link is joined: what came early is its first bytes."""
        cdef list early = self.early
        self.early = []
        for data in early:
            self.reads.take(data)
        if early and not self.lost and not self.reads.lane.blocked and not self.reads.lane.link.closed:
            self.transport.resume_reading()
        if self.early_end:
            self.reads.end()
        elif self.lost:
            self.reads.lose(None)
        return 0


cdef class TransportPipe(Pipe):
    """Reads one leg and writes the other."""

    cdef Leg source
    cdef Leg sink
    cdef list waiting  # what came while the lane was blocked
    cdef bint stalled
    cdef bint ended
    cdef size_t counted  # bytes that the sink's transport keeps, as the gauge knows them

    def __init__(self, Leg source not None, Leg sink not None):
        self.source = source
        self.sink = sink
        self.waiting = []
        source.reads = self
        sink.writes = self

    cdef int take(self, bytes data) except -1:
        cdef Lane lane = self.lane
        cdef Link link = <Link>lane.link
        if link is None or link.closed:
            return 0
        if lane.blocked or self.waiting:
            self.waiting.append(data)
            link.worker.buffered[0] += PyBytes_GET_SIZE(data)
            return 0
        try:
            self.give(data)
        except Exception as error:
            self.fault(link, error)
        return 0

    cdef int fault(self, Link link, error) except -1:
        """Never into the loop: it would close one side alone."""
        link.owner.on_fault(link, error)
        link.close(ERROR)
        return 0

    cdef int give(self, bytes data) except -1:
        cdef Lane lane = self.lane
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef bytes copy
        if lane.carried:  # a lane puts what it has kept before what comes: a bytes object has no room there
            copy = PyBytes_FromStringAndSize(NULL, HEADROOM + size)
            at = <uint8_t *>PyBytes_AS_STRING(copy) + HEADROOM
            memcpy(at, PyBytes_AS_STRING(data), size)
        return lane.process(at, size, monotonic_ns())

    def end(self):
        """The source sends no more."""
        cdef Link link = <Link>self.lane.link
        self.ended = True
        if link is None or link.closed or self.waiting:
            return
        try:
            link.on_eof(self.lane)
        except Exception as error:
            self.fault(link, error)

    def lose(self, error):
        """The source is gone."""
        cdef Link link = <Link>self.lane.link
        if link is None or link.closed:
            return
        try:
            if error is None:
                self.end()
                link.sink_lost(self.lane.other, True)
            else:
                link.source_lost(self.lane)
        except Exception as fault:
            self.fault(link, fault)

    def stall(self):
        """The sink takes no more for now."""
        cdef Joint link = self.lane.link
        self.stalled = True
        if link is None or link.closed:
            return
        self.count_output(self.sink.transport.get_write_buffer_size())
        try:
            self.lane.block(BY_OUTPUT)
        except Exception as error:
            self.fault(<Link>link, error)

    def go_on(self):
        """The sink takes more."""
        cdef Link link = <Link>self.lane.link
        self.stalled = False
        if link is not None and not link.closed:
            self.count_output(0)
            link.note_progress()
            try:
                self.lane.unblock(BY_OUTPUT)
                link.settle()
            except Exception as error:
                self.fault(link, error)

    cdef int count_output(self, size_t size) except -1:
        self.lane.link.worker.buffered[0] += size - self.counted
        self.counted = size
        return 0

    cdef int emit(self, const uint8_t *data, size_t size) except -1:
        if size and not self.lane.discarding and not self.sink.lost:
            self.sink.transport.write(PyBytes_FromStringAndSize(<char *>data, size))
        return 0

    cdef bint is_flushed(self) noexcept:
        return not self.stalled and not self.waiting

    cdef int start_reading(self) except -1:
        cdef bytes data
        while self.waiting and not self.lane.blocked and not self.lane.link.closed:
            data = self.waiting.pop(0)
            self.lane.link.worker.buffered[0] -= PyBytes_GET_SIZE(data)
            self.give(data)
        if self.lane.blocked or self.lane.link.closed:
            return 0
        if self.ended:
            return (<Link>self.lane.link).on_eof(self.lane)
        if not self.source.lost and not self.source.transport.is_closing():
            self.source.transport.resume_reading()
        return 0

    cdef int stop_reading(self) except -1:
        if not self.source.lost and not self.source.transport.is_closing():
            self.source.transport.pause_reading()
        return 0

    cdef int end_output(self) except -1:
        if self.sink.lost:
            return 0
        if self.sink.transport.can_write_eof():
            self.sink.transport.write_eof()
        elif self.lane.side == RESPONSE_SIDE:
            self.lane.link.close(BROKER_CLOSED)
        return 0

    cdef int detach(self) except -1:
        for data in self.waiting:
            self.lane.link.worker.buffered[0] -= PyBytes_GET_SIZE(data)
        self.waiting = []
        self.count_output(0)
        return 0

    cdef void forget(self) noexcept:
        for leg in (self.source, self.sink):
            (<Leg>leg).over = True
            (<Leg>leg).reads = (<Leg>leg).writes = None
        self.lane = None


def join_legs(Link link not None, Leg client not None, Leg broker not None):
    """Join two connected legs; their transports are the link's from now on."""
    link.legs = client, broker
    link.join(TransportPipe(client, broker), TransportPipe(broker, client))
    if not link.closed:
        client.begin()
    if not link.closed:
        broker.begin()


def close_legs(Link link not None):
    """Close the transports of a link; what is written already still goes out."""
    for leg in link.legs or ():
        if leg.transport is not None and not leg.lost:
            leg.transport.close()
            if not leg.tls and leg.transport.get_write_buffer_size():  # TLS has ssl_shutdown_timeout
                link.worker.loop.call_later(LINGER_S, leg.transport.abort)
