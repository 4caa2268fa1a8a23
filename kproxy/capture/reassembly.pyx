"""Reassemble the TCP connections of a capture: segments in any order in, both byte streams of each connection out.

Flows finds the Flow (connection) of a packet; a Flow has a Half for each direction. It restores the order of the conversation:
within a direction by sequence number; between directions by acknowledgment, as a segment that acknowledges bytes of the other
side is delivered after them.

The machine

A *position* is a sequence number extended to 64 bits, so that it does not wrap; its low 32 bits are the sequence number.

    state of a Half   what is true in it
    UNSEEN            no sequence number of this direction is known
    JOINED            packets came without the beginning; where the stream starts is undecided, and every segment is held
    STARTED           bytes from start to next were delivered, or reported as a Gap; held segments are for positions from next on
    ENDED             everything up to the FIN was delivered; further data of this direction is dropped

    from              event                                                                        to
    UNSEEN            a segment without SYN                                                        JOINED
    UNSEEN, JOINED    its SYN, or the other side's SYN-ACK: the stream starts behind it            STARTED
    JOINED            start_packets packets came in order, or the wait is over: the stream starts
                      with the first held segment, or at the FIN                                   STARTED
    STARTED           four segments in a row follow each other more than WINDOW away: a Gap of
                      unknown size, and the stream starts again behind them                        STARTED
    STARTED           FIN, and next has reached it: Ended                                          ENDED

    state of a Flow   what is true in it
    ACTIVE            its packets are read
    LINGERING         a reset is due (all data known to precede it was delivered), but the capture is shuffled, so data sent
                      before it may still come
    CLOSED            Closed was delivered, nothing is held. The flow stays in the table, where late packets count as
                      retransmitted, until the same endpoints begin another connection or the flow is evicted

    ACTIVE, LINGERING both halves ENDED (FINISHED); a reset is due (RESET); a new connection between the
                      same endpoints (REUSED); too many flows (EVICTED); CAPTURE_END               CLOSED
    ACTIVE            a reset is due in a shuffled capture                                         LINGERING

Opened is the first item of a flow, Closed the last; a half delivers at most one Ended. There are no other transitions, and
tests/capture/test_reassembly.py walks all of these.

A segment is delivered immediately if its half is STARTED, it begins at next, neither half holds segments, and it acknowledges
nothing undelivered of the other half. Otherwise it is held. Held segments are delivered when their turn comes, or when the wait
is over: more than held_per_flow bytes are held in the flow, or held_in_all in all flows, or patience packets of the flow came
since the oldest held one (kproxy.capture.items), or the flow is closed. Missing bytes then become a Gap.

Who owns which bytes: the reader owns a packet's bytes and lends them for one call of Flows.receive. The payload is copied once,
into Data.data or Held.data; Data takes over the bytes of Held. The last RECENT chunks of a half are referenced, not copied, for
comparison with retransmissions, up to recent_in_all. If bytes are captured twice, the first ones count; differing ones make a
Differs.

The time of Data is that of its packet, even if its bytes waited for others, so it may be before the time of the previous item.
For bytes captured more than once it is the time of the packet whose bytes count. The time of Ended is never before that of any
data of its direction.

``closed_by`` is the side that sent the first FIN or RST by the packets' times, whichever Ended is delivered first.
"""

from collections.abc import Callable, Iterable
from typing import Any, TYPE_CHECKING  # no-cython-lint

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from kproxy.capture.links cimport ACK, FIN, OUTCOMES, RST, SEGMENT, SYN, Outcome, Segment, dissect
from kproxy.capture.scanners cimport PacketBatch, PacketRef
from kproxy.capture.segments cimport Payloads, SegmentHeader

from collections import deque
from ipaddress import ip_address
from operator import attrgetter

from kproxy.capture.items import Closed, CloseReason, Differs, Doubts, Ended, FlowItem, Gap, Opened
from kproxy.capture.items import Limits
from kproxy.capture.links import OUTCOME_NAMES
from kproxy.capture.roles import Endpoints
from kproxy.capture.scanners import MAX_PACKET_SIZE
from kproxy.protocol import Direction
from kproxy.protocol.addresses import join_ip_address

if TYPE_CHECKING:
    from kproxy.capture.items import Packet

FINISHED = CloseReason.FINISHED
RESET = CloseReason.RESET

cdef enum:
    RECENT = 8
    WINDOW = 1 << 28  # a sequence number further away than this does not belong to the stream

cdef int64_t FIRST_LAP = 1 << 40  # added to the first sequence number, so that bytes before it have positions, too
cdef Py_ssize_t HELD_OVERHEAD = 160  # bytes that a held segment takes in addition to its data
cdef int FAR_BEFORE_RESTART = 4  # consecutive segments far from the stream that restart it there
cdef int MIXED_AFTER = 4  # times that a second stream of bytes shows in a flow
cdef Py_ssize_t MIXED_BYTES = 8  # that differ, at least; a segment that was damaged on its way, and sent again, differs in fewer
cdef uint64_t LATE_PACKETS = 64  # packets after a reset that count as late; more of them are a new connection
cdef int MAX_UNWRAPPED = 4  # layers of encapsulation
cdef uint64_t LINGER_PACKETS = 4096  # packets of the capture that a reset flow waits for data
cdef int64_t SYN_AGAIN_NS = 200_000_000  # TCP repeats a SYN after a second; what comes sooner is a copy of the same packet
cdef Py_ssize_t MAX_PAYLOAD = MAX_PACKET_SIZE
cdef int64_t EARLY_NS = 200_000_000  # more than TCP needs to repeat bytes whose first copy was not captured
cdef int64_t DISORDER_NS = 100_000  # the queues of a network card usually differ by less


cdef enum HalfState:
    UNSEEN
    JOINED
    STARTED
    ENDED

cdef enum FlowState:
    ACTIVE
    LINGERING
    CLOSED

cdef tuple DIRECTIONS = tuple(Direction)
cdef tuple HALF_STATES = ("unseen", "joined", "started", "ended")
cdef tuple FLOW_STATES = ("active", "lingering", "closed")


@cython.final
cdef class Budget:
    """What all flows share: the limits, the bytes counted against them, and knowledge about endpoints."""

    cdef readonly object limits  # type: Limits
    cdef readonly Py_ssize_t held
    cdef readonly Py_ssize_t recent
    cdef readonly object endpoints  # type: Endpoints
    cdef Py_ssize_t held_per_flow
    cdef Py_ssize_t held_in_all
    cdef Py_ssize_t recent_per_chunk
    cdef Py_ssize_t recent_in_all
    cdef uint64_t patience
    cdef uint64_t start_packets
    cdef uint64_t segments_again
    cdef uint64_t mixed  # this and the next three: see Doubts
    cdef uint64_t early  # by EARLY_NS or more
    cdef uint64_t never
    cdef int64_t earliest_ns
    cdef bint shuffled  # whether times went back, so packets are not in the order in which they were sent

    def __init__(self, limits: Limits | None = None, endpoints: Endpoints | None = None):
        limits = limits or Limits()
        self.limits = limits
        self.endpoints = Endpoints() if endpoints is None else endpoints
        self.held_per_flow = limits.held_per_flow
        self.held_in_all = limits.held_in_all
        self.recent_per_chunk = limits.recent_per_chunk
        self.recent_in_all = limits.recent_in_all
        self.patience = limits.patience
        self.start_packets = limits.start_packets


@cython.final
cdef class Held:
    """A segment waiting for its turn."""

    cdef int64_t position
    cdef int64_t time_ns
    cdef bytes data
    cdef uint32_t missing  # bytes that the capture cut off behind the data
    cdef uint32_t acknowledgment
    cdef bint acknowledges  # whether to wait for what it acknowledges
    cdef uint64_t arrival  # number of its packet in the flow


@cython.final
cdef class Half:
    """One direction of a flow. Only Flow changes it; its counters are public.

    from_start: its beginning was captured (the SYN, or the SYN-ACK that answers it). size: bytes delivered. missing: bytes in
    gaps. retransmitted: bytes captured again. out_of_order: segments ahead of their turn. differing: retransmitted bytes that
    differ. keep_alives: keep-alive probes. went_on: a packet without SYN or RST was captured.
    """

    cdef Budget budget
    cdef HalfState state
    cdef bint sends  # a packet of this side was captured
    cdef readonly bint went_on
    cdef bint syn
    cdef bint fin
    cdef bint disorder  # JOINED: segments came out of order
    cdef uint32_t isn  # initial sequence number
    cdef int64_t start
    cdef int64_t next  # position of the next byte to deliver
    cdef int64_t highest  # end of the captured bytes
    cdef int64_t acknowledged
    cdef int64_t ahead_position  # the latest acknowledgement of bytes that had not been captured, until they are; else 0
    cdef int64_t ahead_ns  # when
    cdef int64_t fin_position
    cdef int64_t fin_time_ns
    cdef uint64_t fin_arrival
    cdef int64_t time_ns  # latest time of the delivered bytes
    cdef list held
    cdef Py_ssize_t held_size
    cdef list recent
    cdef int64_t[RECENT] recent_position
    cdef int recent_index
    cdef int far  # consecutive segments more than WINDOW away
    cdef int64_t far_next  # position at which the next one of them would begin
    cdef int64_t far_highest  # the value of highest when the last one of them came
    cdef int64_t differs_at  # position in the stream of the last difference found
    cdef readonly bint from_start
    cdef readonly uint64_t size
    cdef readonly uint64_t missing
    cdef readonly uint64_t retransmitted
    cdef readonly uint64_t out_of_order
    cdef readonly uint64_t differing
    cdef readonly uint64_t keep_alives

    def __init__(self, Budget budget):
        self.budget = budget

    @property
    def state_name(self) -> str:
        """The name of its state: unseen, joined, started or ended."""
        return HALF_STATES[<int>self.state]

    cdef int64_t position_of(self, uint32_t sequence) noexcept:
        # Returns the position nearest to the stream; the first sequence number becomes the origin.
        cdef int64_t anchor = self.next if self.state >= STARTED else self.start
        if self.state == UNSEEN:
            self.state = JOINED
            self.start = self.highest = FIRST_LAP + <int64_t>sequence
            return self.start
        return anchor + <int32_t>(sequence - <uint32_t>(<uint64_t>anchor))

    cdef void start_at(self, int64_t position) noexcept:
        if self.state < STARTED:
            self.state = STARTED
        self.start = self.next = position
        if self.highest < position:
            self.highest = position

    cdef bint ahead(self, uint32_t acknowledgment) noexcept:
        # Returns whether the number acknowledges undelivered bytes of this half.
        cdef int32_t distance = <int32_t>(acknowledgment - <uint32_t>(<uint64_t>self.next))
        return self.state >= STARTED and 0 < distance < WINDOW

    cdef bint lacks_acknowledged(self) noexcept:
        # Returns whether the other side has acknowledged bytes that are not in the capture so far.
        return self.state >= STARTED and self.sends and self.state != ENDED and self.acknowledged > self.next

    cdef Held first(self):
        return <Held>self.held[0] if self.held else None

    cdef Held pop_first(self):
        cdef Held first = <Held>self.held.pop(0)
        cdef Py_ssize_t size = len(first.data) + HELD_OVERHEAD
        self.held_size -= size
        self.budget.held -= size
        return first

    cdef Py_ssize_t hold(self, Held fresh) except -1:
        # Inserts the segment by position; held bytes win where segments overlap. Returns how many overlapping bytes differ
        # (the first of them at differs_at).
        cdef int64_t at = fresh.position
        cdef int64_t end = fresh.position + len(fresh.data)
        cdef int64_t overlap
        cdef Py_ssize_t index
        cdef Py_ssize_t differing = 0
        cdef Held other
        if self.held is None:
            self.held = []
        index = self._first_ending_after(at)
        if at == end:
            self._insert(index, fresh, at, end)
        while at < end:
            if index == len(self.held):
                self._insert(index, fresh, at, end)
                break
            other = <Held>self.held[index]
            if other.position > at:
                self._insert(index, fresh, at, min(end, other.position))
                at = min(end, other.position)
                index += 1
                continue
            overlap = min(end, other.position + len(other.data)) - at
            if overlap <= 0:
                index += 1
                continue
            self.retransmitted += overlap
            if fresh.time_ns < other.time_ns and at == other.position and overlap == len(other.data):
                other.time_ns = fresh.time_ns  # the same bytes, captured earlier
            differing += self._count_differing(
                <const uint8_t*><const char*>other.data + (at - other.position),
                <const uint8_t*><const char*>fresh.data + (at - fresh.position),
                <Py_ssize_t>overlap,
                at,
            )
            at += overlap
            index += 1
        return differing

    cdef Py_ssize_t _first_ending_after(self, int64_t position):
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = len(self.held)
        cdef Py_ssize_t middle
        cdef Held other
        while low < high:
            middle = (low + high) // 2
            other = <Held>self.held[middle]
            if other.position + len(other.data) > position:
                high = middle
            else:
                low = middle + 1
        return low

    cdef int _insert(self, Py_ssize_t index, Held fresh, int64_t start, int64_t end) except -1:
        cdef Held piece = Held.__new__(Held)
        cdef bint last = end == fresh.position + len(fresh.data)
        cdef Py_ssize_t size
        piece.position, piece.time_ns, piece.arrival = start, fresh.time_ns, fresh.arrival
        piece.acknowledgment, piece.acknowledges = fresh.acknowledgment, fresh.acknowledges
        piece.missing = fresh.missing if last else 0
        piece.data = fresh.data
        if not last or start != fresh.position:
            piece.data = fresh.data[start - fresh.position : end - fresh.position]
        self.held.insert(index, piece)
        size = len(piece.data) + HELD_OVERHEAD
        self.held_size += size
        self.budget.held += size
        return 0

    cdef int drop_held(self) except -1:
        self.budget.held -= self.held_size
        self.held_size = 0
        self.held = None
        return 0

    cdef int keep_recent(self, bytes data) except -1:
        # Keeps a reference to the chunk, not a copy; called before next moves behind it.
        cdef Py_ssize_t size = len(data)
        cdef object old
        if self.recent is None:
            if self.budget.recent + size > self.budget.recent_in_all:
                return 0
            self.recent = [None] * RECENT
        old = self.recent[self.recent_index]
        if old is not None:
            self.budget.recent -= len(<bytes>old)
        if size > self.budget.recent_per_chunk or self.budget.recent + size > self.budget.recent_in_all:
            self.recent[self.recent_index] = None
        else:
            self.budget.recent += size
            self.recent[self.recent_index] = data
            self.recent_position[self.recent_index] = self.next
        self.recent_index = (self.recent_index + 1) % RECENT
        return 0

    cdef int drop_recent(self) except -1:
        if self.recent is not None:
            for data in self.recent:
                if data is not None:
                    self.budget.recent -= len(<bytes>data)
            self.recent = None
        return 0

    cdef Py_ssize_t compare_recent(self, int64_t position, const uint8_t* data, Py_ssize_t size) except -1:
        # Returns how many bytes of a retransmission differ from the recent chunks.
        cdef Py_ssize_t differing = 0
        cdef int64_t start
        cdef int64_t end
        cdef bytes ours
        cdef int i
        if self.recent is None:
            return 0
        for i in range(RECENT):
            if self.recent[i] is None:
                continue
            ours = <bytes>self.recent[i]
            start = max(position, self.recent_position[i])
            end = min(position + size, self.recent_position[i] + len(ours))
            if start < end:
                differing += self._count_differing(
                    <const uint8_t*><const char*>ours + (start - self.recent_position[i]),
                    data + (start - position),
                    <Py_ssize_t>(end - start),
                    start,
                )
        return differing

    cdef Py_ssize_t _count_differing(
        self, const uint8_t* ours, const uint8_t* theirs, Py_ssize_t size, int64_t position
    ) noexcept:
        cdef Py_ssize_t i
        cdef Py_ssize_t count = 0
        if memcmp(ours, theirs, size) == 0:
            return 0
        for i in range(size):
            if ours[i] != theirs[i]:
                if count == 0:
                    self.differs_at = position + i - self.start
                count += 1
        self.differing += count
        return count


cdef class Flow


@cython.final
cdef class Data:
    """The next bytes of one direction; *side* is the sending endpoint."""

    cdef readonly Flow flow
    cdef readonly int side
    cdef readonly bytes data
    cdef readonly int64_t time_ns

    @property
    def direction(self) -> Direction:
        """The direction, by the flow's current roles (see Flow.swap)."""
        return DIRECTIONS[self.side ^ self.flow.client_side]

    def __repr__(self):
        return f"Data(flow={self.flow!r}, side={self.side}, time_ns={self.time_ns}, {len(self.data)} bytes)"


@cython.final
cdef class Uncopied:
    """Stands for *count* consecutive Data items of flows that are not wanted."""

    cdef readonly uint64_t count


@cython.final
cdef class Flow:
    """One TCP connection of a capture.

    number: counts from 1 in the order of first packets. client_known: the SYN or SYN-ACK was captured; otherwise the client is a
    guess (kproxy.capture.roles), which a consumer can correct with ``swap``. syns: the client's SYNs, its retries included;
    syn_at, last_syn_at, syn_ack_at: when the first and the last of them and the first SYN-ACK were captured, in ns; 0: not
    captured. attached: free for the consumer, which sets it to None when the flow is closed (the flow stays in the table for a
    while, for late packets). wanted: set it to False to get Uncopied instead of the flow's Data. opened: Opened was delivered.
    """

    cdef readonly uint64_t number
    cdef readonly bint client_known
    cdef readonly bint opened
    cdef readonly int64_t syns
    cdef readonly int64_t syn_at
    cdef readonly int64_t syn_ack_at
    cdef readonly int64_t last_syn_at
    cdef FlowState state
    cdef readonly uint64_t packets
    cdef public object attached  # type: Any
    cdef public bint wanted
    cdef Half low
    cdef Half high
    cdef bytes key
    cdef int client_side
    cdef Budget budget
    cdef Flow older
    cdef Flow newer
    cdef int64_t last_time_ns
    cdef bint reset
    cdef int reset_side
    cdef int64_t reset_position
    cdef uint32_t reset_acknowledgment
    cdef bint reset_acknowledges
    cdef int64_t reset_time_ns
    cdef uint64_t reset_arrival
    cdef uint64_t packets_at_close
    cdef bint ends  # a FIN or an RST was captured; the first one is described here:
    cdef int first_to_end
    cdef bint ended_by_reset
    cdef int64_t first_end_ns
    cdef bint in_lingering  # of Flows
    cdef int second_stream  # times that bytes of a second connection between the same endpoints were seen

    def __init__(self, uint64_t number, bytes key, Budget budget):
        self.number = number
        self.key = key
        self.budget = budget
        self.wanted = True
        self.low = Half(budget)
        self.high = Half(budget)

    @property
    def client(self) -> str:
        """The client's "address:port"."""
        return self._endpoint(self.client_side)

    @property
    def server(self) -> str:
        """The server's "address:port"."""
        return self._endpoint(1 - self.client_side)

    @property
    def closed_by(self) -> tuple[int, bool] | None:
        """(side, whether by RST) for the side that sent the first FIN or RST; None if neither was captured so far."""
        return (self.first_to_end, bool(self.ended_by_reset)) if self.ends else None

    @property
    def closed_at(self) -> int | None:
        """When that was captured, in ns."""
        return self.first_end_ns if self.ends else None

    @property
    def state_name(self) -> str:
        """The name of its state: active, lingering or closed."""
        return FLOW_STATES[<int>self.state]

    @property
    def closed(self) -> bool:
        """Whether Closed was delivered."""
        return self.state == CLOSED

    def _endpoint(self, side):
        half_key = len(self.key) // 2
        end = self.key[:half_key] if side == 0 else self.key[half_key:]
        if half_key == 6:
            return f"{end[0]}.{end[1]}.{end[2]}.{end[3]}:{end[4] << 8 | end[5]}"
        return join_ip_address(ip_address(end[:-2]), int.from_bytes(end[-2:], "big"))

    def direction(self, side: int) -> Direction:
        """Return REQUEST if that side (0 or 1) is the client, else RESPONSE."""
        return DIRECTIONS[<int>side ^ self.client_side]

    def half(self, direction: int) -> Half:
        """Return the Half of a direction, with its counters."""
        return self.low if direction == self.client_side else self.high

    def swap(self) -> None:
        """Exchange the roles of client and server; this also changes the direction of all items of the flow."""
        self.client_side = 1 - self.client_side

    def __repr__(self):
        return f"<Flow {self.number} {self.client} -> {self.server}>"

    # Whether a packet belongs to this connection

    cdef bint is_replaced_by(self, Segment* segment) noexcept:
        # Returns whether this SYN begins another connection between the same endpoints.
        cdef Half half = self.high if segment.side else self.low
        cdef int64_t distance
        if half.syn:
            return half.isn != segment.sequence
        if half.state >= STARTED:  # by a SYN-ACK, or it was joined late: at its very beginning?
            return <uint32_t>(<uint64_t>half.start) != segment.sequence + 1
        if self.state == CLOSED:
            return True
        if half.state == UNSEEN:
            return False
        distance = half.start - half.position_of(segment.sequence + 1)
        if half.held:
            distance = half.first().position - half.position_of(segment.sequence + 1)
        return not 0 <= distance < WINDOW

    cdef bint is_over_for(self, Segment* segment) noexcept:
        # For a closed flow: returns whether this segment (without SYN) is more than a late packet of it.
        cdef Half half = self.high if segment.side else self.low
        cdef int64_t position
        if self.state != CLOSED or segment.size + segment.missing == 0 or segment.flags & RST:
            return False
        if half.state < STARTED:
            return True
        position = half.position_of(segment.sequence)
        if position + <int64_t>segment.size + <int64_t>segment.missing <= half.next and half.next - position < WINDOW:
            return False
        return not self.reset or self.packets - self.packets_at_close > LATE_PACKETS

    # Segments in

    cdef int receive(self, Segment* segment, const uint8_t* packet, int64_t time_ns, list out) except -1:
        # packet: where the packet begins; segment.payload and segment.size lie inside it.
        cdef Half half, other
        cdef int64_t position
        cdef uint64_t again
        cdef const uint8_t* payload = packet + segment.payload
        if segment.side:
            half, other = self.high, self.low
        else:
            half, other = self.low, self.high
        self.packets += 1
        self.last_time_ns = time_ns
        half.sends = True
        if self.state == CLOSED:
            half.retransmitted += segment.size
            return 0
        if segment.flags & (SYN | FIN | RST):
            self._note_flags(half, other, segment, time_ns, out)
        half.went_on |= not segment.flags & (SYN | RST)
        position = half.position_of(segment.sequence + (1 if segment.flags & SYN else 0))
        if segment.flags & ACK and other.ahead(segment.acknowledgment):
            self._note_acknowledged(other, other.position_of(segment.acknowledgment), time_ns)
        if segment.size + segment.missing > 0 and not segment.flags & RST:
            if half.ahead_position and position + segment.size + segment.missing >= half.ahead_position:
                self._note_end_of_ahead(half, position, time_ns)
            if (
                half.state >= STARTED
                and position == half.next
                and not half.held
                and not other.held
                and not self._waits(other, segment.flags & ACK, segment.acknowledgment)
            ):
                if half.state == STARTED:
                    self._receive_in_turn(half, segment, payload, position, time_ns, out)
            else:
                again = half.retransmitted
                self._receive_out_of_turn(half, segment, payload, position, time_ns, out)
                self.budget.segments_again += self.wanted and half.retransmitted > again
        elif half.state == STARTED and position == half.next - 1 and not segment.flags & (SYN | FIN | RST):
            half.keep_alives += 1
        if half.held or other.held or half.fin or other.fin or self.reset:
            self.advance(out, False)
        return 0

    cdef void _note_acknowledged(self, Half half, int64_t position, int64_t time_ns) noexcept:
        if position > half.acknowledged:
            half.acknowledged = position
            if not half.ahead_position and position > half.highest:
                half.ahead_position, half.ahead_ns = position, time_ns

    cdef void _note_end_of_ahead(self, Half half, int64_t position, int64_t time_ns) noexcept:
        # A segment reaches what was acknowledged, or begins behind it.
        if position >= half.ahead_position:
            self.budget.never += 1
        elif half.highest <= position and time_ns - half.ahead_ns >= EARLY_NS:
            self.budget.early += 1
            self.budget.earliest_ns = max(self.budget.earliest_ns, time_ns - half.ahead_ns)
        half.ahead_position = 0

    cdef int _receive_in_turn(
        self, Half half, Segment* segment, const uint8_t* payload, int64_t position, int64_t time_ns, list out
    ) except -1:
        half.highest = position + segment.size + segment.missing
        if not self.wanted:
            return self._pass_over(half, segment, time_ns, out)
        data = PyBytes_FromStringAndSize(<const char*>payload, segment.size)
        return self._deliver(half, data, segment.missing, time_ns, out)

    cdef int _note_flags(self, Half half, Half other, Segment* segment, int64_t time_ns, list out) except -1:
        cdef int64_t position
        if segment.flags & SYN:
            half.syn = True
            half.isn = segment.sequence
            self._note_syn(segment.flags & ACK, time_ns)
            if half.state < STARTED:
                half.start_at(half.position_of(segment.sequence + 1))
                half.from_start = True
            if segment.flags & ACK and other.state < STARTED:
                other.start_at(other.position_of(segment.acknowledgment))
                other.from_start = True
            if not self.opened:
                self.client_known = True
                self.client_side = segment.side ^ (1 if segment.flags & ACK else 0)
                self.open(time_ns, out)
            return 0
        position = half.position_of(segment.sequence)
        return self._note_end(half, segment, position, time_ns)

    cdef void _note_syn(self, bint answers, int64_t time_ns) noexcept:
        if answers:
            self.syn_ack_at = min(self.syn_ack_at or time_ns, time_ns)
            return
        self.syn_at = min(self.syn_at or time_ns, time_ns)
        if self.syn_ack_at:
            return  # of a host whose clock is ahead: clients send none after the answer
        if self.syns == 0 or time_ns - self.last_syn_at >= SYN_AGAIN_NS:
            self.syns += 1
            self.last_syn_at = time_ns

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
                self._note_first_end(segment.side, True, time_ns)
        elif not half.fin and (half.state < STARTED or -WINDOW < position - half.next < WINDOW):
            half.fin = True
            half.fin_position = position + segment.size + segment.missing
            half.fin_time_ns = time_ns
            half.fin_arrival = self.packets
            self._note_first_end(segment.side, False, time_ns)
        return 0

    cdef void _note_first_end(self, int side, bint by_reset, int64_t time_ns) noexcept:
        if not self.ends or time_ns < self.first_end_ns:
            self.ends = True
            self.first_to_end = side
            self.ended_by_reset = by_reset
            self.first_end_ns = time_ns

    cdef bint _waits(self, Half other, bint acknowledges, uint32_t acknowledgment) noexcept:
        # Returns whether a segment must wait because it acknowledges undelivered bytes of the other half. If the other side is
        # not in the capture after start_packets packets, nothing waits for it.
        if not acknowledges or (other.state >= STARTED and not other.ahead(acknowledgment)):
            return False
        return self.packets <= self.budget.start_packets or (other.sends if other.state >= STARTED else other.held_size > 0)

    cdef int _receive_out_of_turn(
        self, Half half, Segment* segment, const uint8_t* payload, int64_t position, int64_t time_ns, list out
    ) except -1:
        cdef int64_t end = position + segment.size + segment.missing
        cdef Py_ssize_t skip = 0
        cdef Held held
        if self._skip_far_away(half, segment, position, time_ns, out):
            return 0
        if half.state >= STARTED and position < half.next:
            self._receive_old(half, segment, payload, position, time_ns, out)
            if end <= half.next:
                return 0
            skip = <Py_ssize_t>(half.next - position)
        if half.state == ENDED:
            return 0
        if half.state < STARTED:
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
        # The segment, or its beginning, was delivered before.
        cdef int64_t again = min(<int64_t>segment.size, half.next - position)
        if segment.size == 1 and segment.missing == 0 and position == half.next - 1:
            half.keep_alives += 1  # RFC 9293 3.8.4: one garbage byte just before the next one
            return 0
        half.retransmitted += again
        return self._report_differing(half, half.compare_recent(position, payload, <Py_ssize_t>again), time_ns, out)

    cdef bint _skip_far_away(
        self, Half half, Segment* segment, int64_t position, int64_t time_ns, list out
    ) except? -1:
        # Returns whether to skip the segment because it is further away than any TCP window. It is noise, unless the capture
        # paused for gigabytes: then several such segments follow one another, and the stream starts again there.
        cdef int64_t anchor = half.next if half.state >= STARTED else half.start
        if -WINDOW < position - anchor < WINDOW:
            half.far = 0
            return False
        if position != half.far_next:
            half.far = 0
        elif half.highest != half.far_highest:
            half.far = 0
            self._note_second_stream()  # both streams went on since the last segment of this one
        half.far += 1
        half.far_highest = half.highest
        half.far_next = position + segment.size + segment.missing
        if half.state >= STARTED and half.far >= FAR_BEFORE_RESTART:
            half.far = 0
            self.advance(out, True)
            if self.state != CLOSED:
                self.open(time_ns, out)
                out.append(Gap(self, time_ns, self._side(half), None))
                half.start_at(half.far_next)
                half.acknowledged = half.next
        return True

    cdef void _note_second_stream(self) noexcept:
        self.second_stream += 1
        self.budget.mixed += self.second_stream == MIXED_AFTER

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
            half.time_ns = max(half.time_ns, time_ns)
            out.append(item)
            half.keep_recent(data)
            half.next += len(data)
            half.size += len(data)
        if missing > 0:
            self._gap(half, missing, time_ns, out, True)
        return 0

    cdef int _pass_over(self, Half half, Segment* segment, int64_t time_ns, list out) except -1:
        # As _deliver, for a flow that is not wanted: only counts the item.
        cdef Uncopied item
        if segment.size > 0:
            if out and type(out[-1]) is Uncopied:
                item = out[-1]
            else:
                item = Uncopied.__new__(Uncopied)
                out.append(item)
            item.count += 1
            half.next += segment.size
            half.size += segment.size
        if segment.missing > 0:
            self._gap(half, segment.missing, time_ns, out, True)
        return 0

    cdef int _gap(self, Half half, int64_t size, int64_t time_ns, list out, bint cut=False) except -1:
        self.open(time_ns, out)
        out.append(Gap(self, time_ns, self._side(half), size, cut))
        half.next += size
        half.missing += size
        return 0

    cdef int _report_differing(self, Half half, Py_ssize_t count, int64_t time_ns, list out) except -1:
        if count > 0:
            if count >= MIXED_BYTES:
                self._note_second_stream()
            self.open(time_ns, out)
            out.append(Differs(self, time_ns, self._side(half), half.differs_at, count))
        return 0

    # Held segments

    cdef int advance(self, list out, bint force) except -1:
        # Delivers the held segments whose turn has come. If forced or the wait is over, reports gaps and delivers the rest.
        cdef bint due
        cdef Half half
        cdef Held held
        while self.state != CLOSED:
            due = force or self._overdue()
            self._decide_start(due)
            half = self._ready_half()
            if half is not None:
                held = half.pop_first()
                if half.held:
                    held.missing = <uint32_t>min(
                        <int64_t>held.missing, max(0, half.first().position - held.position - len(held.data))
                    )
                self._deliver(half, held.data, held.missing, held.time_ns, out)
            elif self._end_halves(out):
                continue
            elif self._reset_due(due):
                if self.budget.shuffled and not due and not (self.low.state == ENDED and self.high.state == ENDED):
                    self.state = LINGERING
                    break
                self.close(self.reset_time_ns, RESET, out)
            elif self.low.state == ENDED and self.high.state == ENDED:
                self.close(self.last_time_ns, FINISHED, out)
            elif not due or not self._stop_one_wait(out):
                break
        return 0

    cdef int _decide_start(self, bint force) except -1:
        cdef Half half
        cdef bint calm
        if self.low.state >= STARTED and self.high.state >= STARTED:
            return 0
        if not force:
            calm = self.packets >= self.budget.start_packets
            for half in (self.low, self.high):
                calm = calm and not (half.held if half.state >= STARTED else half.disorder)
            if not calm:
                return 0
        for half in (self.low, self.high):
            if half.state < STARTED and half.held:
                half.start_at(half.first().position)
            elif half.state < STARTED and half.fin:
                half.start_at(half.fin_position)
        return 0

    cdef Half _ready_half(self):
        # Returns the half whose first held segment has its turn; of two, the one with the segment captured earlier.
        cdef bint low = self._is_ready(self.low, self.high)
        cdef bint high = self._is_ready(self.high, self.low)
        if low and high:
            return self.low if self.low.first().time_ns <= self.high.first().time_ns else self.high
        if low:
            return self.low
        return self.high if high else None

    cdef bint _is_ready(self, Half half, Half other):
        cdef Held held
        if half.state < STARTED or not half.held:
            return False
        held = half.first()
        return held.position <= half.next and not self._waits(other, held.acknowledges, held.acknowledgment)

    cdef bint _end_halves(self, list out) except? -1:
        cdef Half half
        cdef bint any_ended = False
        for half in (self.low, self.high):
            if half.fin and half.state != ENDED and half.state >= STARTED and half.next >= half.fin_position and not half.held:
                half.state = ENDED
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
        if (half.fin and half.state >= STARTED and half.state != ENDED) or (other.fin and other.state >= STARTED and other.state != ENDED):
            return False
        if force:
            return True
        if half.state < STARTED and other.state < STARTED and self.packets < self.budget.start_packets:
            return False
        if half.lacks_acknowledged() or other.lacks_acknowledged():
            return False
        if half.state >= STARTED and 0 < self.reset_position - half.next < WINDOW:
            return False
        return not (self.reset_acknowledges and other.sends and other.ahead(self.reset_acknowledgment))

    cdef bint _overdue(self):
        cdef Half half
        cdef uint64_t oldest = self.packets
        if self.low.held_size + self.high.held_size > self.budget.held_per_flow:
            return True
        for half in (self.low, self.high):
            if half.held:
                oldest = min(oldest, half.first().arrival)
            if half.fin and half.state != ENDED:
                oldest = min(oldest, half.fin_arrival)
        if self.reset:
            oldest = min(oldest, self.reset_arrival)
        if self.packets - oldest > self.budget.patience:
            return True
        return self.budget.held > self.budget.held_in_all and self.low.held_size + self.high.held_size > 0

    cdef bint _stop_one_wait(self, list out) except? -1:
        # Stops the wait of the earliest held segment; returns False if none waits.
        cdef Half half
        cdef Half other
        cdef Held first = self.low.first() if self.low.state >= STARTED else None
        cdef Held second = self.high.first() if self.high.state >= STARTED else None
        cdef int64_t size
        if first is None and second is None:
            return self._skip_to_fin(out)
        if second is None or (first is not None and first.time_ns <= second.time_ns):
            half, other = self.low, self.high
        else:
            first, half, other = second, self.high, self.low
        if first.position > half.next:
            self._gap(half, first.position - half.next, max(half.time_ns, first.time_ns), out)
            return True
        # The segment acknowledges bytes of the other side that are not in the capture.
        size = <int32_t>(first.acknowledgment - <uint32_t>(<uint64_t>other.next))
        if other.held:
            size = min(size, other.first().position - other.next)
        if other.fin:
            size = min(size, other.fin_position - other.next)
        first.acknowledges = False
        if size > 0 and other.state >= STARTED and other.sends:
            self._gap(other, size, max(other.time_ns, first.time_ns), out)
        return True

    def _skip_to_fin(self, list out):
        cdef Half half
        for half in (self.low, self.high):
            if half.fin and half.state != ENDED and half.state >= STARTED and half.fin_position > half.next:
                self._gap(half, half.fin_position - half.next, half.fin_time_ns, out)
                return True
        return False

    cdef int close(self, int64_t time_ns, object reason, list out) except -1:
        cdef Half half
        if self.state == CLOSED:
            return 0
        if reason is not FINISHED and reason is not RESET:
            self.advance(out, True)
            if self.state == CLOSED:
                return 0
        self.open(time_ns, out)
        for half in (self.low, self.high):
            # one byte would be a FIN that was not captured
            if half.lacks_acknowledged() and half.acknowledged - half.next > 1:
                self._gap(half, half.acknowledged - half.next, time_ns, out)
            if reason is RESET and half.state != ENDED:
                out.append(Ended(self, time_ns, self._side(half), True))
            half.drop_held()
            half.drop_recent()
        self.state = CLOSED
        self.packets_at_close = self.packets
        out.append(Closed(self, time_ns, reason))
        return 0


@cython.final
cdef class Flows:
    """Turns packets into the items of flows. No I/O, no clock.

    Args:
        limits: every bound; None for the defaults.
        unwrap: called with each Packet that is not a TCP segment and its outcome (links.OUTCOME_NAMES). Returns the packets
            inside it (a tunnel's, a reassembled datagram's, or none yet), or a name to count it by. It counts packets that it
            drops later in its own *passed_over*. See kproxy.capture.unwrap.
        endpoints: knowledge about endpoints, to which the flows add; None for a new Endpoints.
        shuffled_from: for ``receive_block``: the number of the packet from which on the capture is shuffled; 0: it is not.

    A flow is identified by addresses and ports, not by VLAN tags or tunnels. If a mirror port shows the same packet inside and
    outside of a tunnel, the second one counts as a retransmission. Two networks with the same addresses and ports are mixed, and
    ``doubts`` counts their flows.

    The capture counts as *shuffled* once a time goes back by more than DISORDER_NS.

    packets and byte_count count the input; evicted and reused count flows; stray counts resets that belong to no flow.
    """

    cdef readonly Budget budget
    cdef readonly uint64_t packets
    cdef readonly uint64_t byte_count
    cdef readonly uint64_t opened
    cdef readonly uint64_t evicted
    cdef readonly uint64_t reused
    cdef readonly uint64_t stray
    cdef object _unwrap
    cdef dict _named
    cdef dict _table
    cdef Py_ssize_t _max_flows
    cdef Flow _oldest
    cdef Flow _newest
    cdef object _lingering  # (number of the reset's packet, flow) of LINGERING flows, in the order of resets
    cdef int64_t _latest_ns
    cdef uint64_t[OUTCOMES] _outcomes
    cdef uint64_t _shuffled_from
    cdef bint _from_blocks

    def __init__(
        self, limits: Limits | None = None, unwrap: Callable[[Packet, str], Iterable[Packet] | str] | None = None, *,
        endpoints: Endpoints | None = None, uint64_t shuffled_from=0,
    ):
        limits = limits or Limits()
        self.budget = Budget(limits, endpoints)
        self._shuffled_from = shuffled_from
        self._max_flows = max(1, limits.flows)
        self._table = {}
        self._unwrap = unwrap
        self._named = {}
        self._lingering = deque()
        memset(self._outcomes, 0, sizeof(self._outcomes))

    def __len__(self):
        return len(self._table)

    @property
    def segments_again(self) -> int:
        """Number of TCP segments that repeat bytes which were captured before; segments of ignored connections do not count."""
        return self.budget.segments_again

    @property
    def doubts(self) -> Doubts:
        """What shows that the packets are not of one network with one clock."""
        return Doubts(self.budget.mixed, self.budget.early, self.budget.never, self.budget.earliest_ns)

    @property
    def passed_over(self) -> dict[str, int]:
        """Number of packets without a TCP segment, by reason."""
        cdef int i
        counts = {OUTCOME_NAMES[i]: self._outcomes[i] for i in range(1, <int>OUTCOMES) if self._outcomes[i]}
        for more in (self._named, getattr(self._unwrap, "passed_over", {})):
            for name, count in more.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def segments(self) -> int:
        """Number of TCP segments."""
        return self._outcomes[<int>SEGMENT]

    def expect_disorder(self) -> None:
        """Take the capture for shuffled from now on, whatever the times of its packets say."""
        self.budget.shuffled = True

    def receive(self, batch: PacketBatch, Py_ssize_t first=0, Py_ssize_t stop=-1) -> list[FlowItem | Data]:
        """Receive packets *first* to *stop* (by default all) of a PacketBatch in their order; return the resulting items."""
        out = []
        self._receive(batch, first, batch.count if stop < 0 else stop, out, 0)
        return out

    def receive_packet(self, packet: Packet) -> list[FlowItem | Data]:
        """Receive one Packet; return the resulting items."""
        batch = PacketBatch(1)
        batch.lend(packet.data)
        batch.add_packet(packet)
        return self.receive(batch)

    def receive_block(
        self, bytes key, bytes block, Py_ssize_t start, list out: list[FlowItem | Data],
        list numbers: list[int] | None = None, Payloads payloads: Payloads | None = None, uint64_t before=0,
    ) -> int:
        """Receive segments of one connection from position *start* of a block (segments.pyx) on; return where the rest begins.

        Items are added to *out*. Without *numbers*, reading stops behind the first segment that makes items, and ``packets`` is
        the number of its packet. With *numbers*, it reads to the end of the block and adds the packet's number for each item.
        The number of a flow is that of its first packet here; it does not count flows. *payloads*: those that were left in the
        file. *before*: added to the numbers of packets. Raises ValueError for bytes that are not a block.
        """
        cdef const uint8_t* data = <const uint8_t*><const char*>block
        cdef Py_ssize_t size = len(block)
        cdef SegmentHeader header
        cdef Segment segment
        cdef uint64_t place
        cdef const uint8_t* payload
        cdef const uint8_t* given = <const uint8_t*><const char*>key
        if len(key) > <Py_ssize_t>sizeof(segment.key) or start < 0:
            raise ValueError("no block")
        memset(&segment, 0, sizeof(segment))
        memcpy(segment.key, given, len(key))
        segment.key_size = <uint8_t>len(key)
        self._from_blocks = True
        while start < size and (numbers is not None or not out):
            if size - start < <Py_ssize_t>sizeof(SegmentHeader):
                raise ValueError("a block ends within a segment")
            memcpy(&header, data + start, sizeof(SegmentHeader))
            start += sizeof(SegmentHeader)
            header.number += before
            if size - start < (<Py_ssize_t>sizeof(place) if header.in_file else <Py_ssize_t>header.size):
                raise ValueError("a block ends within a segment")
            payload = data + start
            start += <Py_ssize_t>sizeof(place) if header.in_file else <Py_ssize_t>header.size
            if header.in_file:
                if payloads is None or <Py_ssize_t>header.size > MAX_PAYLOAD:
                    raise ValueError("a block without its payloads")
                memcpy(&place, payload, sizeof(place))
                payload = payloads.at(place, header.size, data + start, size - start)
            segment.sequence, segment.acknowledgment = header.sequence, header.acknowledgment
            segment.size, segment.missing = header.size, header.missing
            segment.flags, segment.side = header.flags, header.side & 1
            segment.payload = 0
            if self._lingering and header.number > 0:
                self.packets = header.number - 1  # the packets since the previous segment belong to other flows
                self._end_resets(out)
            self.packets = header.number
            self.byte_count += header.size
            self._outcomes[<int>SEGMENT] += 1
            if 0 < self._shuffled_from <= header.number:
                self.budget.shuffled = True
            self._receive_segment(&segment, payload, header.time_ns, out)
            while numbers is not None and len(numbers) < len(out):
                numbers.append(header.number)
        return start

    def close(self) -> list[FlowItem | Data]:
        """End the capture; return the last items of every flow, in the order of flows."""
        out = []
        cdef Flow flow
        for flow in sorted(self._table.values(), key=attrgetter("number")):
            flow.close(flow.last_time_ns, CloseReason.CAPTURE_END, out)
            flow.older = flow.newer = None
        self._table.clear()
        self._lingering.clear()
        self._oldest = self._newest = None
        return out

    cdef int _receive(self, PacketBatch batch, Py_ssize_t first, Py_ssize_t stop, list out, int depth) except -1:
        cdef Py_ssize_t i
        cdef PacketRef* ref
        cdef Segment segment
        cdef Outcome outcome
        cdef const uint8_t* data
        for i in range(max(0, first), min(stop, batch.count)):
            ref = &batch.refs[i]
            data = batch.data(ref)
            if depth == 0:
                self.packets += 1
                self.byte_count += ref.size
            outcome = dissect(data, ref.size, ref.original_size, ref.link_type, &segment)
            if outcome == SEGMENT:
                self._outcomes[<int>SEGMENT] += 1
                self._receive_segment(&segment, data, ref.time_ns, out)
            elif self._unwrap is None or depth >= MAX_UNWRAPPED:
                self._outcomes[<int>outcome] += 1
            else:
                self._receive_unwrapped(batch.packet(i), OUTCOME_NAMES[<int>outcome], out, depth)
        return 0

    cdef int _receive_unwrapped(self, object packet, str what, list out, int depth) except -1:
        inside = self._unwrap(packet, what)
        if isinstance(inside, str):
            self._named[inside] = self._named.get(inside, 0) + 1
            return 0
        for packet in inside:
            batch = PacketBatch(1)
            batch.lend(packet.data)
            batch.add_packet(packet)
            self._receive(batch, 0, batch.count, out, depth + 1)
        return 0

    cdef int _receive_segment(self, Segment* segment, const uint8_t* data, int64_t time_ns, list out) except -1:
        cdef bytes key = PyBytes_FromStringAndSize(<const char*>segment.key, segment.key_size)
        cdef Flow flow = <Flow>self._table.get(key)
        if time_ns > self._latest_ns:
            self._latest_ns = time_ns
        elif time_ns < self._latest_ns - DISORDER_NS:
            self.budget.shuffled = True
        if flow is not None and (
            flow.is_replaced_by(segment) if segment.flags & SYN else flow.is_over_for(segment)
        ):
            if flow.state == ACTIVE:
                self.reused += 1
            flow.close(time_ns, CloseReason.REUSED, out)
            self._remove(flow)
            flow = None
        if self._lingering:
            self._end_resets(out)
        if flow is None:
            if segment.flags & RST:
                self.stray += 1
                return 0
            flow = self._add(key, out)
        elif flow is not self._newest:
            self._unlink(flow)
            self._link(flow)
        flow.receive(segment, data, time_ns, out)
        if flow.state == LINGERING and not flow.in_lingering:
            flow.in_lingering = True
            self._lingering.append((self.packets, flow))
        return 0

    cdef int _end_resets(self, list out) except -1:
        # Closes the flows whose reset is LINGER_PACKETS ago; they stay in the table for late packets.
        cdef Flow flow
        while self._lingering:
            packet, flow = self._lingering[0]
            if self.packets - packet <= LINGER_PACKETS:
                break
            self._lingering.popleft()
            flow.close(flow.last_time_ns, CloseReason.CAPTURE_END, out)
        return 0

    cdef Flow _add(self, bytes key, list out):
        cdef Flow flow
        if len(self._table) >= self._max_flows:
            self.evicted += self._oldest.state == ACTIVE
            self._oldest.close(self._oldest.last_time_ns, CloseReason.EVICTED, out)
            self._remove(self._oldest)
        self.opened += 1
        flow = Flow(self.packets if self._from_blocks else self.opened, key, self.budget)
        self._table[key] = flow
        self._link(flow)
        self.budget.endpoints.count(key)
        return flow

    cdef object _remove(self, Flow flow):
        del self._table[flow.key]
        self._unlink(flow)

    cdef object _unlink(self, Flow flow):
        if flow.older is None:
            self._oldest = flow.newer
        else:
            flow.older.newer = flow.newer
        if flow.newer is None:
            self._newest = flow.older
        else:
            flow.newer.older = flow.older
        flow.older = flow.newer = None

    cdef object _link(self, Flow flow):
        flow.older = self._newest
        if self._newest is None:
            self._oldest = flow
        else:
            self._newest.newer = flow
        self._newest = flow
