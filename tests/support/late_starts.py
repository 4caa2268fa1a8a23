"""Captures of which the beginning, a part or a side is missing: each flow of a capture decoded again from fewer packets.

The whole flow says what is true. A *view* is what is left of a flow's segments; what the view shows must be part of that truth:

    invented   an exchange of the view that the whole flow does not have: API, version, correlation id, client id, sizes, times
    missing    an exchange of the whole flow whose request is whole in the view, and that the view does not show; or shows
               without its response although that is whole in the view, too

Segments are rebuilt from what the capture's packets hold, so that a view can also begin within one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.capture import Data, Flow, FlowItem, Flows, Gap, Packet, PacketBatch, open_capture
from kproxy.capture.items import TcpSegment
from kproxy.capture.links import read_segment
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.session import Event, Exchange, Frame, Limits

RAW_IP = 101
SYN = 2
_IPV4 = bytes.fromhex("4500 0000 0000 4000 4006 0000")
_HALF = 1 << 31
Span = tuple[int, int]  # positions in a direction's stream


@dataclass(slots=True)
class Segment:
    """A TCP segment and its time."""

    at: int
    tcp: TcpSegment

    def cut(self, size: int) -> "Segment":
        """The segment without its first *size* bytes."""
        tcp = self.tcp
        after = tcp._replace(sequence=(tcp.sequence + size) & 0xFFFFFFFF, payload=tcp.payload[size:])
        return Segment(self.at, after)

    def recorded(self, size: int) -> "Segment":
        """The segment as a snaplen leaves it: *size* bytes of its payload."""
        tcp = self.tcp
        missing = tcp.missing + max(0, len(tcp.payload) - size)
        return Segment(self.at, tcp._replace(payload=tcp.payload[:size], missing=missing))

    def packet(self) -> Packet:
        """The segment as a packet; its addresses are kept."""
        tcp, half = self.tcp, len(self.tcp.key) // 2
        ends = (tcp.key[:half], tcp.key[half:])
        source, target = ends[tcp.side], ends[1 - tcp.side]
        header = b"".join(
            (
                source[-2:],
                target[-2:],
                tcp.sequence.to_bytes(4, "big"),
                tcp.acknowledgment.to_bytes(4, "big"),
                bytes((0x50, tcp.flags, 0xFF, 0xFF, 0, 0, 0, 0)),
            )
        )
        size = len(header) + len(tcp.payload)
        data = _ip_header(source[:-2], target[:-2], size + tcp.missing) + header + tcp.payload
        return Packet(self.at, RAW_IP, data, len(data) + tcp.missing)


def _ip_header(source: bytes, target: bytes, size: int) -> bytes:
    if len(source) == 4:
        return _IPV4[:2] + (20 + size).to_bytes(2, "big") + _IPV4[4:] + source + target
    return b"\x60\0\0\0" + (size & 0xFFFF).to_bytes(2, "big") + b"\x06\x40" + source + target


def flows_of(path: Path) -> list[list[Segment]]:
    """The segments of a capture, by connection; a port that is used again begins another one."""
    open_flows: dict[bytes, list[Segment]] = {}
    flows: list[list[Segment]] = []
    with open_capture(path) as capture:
        for packet in capture:
            tcp = read_segment(packet.link_type, packet.data, packet.original_size)
            if isinstance(tcp, str):
                continue
            known = open_flows.get(tcp.key)
            begins = tcp.flags & SYN and not tcp.flags & 16
            again = known is not None and begins and any(one.tcp.payload for one in known)
            if known is None or again:
                known = open_flows[tcp.key] = []
                flows.append(known)
            known.append(Segment(packet.time_ns, tcp))
    return [flow for flow in flows if any(one.tcp.payload for one in flow)]


def items_of(segments: Iterable[Segment]) -> list[FlowItem | Data]:
    """Reassemble segments."""
    packets = [segment.packet() for segment in segments]
    flows = Flows()
    items: list[FlowItem | Data] = []
    for packet in packets:
        batch = PacketBatch(1)
        batch.lend(packet.data)
        batch.add_packet(packet)
        items += flows.receive(batch)
    return items + flows.close()


def events_of(segments: Iterable[Segment], limits: Limits | None = None) -> list[Event]:
    """What kproxy makes of segments."""
    return list(FlowEvents(iter(items_of(segments)), limits=limits))


@dataclass(slots=True)
class Truth:
    """What the whole of a flow holds."""

    segments: list[Segment]
    exchanges: list[Exchange] = field(default_factory=list)
    spans: list[tuple[Span | None, Span | None]] = field(default_factory=list)  # of each exchange's frames
    origins: list[int] = field(default_factory=list)  # the sequence number where each side's stream begins
    client_side: int = 0
    before: bytes = b""  # what the broker sent before the first response whose request is there, too

    def view(self, segments: Sequence[Segment]) -> "View":
        """Decode part of the flow and compare."""
        return View(self, segments)


def truth_of(segments: list[Segment]) -> Truth:
    """Decode the whole of a flow, and find where each frame lies in its stream."""
    truth = Truth(segments)
    items = items_of(segments)
    streams: tuple[bytearray, bytearray] = (bytearray(), bytearray())
    flow: Flow | None = None
    for item in items:
        flow = item.flow
        if isinstance(item, Data):
            streams[item.side].extend(item.data)
        elif isinstance(item, Gap):
            streams[item.side].extend(bytes(item.size or 0))
    events = list(FlowEvents(iter(items)))
    truth.exchanges = [one for one in events if isinstance(one, Exchange)]
    assert flow is not None
    truth.client_side = 0 if flow.direction(0) == 0 else 1
    truth.origins = [_origin(segments, side) for side in (0, 1)]
    for direction in (0, 1):
        side = truth.client_side ^ direction
        _find_spans(truth, bytes(streams[side]), direction)
    firsts = [span[0] for _, span in truth.spans if span is not None]
    truth.before = bytes(streams[truth.client_side ^ 1][: min(firsts, default=0)])
    return truth


def _origin(segments: list[Segment], side: int) -> int:
    of_side = [one.tcp for one in segments if one.tcp.side == side]
    for tcp in of_side:
        if tcp.flags & SYN:
            return tcp.sequence + 1
    anchor = next((tcp.sequence for tcp in of_side if tcp.payload), 0)
    return anchor + min((_distance(tcp.sequence, anchor) for tcp in of_side if tcp.payload), default=0)


def _distance(sequence: int, anchor: int) -> int:
    return (sequence - anchor + _HALF) % (2 * _HALF) - _HALF


def _find_spans(truth: Truth, stream: bytes, direction: int) -> None:
    frames: list[tuple[int, int, Frame]] = []
    for index, exchange in enumerate(truth.exchanges):
        frame = exchange.response if direction else exchange.request
        if frame is not None:
            frames.append((frame.ended_at, index, frame))
    if not direction:
        frames.sort(key=lambda entry: (entry[2].started_at, entry[0]))
    spans: dict[int, Span] = {}
    position = 0
    for _, index, frame in frames:
        wire = frame.wire_size - 4
        start = stream.find(wire.to_bytes(4, "big") + frame.data, position)
        if start < 0:
            start = stream.find(wire.to_bytes(4, "big") + frame.data)  # answered out of order, or a cut one's neighbour
        if start >= 0:
            position = start + 4 + wire
            spans[index] = (start, position)
    for index in range(len(truth.exchanges)):
        span = spans.get(index)
        if direction:
            truth.spans[index] = (truth.spans[index][0], span)
        else:
            truth.spans.append((span, None))


class View:
    """Part of a flow, decoded; *invented* and *missing* say what is wrong in it, *whole* how many requests it holds."""

    def __init__(self, truth: Truth, segments: Sequence[Segment]) -> None:
        self._truth = truth
        self._covered = [_covered(segments, side, truth.origins[side]) for side in (0, 1)]
        kept = {id(segment) for segment in segments}
        lost = [segment for segment in truth.segments if id(segment) not in kept]
        self._lost = [_covered(lost, side, truth.origins[side]) for side in (0, 1)]
        self.events = events_of(segments)
        self.exchanges = [one for one in self.events if isinstance(one, Exchange)]
        self.invented: list[str] = []
        self.missing: list[str] = []
        self.whole = 0
        self._compare()

    def _compare(self) -> None:
        truth = self._truth
        left = dict(enumerate(truth.exchanges))
        by_request: dict[object, list[int]] = {}
        by_response: dict[object, list[int]] = {}
        for index, exchange in left.items():
            if exchange.request is not None:
                by_request.setdefault(_request_key(exchange), []).append(index)
            if exchange.response is not None:
                by_response.setdefault(_response_key(exchange), []).append(index)
        shown: dict[int, Exchange] = {}
        for found in self.exchanges:
            places = by_request if found.request is not None else by_response
            key = _request_key(found) if found.request is not None else _response_key(found)
            index = next((i for i in places.get(key, ()) if i not in shown and self._agrees(i, found)), None)
            if index is None and _is_in(truth.before, found):
                continue
            if index is None:
                self.invented.append(describe(found))
            else:
                shown[index] = found
        for index, exchange in left.items():
            if not self._is_whole(index, 0):
                continue
            self.whole += 1
            found_one = shown.get(index)
            if found_one is None or found_one.request is None:
                self.missing.append(describe(exchange))
            elif self._is_whole(index, 1) and found_one.response is None:
                self.missing.append(f"{describe(exchange)}: its response")

    def _agrees(self, index: int, found: Exchange) -> bool:
        """Whether an exchange found is that one of the whole flow, in its times, its peers and its response, too."""
        true = self._truth.exchanges[index]
        if (true.connection.client, true.connection.broker) != (found.connection.client, found.connection.broker):
            return False
        if not self._same_frame(index, 0, true.request, found.request):
            return False
        if found.response is not None and (true.response is None or _response_key(true) != _response_key(found)):
            return False
        return self._same_frame(index, 1, true.response, found.response)

    def _same_frame(self, index: int, direction: int, true: Frame | None, found: Frame | None) -> bool:
        if true is None or found is None:
            return found is None
        span = self._truth.spans[index][direction]
        side = self._truth.client_side ^ direction
        if span is not None and any(start < span[1] and span[0] < end for start, end in self._lost[side]):
            return True  # a copy of some of its bytes is not in the view: the times may be those of another copy
        return (true.started_at, true.ended_at) == (found.started_at, found.ended_at)

    def _is_whole(self, index: int, direction: int) -> bool:
        span = self._truth.spans[index][direction]
        side = self._truth.client_side ^ direction
        return span is not None and any(start <= span[0] and span[1] <= end for start, end in self._covered[side])


def _covered(segments: Iterable[Segment], side: int, origin: int) -> list[Span]:
    """The parts of a side's stream that segments hold, joined."""
    spans = sorted(
        (position, position + len(tcp.payload))
        for tcp in (one.tcp for one in segments)
        if tcp.side == side and tcp.payload
        for position in [_distance(tcp.sequence + (tcp.flags & SYN > 0), origin)]
    )
    joined: list[Span] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _is_in(stream: bytes, found: Exchange) -> bool:
    """Whether a response, shown without its request, is in a stream to its last byte."""
    frame = found.response
    return (
        found.request is None and frame is not None and (frame.wire_size - 4).to_bytes(4, "big") + frame.data in stream
    )


def _request_key(exchange: Exchange) -> object:
    assert exchange.request is not None
    return (
        exchange.api_key,
        exchange.api_version,
        exchange.correlation_id,
        exchange.client_id,
        exchange.request.wire_size,
    )


def _response_key(exchange: Exchange) -> object:
    assert exchange.response is not None
    return exchange.correlation_id, exchange.response.wire_size


def describe(exchange: Exchange) -> str:
    """An exchange in a line."""
    sizes = [None if frame is None else frame.wire_size for frame in (exchange.request, exchange.response)]
    return (
        f"{exchange.api_name} v{exchange.api_version} id {exchange.correlation_id} of {exchange.client_id!r}, "
        f"sizes {sizes}, {exchange.unanswered or exchange.undecoded or 'whole'}"
    )
