"""One TCP connection of a capture, from its segments, in whatever order they come, to two streams of bytes.

The order that is restored is that of the conversation: within a direction by sequence number; between directions by
acknowledgment: a segment that acknowledges bytes of the other side is delivered after them. What came in good order is
delivered at once; what did not is held, for as long as kproxy.capture.limits.Limits say.

A chunk's time is that of its packet, but never before the time of what had to come before it in its direction: bytes
that were waiting for a retransmission came, for the receiver, with the retransmission.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kproxy.capture.half cimport WINDOW, Budget, Half, Held
from kproxy.capture.links cimport ACK, FIN, RST, SYN, Segment

from ipaddress import IPv4Address, IPv6Address

from kproxy.capture.items import Closed, CloseReason, Differs, Ended, Gap, Opened
from kproxy.protocol import Direction
from kproxy.protocol.addresses import join_ip_address

FINISHED = CloseReason.FINISHED
RESET = CloseReason.RESET

cdef tuple DIRECTIONS = tuple(Direction)
cdef int WILD_BEFORE_RESTART = 4  # segments in a row, each following the other, far from where the stream was
cdef uint64_t LATE_PACKETS = 64  # of a connection that was reset; more of them are a connection of their own


cdef class Data:
    """Bytes of one direction, in stream order; *side* is the endpoint that sent them."""

    cdef readonly Flow flow
    cdef readonly int side
    cdef readonly bytes data
    cdef readonly int64_t time_ns

    @property
    def direction(self):
        """As the flow's roles are now (see Flow.swap)."""
        return DIRECTIONS[self.side ^ self.flow.client_side]

    def __repr__(self):
        return f"Data(flow={self.flow!r}, side={self.side}, time_ns={self.time_ns}, {len(self.data)} bytes)"


cdef class Flow:
    """One TCP connection of a capture.

    number: counts from 1 in the order of first packets. client_known: the SYN or SYN-ACK was captured; without it
    who is the client is a guess (kproxy.capture.roles), and a consumer that finds out better calls ``swap``.
    attached: free for the consumer, who empties it when the flow is closed (the flow itself is kept for a while, so that
    late packets are known for what they are). opened, closed: that item was made.
    """

    def __init__(self, uint64_t number, bytes key, Budget budget):
        self.number = number
        self.key = key
        self.budget = budget
        self.low = Half(budget)
        self.high = Half(budget)

    @property
    def client(self):
        """The client's "address:port"."""
        return self._endpoint(self.client_side)

    @property
    def server(self):
        """The server's "address:port"."""
        return self._endpoint(1 - self.client_side)

    def _endpoint(self, side):
        half_key = len(self.key) // 2
        end = self.key[:half_key] if side == 0 else self.key[half_key:]
        port = int.from_bytes(end[-2:], "big")
        return join_ip_address(IPv4Address(end[:4]) if len(end) == 6 else IPv6Address(end[:16]), port)

    def direction(self, side):
        """REQUEST when that side (0 or 1) is the client, else RESPONSE."""
        return DIRECTIONS[<int>side ^ self.client_side]

    def half(self, direction):
        """The counters of a direction."""
        return self.low if direction == self.client_side else self.high

    def swap(self):
        """Exchange the roles; the direction of every item of the flow, read from now on, changes too."""
        self.client_side = 1 - self.client_side

    def __repr__(self):
        return f"<Flow {self.number} {self.client} -> {self.server}>"

    # Whose packet it is

    cdef bint is_replaced_by(self, Segment* segment) noexcept:
        # Does this SYN begin another connection between the same endpoints?
        cdef Half half = self.high if segment.side else self.low
        cdef int64_t distance
        if half.syn:
            return half.isn != segment.sequence
        if half.known:  # by a SYN-ACK, or it was joined late: at its very beginning?
            return <uint32_t>(<uint64_t>half.start) != segment.sequence + 1
        if self.closed:
            return True
        if not half.seen:
            return False
        distance = half.start - half.unwrap(segment.sequence + 1)
        if half.held:
            distance = half.head().position - half.unwrap(segment.sequence + 1)
        return not 0 <= distance < WINDOW

    cdef bint is_over_for(self, Segment* segment) noexcept:
        # The flow is closed: is this segment (no SYN) more than its last echo?
        cdef Half half = self.high if segment.side else self.low
        cdef int64_t position
        if not self.closed or segment.size + segment.missing == 0 or segment.flags & RST:
            return False
        if not half.known:
            return True
        position = half.unwrap(segment.sequence)
        if position + <int64_t>segment.size + <int64_t>segment.missing <= half.next and half.next - position < WINDOW:
            return False
        return not self.reset or self.packets - self.packets_at_close > LATE_PACKETS

    # Segments in

    cdef int receive(self, Segment* segment, const uint8_t* packet, int64_t time_ns, list out) except -1:
        # packet: where the packet begins; segment.payload and segment.size lie inside it.
        cdef Half half, other
        cdef int64_t position
        cdef const uint8_t* payload = packet + segment.payload
        if segment.side:
            half, other = self.high, self.low
        else:
            half, other = self.low, self.high
        self.packets += 1
        self.last_time_ns = time_ns
        half.sends = True
        if self.closed:
            half.retransmitted += segment.size
            return 0
        if segment.flags & (SYN | FIN | RST):
            self._note_flags(half, other, segment, time_ns, out)
        position = half.unwrap(segment.sequence + (1 if segment.flags & SYN else 0))
        if segment.flags & ACK and other.ahead(segment.acknowledgment):
            other.acknowledged = max(other.acknowledged, other.unwrap(segment.acknowledgment))
        if segment.size + segment.missing > 0 and not segment.flags & RST:
            if (
                half.known
                and position == half.next
                and not half.held
                and not other.held
                and not self._waits(other, segment.flags & ACK, segment.acknowledgment)
            ):
                if not half.ended:
                    half.highest = position + segment.size + segment.missing
                    half.time_ns = time_ns
                    self._deliver(
                        half,
                        PyBytes_FromStringAndSize(<const char*>payload, segment.size),
                        segment.missing,
                        time_ns,
                        out,
                    )
            else:
                self._receive_awry(half, other, segment, payload, position, time_ns, out)
        elif half.known and position == half.next - 1 and not segment.flags & (SYN | FIN | RST) and not half.ended:
            half.keep_alives += 1
        if half.held or other.held or half.fin or other.fin or self.reset:
            self.settle(out, False)
        return 0

    cdef int _note_flags(self, Half half, Half other, Segment* segment, int64_t time_ns, list out) except -1:
        cdef int64_t position
        if segment.flags & SYN:
            half.syn = True
            half.isn = segment.sequence
            if not half.known:
                half.start_at(half.unwrap(segment.sequence + 1))
                half.from_start = True
            if segment.flags & ACK and not other.known:
                other.start_at(other.unwrap(segment.acknowledgment))
                other.from_start = True
            if not self.opened:
                self.client_known = True
                self.client_side = segment.side ^ (1 if segment.flags & ACK else 0)
                self.open(time_ns, out)
            return 0
        position = half.unwrap(segment.sequence)
        return self._note_end(half, segment, position, time_ns)

    cdef int _note_end(self, Half half, Segment* segment, int64_t position, int64_t time_ns) except -1:
        if segment.flags & RST:
            if not self.reset:
                self.reset = True
                self.reset_side = segment.side
                self.reset_position = position
                self.reset_acknowledgment = segment.acknowledgment
                self.reset_acknowledges = segment.flags & ACK
                self.reset_time_ns = time_ns
                self.reset_arrival = self.packets
        elif not half.fin and (not half.known or -WINDOW < position - half.next < WINDOW):
            half.fin = True
            half.fin_position = position + segment.size + segment.missing
            half.fin_time_ns = time_ns
            half.fin_arrival = self.packets
        return 0

    cdef bint _waits(self, Half other, bint acknowledges, uint32_t acknowledgment) noexcept:
        # Does a segment acknowledge what the other side has yet to deliver? If that side is not in the capture at all,
        # which shows after some packets, nobody waits for it.
        if not acknowledges or (other.known and not other.ahead(acknowledgment)):
            return False
        return self.packets <= self.budget.start_packets or (other.sends if other.known else other.held_size > 0)

    cdef int _receive_awry(
        self, Half half, Half other, Segment* segment, const uint8_t* payload, int64_t position, int64_t time_ns, list out
    ) except -1:
        cdef int64_t end = position + segment.size + segment.missing
        cdef Py_ssize_t skip = 0
        cdef Held held
        if self._receive_wild(half, segment, position, time_ns, out):
            return 0
        if half.known and position < half.next:
            self._receive_old(half, segment, payload, position, time_ns, out)
            if end <= half.next:
                return 0
            skip = <Py_ssize_t>(half.next - position)
        if half.ended:
            return 0
        if not half.known:
            half.disorder |= bool(half.held) and position != half.highest and not half.start <= position < end <= half.highest
        elif position > half.next:
            half.out_of_order += 1
        half.highest = max(half.highest, end)
        held = Held.__new__(Held)
        held.position = position + skip
        held.data = PyBytes_FromStringAndSize(
            <const char*>payload + min(skip, <Py_ssize_t>segment.size), max(0, <Py_ssize_t>segment.size - skip)
        )
        held.missing = <uint32_t>(end - held.position - len(held.data))
        held.time_ns = time_ns
        held.arrival = self.packets
        held.acknowledges = segment.flags & ACK
        held.acknowledgment = segment.acknowledgment
        return self._report_differing(half, half.hold(held), time_ns, out)

    cdef int _receive_old(
        self, Half half, Segment* segment, const uint8_t* payload, int64_t position, int64_t time_ns, list out
    ) except -1:
        # All or the beginning of it was delivered before.
        cdef int64_t again = min(<int64_t>segment.size, half.next - position)
        if segment.size == 1 and segment.missing == 0 and position == half.next - 1:
            half.keep_alives += 1  # RFC 9293 3.8.4: one byte of garbage, just before what comes next
            return 0
        half.retransmitted += again
        return self._report_differing(half, half.compare_recent(position, payload, <Py_ssize_t>again), time_ns, out)

    cdef bint _receive_wild(
        self, Half half, Segment* segment, int64_t position, int64_t time_ns, list out
    ) except? -1:
        # A position no window reaches: noise, or the capture paused for gigabytes. Some of them in a row are the latter.
        cdef int64_t anchor = half.next if half.known else half.start
        if -WINDOW < position - anchor < WINDOW:
            half.wild = 0
            return False
        if half.wild == 0 or position != half.wild_next:
            half.wild = 0
        half.wild += 1
        half.wild_next = position + segment.size + segment.missing
        if half.known and half.wild >= WILD_BEFORE_RESTART:
            half.wild = 0
            self.settle(out, True)
            if not self.closed:
                self.open(time_ns, out)
                out.append(Gap(self, time_ns, self._side(half), None))
                half.start_at(half.wild_next)
                half.acknowledged = half.next
        return True

    def _side(self, Half half):
        return 1 if half is self.high else 0

    # Items out

    cdef int open(self, int64_t time_ns, list out) except -1:
        if self.opened:
            return 0
        self.opened = True
        if not self.client_known:
            self.client_side = self.budget.endpoints.guess_client(self.key)
        else:
            self.budget.endpoints.accepted(self.key, self.client_side)
        out.append(Opened(self, time_ns))
        return 0

    cdef int _deliver(self, Half half, bytes data, uint32_t missing, int64_t time_ns, list out) except -1:
        cdef Data item
        if not self.opened:
            self.open(time_ns, out)
        if len(data) > 0:
            item = Data.__new__(Data)
            item.flow = self
            item.side = 1 if half is self.high else 0
            item.data = data
            item.time_ns = time_ns
            out.append(item)
            half.remember(data)
            half.next += len(data)
            half.size += len(data)
        if missing > 0:
            self._gap(half, missing, time_ns, out)
        return 0

    cdef int _gap(self, Half half, int64_t size, int64_t time_ns, list out) except -1:
        self.open(time_ns, out)
        out.append(Gap(self, time_ns, self._side(half), size))
        half.next += size
        half.missing += size
        return 0

    cdef int _report_differing(self, Half half, Py_ssize_t count, int64_t time_ns, list out) except -1:
        if count > 0:
            self.open(time_ns, out)
            out.append(Differs(self, time_ns, self._side(half), half.differs_at, count))
        return 0

    # What was held

    cdef int settle(self, list out, bint force) except -1:
        # Deliver all that can be; with force, or when the wait is over, also what cannot.
        cdef bint due
        cdef Half half
        cdef Held held
        while not self.closed:
            due = force or self._overdue()
            self._decide_start(due)
            half = self._ready_half()
            if half is not None:
                held = half.take()
                half.time_ns = max(half.time_ns, held.time_ns)
                if half.held:
                    held.missing = <uint32_t>min(
                        <int64_t>held.missing, max(0, half.head().position - held.position - len(held.data))
                    )
                self._deliver(half, held.data, held.missing, half.time_ns, out)
            elif self._end_halves(out):
                continue
            elif self._reset_due(due):
                self.lingers = self.budget.shuffled and not due and not (self.low.ended and self.high.ended)  # see Flows
                if self.lingers:
                    break
                self.close(self.reset_time_ns, RESET, out)
            elif self.low.ended and self.high.ended:
                self.close(self.last_time_ns, FINISHED, out)
            elif not due or not self._give_up_one(out):
                break
        return 0

    cdef int _decide_start(self, bint force) except -1:
        cdef Half half
        cdef bint calm
        if self.low.known and self.high.known:
            return 0
        if not force:
            calm = self.packets >= self.budget.start_packets
            for half in (self.low, self.high):
                calm = calm and not (half.held if half.known else half.disorder)
            if not calm:
                return 0
        for half in (self.low, self.high):
            if not half.known and half.held:
                half.start_at(half.head().position)
            elif not half.known and half.fin:
                half.start_at(half.fin_position)
        return 0

    cdef Half _ready_half(self):
        # The half whose first held segment has its turn; of two, the one that was captured earlier.
        cdef bint low = self._is_ready(self.low, self.high)
        cdef bint high = self._is_ready(self.high, self.low)
        if low and high:
            return self.low if self.low.head().time_ns <= self.high.head().time_ns else self.high
        if low:
            return self.low
        return self.high if high else None

    cdef bint _is_ready(self, Half half, Half other):
        cdef Held held
        if not half.known or not half.held:
            return False
        held = half.head()
        return held.position <= half.next and not self._waits(other, held.acknowledges, held.acknowledgment)

    cdef bint _end_halves(self, list out) except? -1:
        cdef Half half
        cdef bint any_ended = False
        for half in (self.low, self.high):
            if half.fin and not half.ended and half.known and half.next >= half.fin_position and not half.held:
                half.ended = True
                half.next = half.fin_position + 1
                half.time_ns = max(half.time_ns, half.fin_time_ns)
                self.open(half.time_ns, out)
                out.append(Ended(self, half.time_ns, self._side(half), False))
                any_ended = True
        return any_ended

    cdef bint _reset_due(self, bint force):
        cdef Half half = self.high if self.reset_side else self.low
        cdef Half other = self.low if self.reset_side else self.high
        if not self.reset or half.held or other.held:
            return False
        if (half.fin and half.known and not half.ended) or (other.fin and other.known and not other.ended):
            return False
        if force:
            return True
        if not half.known and not other.known and self.packets < self.budget.start_packets:
            return False
        if half.lacks_acknowledged() or other.lacks_acknowledged():
            return False
        if half.known and 0 < self.reset_position - half.next < WINDOW:
            return False
        return not (self.reset_acknowledges and other.sends and other.ahead(self.reset_acknowledgment))

    cdef bint _overdue(self):
        cdef Half half
        cdef uint64_t oldest = self.packets
        if self.low.held_size + self.high.held_size > self.budget.held_per_flow:
            return True
        for half in (self.low, self.high):
            if half.held:
                oldest = min(oldest, half.head().arrival)
            if half.fin and not half.ended:
                oldest = min(oldest, half.fin_arrival)
        if self.reset:
            oldest = min(oldest, self.reset_arrival)
        if self.packets - oldest > self.budget.patience:
            return True
        return self.budget.held > self.budget.held_in_all and self.low.held_size + self.high.held_size > 0

    cdef bint _give_up_one(self, list out) except? -1:
        # Give up waiting for whatever the earliest held segment is waiting for.
        cdef Half half
        cdef Half other
        cdef Held first = self.low.head() if self.low.known else None
        cdef Held second = self.high.head() if self.high.known else None
        cdef int64_t size
        if first is None and second is None:
            return self._give_up_before_fin(out)
        if second is None or (first is not None and first.time_ns <= second.time_ns):
            half, other = self.low, self.high
        else:
            first, half, other = second, self.high, self.low
        if first.position > half.next:
            self._gap(half, first.position - half.next, max(half.time_ns, first.time_ns), out)
            return True
        # It acknowledges what the other side never showed: that is not in the capture.
        size = <int32_t>(first.acknowledgment - <uint32_t>(<uint64_t>other.next))
        if other.held:
            size = min(size, other.head().position - other.next)
        if other.fin:
            size = min(size, other.fin_position - other.next)
        first.acknowledges = False
        if size > 0 and other.known and other.sends:
            self._gap(other, size, max(other.time_ns, first.time_ns), out)
        return True

    def _give_up_before_fin(self, list out):
        cdef Half half
        for half in (self.low, self.high):
            if half.fin and not half.ended and half.known and half.fin_position > half.next:
                self._gap(half, half.fin_position - half.next, half.fin_time_ns, out)
                return True
        return False

    cdef int close(self, int64_t time_ns, object reason, list out) except -1:
        cdef Half half
        if self.closed:
            return 0
        if reason is not FINISHED and reason is not RESET:
            self.settle(out, True)
            if self.closed:
                return 0
        self.open(time_ns, out)
        for half in (self.low, self.high):
            # one byte would be a FIN that was not captured
            if half.lacks_acknowledged() and half.acknowledged - half.next > 1:
                self._gap(half, half.acknowledged - half.next, time_ns, out)
            if reason is RESET and not half.ended:
                out.append(Ended(self, time_ns, self._side(half), True))
            half.drop_held()
            half.forget()
        self.closed = True
        self.packets_at_close = self.packets
        out.append(Closed(self, time_ns, reason))
        return 0
