"""Capture files: pcap and pcapng, link layers, TCP reassembly -> the byte streams of both directions with their times.

    files.py        paths and standard input, gzip and zstd -> a stream of bytes
    pcap.pyx, pcapng.pyx   where the packets lie in a buffer of that stream
    tls/            TLS 1.2 and 1.3 with a key log -> what is inside, and who talks to whom
    options.py      the options of pcapng blocks
    packets.pyx     PacketBatch (many, in a lent buffer), Packet (one, owning its bytes)
    reader.py       Capture: one buffer, one scanner, damage told and not raised; read_flows
    links.pyx       a packet's TCP segment, or the name of what it is instead
    unwrap.py       what is inside of what is no TCP segment: fragments.py, tunnels.py
    half.pyx        one direction of a flow: what is held, what was delivered
    reassembly.pyx  Flow: segments in any order -> items in the order of the conversation
    flows.pyx       Flows: which flow a packet belongs to; reused endpoints, eviction
    roles.py        who is the server when no SYN was captured
    items.py        Opened, Gap, Ended, Closed, Differs (Data is in reassembly.pyx)
    limits.py       Limits: every cap
    spans.pxd       the bounds-checked readers that all of the above look at bytes with

Seams

    with open_capture(path_or_dash) as capture:      CaptureError when it is no capture at all
        for item in read_flows(capture, limits):     Opened, Data, Gap, Ended, Differs, Closed
            ...
        capture.damage                               CaptureError when the file could not be read to its end, else None

Items say nothing of Kafka. Who is client and who is server is known when the flow's SYN or SYN-ACK was captured
(``flow.client_known``), else guessed; ``flow.swap()`` corrects the guess for all items read from then on. What part of
the stream is missing is a Gap; whether a direction begins at its beginning is ``flow.half(direction).from_start``.
Compressed files: byte positions in errors are those of the decompressed capture.
"""

from kproxy.capture.flows import Flows
from kproxy.capture.items import Closed, CloseReason, Differs, Ended, FlowItem, Gap, Opened
from kproxy.capture.limits import Limits
from kproxy.capture.packets import Packet, PacketBatch
from kproxy.capture.reader import Capture, open_capture, read_flows
from kproxy.capture.reassembly import Data, Flow

__all__ = [
    "Capture",
    "CloseReason",
    "Closed",
    "Data",
    "Differs",
    "Ended",
    "Flow",
    "FlowItem",
    "Flows",
    "Gap",
    "Limits",
    "Opened",
    "Packet",
    "PacketBatch",
    "open_capture",
    "read_flows",
]
