# cython: language_level=3, boundscheck=False, wraparound=False
"""Links between two of uvloop's transports, for where either side is TLS: Leg, the protocol of a side, and TransportPipe.

Peculiarities of uvloop: ``pause_reading()`` inside ``connection_made`` is ignored, so a leg keeps what it receives before its link
is joined; data may arrive after ``pause_reading()``, so the pipe of a blocked lane keeps that too. TLS has no half-close here:
the end of one side's data closes the other's connection once everything in flight has been answered (uvloop #471, #564).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from kproxy.protocol.direction cimport DIRECTION_RESPONSE
from kproxy.proxy.forwarding.lane cimport BY_OUTPUT, HEADROOM, Lane, LinkBase, Pipe, monotonic_ns
from kproxy.proxy.forwarding.link cimport Link

from kproxy.proxy.tap.counted import CloseCause

cdef enum:
    LINGER_S = 30  # bytes that the peer of a closed connection has not taken by then are dropped
    JOIN_LIMIT = 1_048_576  # bytes received before the link is joined, at which the leg is paused

cdef int ERROR = CloseCause.ERROR
cdef int BROKER_CLOSED = CloseCause.BROKER_CLOSED


cdef class Leg:
    """The asyncio protocol of one side of a link; *tls*: whether it is encrypted."""

    cdef readonly object transport
    cdef readonly bint tls
    cdef readonly bint lost  # the connection is gone
    cdef TransportPipe reads  # from this side
    cdef TransportPipe writes  # to this side
    cdef list received_before_join
    cdef size_t received_size
    cdef bint ended_before_join
    cdef bint forgotten  # its link has been closed and forgotten

    def __init__(self, bint tls):
        self.tls = tls
        self.received_before_join = []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, bytes data):
        if self.reads is not None:
            self.reads.receive(data)
            return
        if self.forgotten:
            return
        self.received_before_join.append(data)
        self.received_size += len(data)
        if self.received_size > JOIN_LIMIT:
            self.transport.pause_reading()

    def eof_received(self):
        if self.reads is None:
            self.ended_before_join = True
        else:
            self.reads.end()
        return not self.tls  # True keeps the transport open for what is still to be written

    def pause_writing(self):
        if self.writes is not None:
            self.writes.stall()

    def resume_writing(self):
        if self.writes is not None:
            self.writes.resume()

    def connection_lost(self, exc):
        self.lost = True
        if self.reads is not None:
            self.reads.lose(exc)

    cdef int begin(self) except -1:
        """Pass on what was received before the link was joined."""
        cdef list received = self.received_before_join
        self.received_before_join = []
        for data in received:
            self.reads.receive(data)
        if received and not self.lost and not self.reads.lane.blocked and not self.reads.lane.link.closed:
            self.transport.resume_reading()
        if self.ended_before_join:
            self.reads.end()
        elif self.lost:
            self.reads.lose(None)
        return 0


cdef class TransportPipe(Pipe):
    """Reads one leg and writes the other."""

    cdef Leg source
    cdef Leg sink
    cdef list queued_chunks  # received while the lane was blocked
    cdef bint stalled  # the sink's write buffer is above its high-water mark
    cdef bint ended  # the source has
    cdef size_t counted  # bytes of the sink's write buffer that are counted in Total.BUFFERED_BYTES

    def __init__(self, Leg source not None, Leg sink not None):
        self.source = source
        self.sink = sink
        self.queued_chunks = []
        source.reads = self
        sink.writes = self

    cdef int receive(self, bytes data) except -1:
        """Pass a chunk to the lane, or queue it while the lane is blocked."""
        cdef Lane lane = self.lane
        cdef Link link = <Link>lane.link
        if link is None or link.closed:
            return 0
        if lane.blocked or self.queued_chunks:
            self.queued_chunks.append(data)
            link.worker.buffered[0] += PyBytes_GET_SIZE(data)
            return 0
        try:
            self.process(data)
        except Exception as error:
            self.fault(link, error)
        return 0

    cdef int fault(self, Link link, error) except -1:
        """Close the link over an exception; in the loop it would close one side alone."""
        link.owner.on_fault(link, error)
        link.close(ERROR)
        return 0

    cdef int process(self, bytes data) except -1:
        cdef Lane lane = self.lane
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef bytes copy
        if lane.header_part_size:  # the lane writes it before the chunk, where a bytes object has no room
            copy = PyBytes_FromStringAndSize(NULL, HEADROOM + size)
            at = <uint8_t *>PyBytes_AS_STRING(copy) + HEADROOM
            memcpy(at, PyBytes_AS_STRING(data), size)
        return lane.process(at, size, monotonic_ns())

    def end(self):
        """Handle the end of what the source sends, after what is queued."""
        cdef Link link = <Link>self.lane.link
        self.ended = True
        if link is None or link.closed or self.queued_chunks:
            return
        try:
            link.on_eof(self.lane)
        except Exception as error:
            self.fault(link, error)

    def lose(self, error):
        """Handle the loss of the source's connection; *error* is None after a regular end."""
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
        """Block the lane: the sink's write buffer is full."""
        cdef LinkBase link = self.lane.link
        self.stalled = True
        if link is None or link.closed:
            return
        self.count_output(self.sink.transport.get_write_buffer_size())
        try:
            self.lane.block(BY_OUTPUT)
        except Exception as error:
            self.fault(<Link>link, error)

    def resume(self):
        """Unblock the lane: the sink's write buffer has been sent."""
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

    cdef int is_flushed(self) except -1:
        return not self.stalled and not self.queued_chunks

    cdef int start_reading(self) except -1:
        cdef bytes data
        while self.queued_chunks and not self.lane.blocked and not self.lane.link.closed:
            data = self.queued_chunks.pop(0)
            self.lane.link.worker.buffered[0] -= PyBytes_GET_SIZE(data)
            self.process(data)
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
        elif self.lane.direction == DIRECTION_RESPONSE:
            self.lane.link.close(BROKER_CLOSED)
        return 0

    cdef int detach(self) except -1:
        for data in self.queued_chunks:
            self.lane.link.worker.buffered[0] -= PyBytes_GET_SIZE(data)
        self.queued_chunks = []
        self.count_output(0)
        return 0

    cdef int forget(self) except -1:
        for leg in (self.source, self.sink):
            (<Leg>leg).forgotten = True
            (<Leg>leg).reads = (<Leg>leg).writes = None
        self.lane = None
        return 0


def join_legs(Link link not None, Leg client not None, Leg broker not None):
    """Join two connected legs, whose transports the link owns from now on."""
    link.legs = client, broker
    link.join(TransportPipe(client, broker), TransportPipe(broker, client))
    if not link.closed:
        client.begin()
    if not link.closed:
        broker.begin()


def close_legs(Link link not None):
    """Close the transports of a link after what has been written to them is sent."""
    for leg in link.legs or ():
        if leg.transport is not None and not leg.lost:
            leg.transport.close()
            if not leg.tls and leg.transport.get_write_buffer_size():  # TLS has ssl_shutdown_timeout
                link.worker.loop.call_later(LINGER_S, leg.transport.abort)
