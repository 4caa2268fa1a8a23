"""All flows of a capture: which packet belongs to which, who goes when there are too many."""

from collections import deque

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from kproxy.capture.half cimport Budget
from kproxy.capture.links cimport OUTCOMES, RST, SEGMENT, SYN, Outcome, Segment, dissect
from kproxy.capture.packets cimport PacketBatch, PacketRef
from kproxy.capture.reassembly cimport Flow

from kproxy.capture.items import CloseReason
from kproxy.capture.limits import Limits
from kproxy.capture.links import OUTCOME_NAMES

cdef int MAX_UNWRAPPED = 4  # layers of encapsulation
cdef uint64_t LINGER_PACKETS = 4096  # of the capture, after a reset
cdef int64_t DISORDER_NS = 100_000  # several queues of a network card differ by less, mostly


cdef class Flows:
    """Packets in, flow items out. No I/O, no clock.

    Args:
        limits: every cap; None for the defaults.
        unwrap: called with each Packet that is not a TCP segment and the name of what it is (links.OUTCOME_NAMES); answers
            the packets inside it (a tunnel's; a datagram's, or none yet), or a name to count it by as passed over. What
            it gives up later it counts in its own *passed_over*. See kproxy.capture.unwrap.

    A flow is its addresses and ports: VLAN tags and tunnels do not tell flows apart. A mirror port shows the same packet
    inside and outside of them, and the second is a retransmission then. What two networks with the same addresses send
    between the same ports is mixed.

    Where times go back, the capture is shuffled: what was sent before a reset may come behind it, so that the connection is over
    only when many packets have passed.

    packets and bytes count what came in; evicted and reused count flows; stray counts resets that belong to no flow.
    """

    cdef readonly Budget budget
    cdef readonly uint64_t packets
    cdef readonly uint64_t bytes
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
    cdef object _lingering  # (number of the packet, flow) of each flow that was reset, in the order of resets
    cdef int64_t _latest_ns
    cdef uint64_t[OUTCOMES] _outcomes

    def __init__(self, limits=None, unwrap=None):
        limits = limits or Limits()
        self.budget = Budget(limits)
        self._max_flows = max(1, limits.flows)
        self._table = {}
        self._unwrap = unwrap
        self._named = {}
        self._lingering = deque()
        memset(self._outcomes, 0, sizeof(self._outcomes))

    def __len__(self):
        return len(self._table)

    @property
    def passed_over(self):
        """Packets that no TCP segment was read from, counted by what they were."""
        cdef int i
        counts = {OUTCOME_NAMES[i]: self._outcomes[i] for i in range(1, <int>OUTCOMES) if self._outcomes[i]}
        for more in (self._named, getattr(self._unwrap, "passed_over", {})):
            for name, count in more.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def segments(self):
        """Packets that were TCP segments."""
        return self._outcomes[<int>SEGMENT]

    def receive(self, batch):
        """Take the packets of a PacketBatch, in their order; return the list of items that they make."""
        out = []
        self._receive(batch, out, 0)
        return out

    def receive_packet(self, packet):
        """Take one Packet; return the list of items that it makes."""
        batch = PacketBatch(1)
        batch.lend(packet.data)
        batch.add_packet(packet)
        return self.receive(batch)

    def close(self):
        """The capture is over: return the last items of every flow, in the order of flows."""
        out = []
        cdef Flow flow
        for flow in sorted(self._table.values(), key=lambda flow: flow.number):
            flow.close(flow.last_time_ns, CloseReason.CAPTURE_END, out)
            flow.older = flow.newer = None
        self._table.clear()
        self._lingering.clear()
        self._oldest = self._newest = None
        return out

    cdef int _receive(self, PacketBatch batch, list out, int depth) except -1:
        cdef Py_ssize_t i
        cdef PacketRef* ref
        cdef Segment segment
        cdef Outcome outcome
        cdef const uint8_t* data
        for i in range(batch.count):
            ref = &batch.refs[i]
            data = batch.data(ref)
            if depth == 0:
                self.packets += 1
                self.bytes += ref.size
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
            self._receive(batch, out, depth + 1)
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
            if not flow.closed and not flow.lingers:
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
        if flow.lingers and not flow.noted:
            flow.noted = True
            self._lingering.append((self.packets, flow))
        return 0

    cdef int _end_resets(self, list out) except -1:
        # Close the flows whose reset is long enough ago; they stay in the table, for their last echoes.
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
            self.evicted += not self._oldest.closed and not self._oldest.lingers
            self._oldest.close(self._oldest.last_time_ns, CloseReason.EVICTED, out)
            self._remove(self._oldest)
        self.opened += 1
        flow = Flow(self.opened, key, self.budget)
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
