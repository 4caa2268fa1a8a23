"""Capture files: pcap and pcapng, link layers, TCP reassembly -> the byte streams of both directions with their times.

The way of a byte: files -> scanners -> links (-> unwrap) -> reassembly -> (tls/) -> kproxy.pipeline.

    files.py          a path or standard input, plain, gzip or zstd -> a stream of bytes
    reader.py         Capture: one buffer, one scanner, damage kept and not raised; read_flows
    scanners.pyx      PacketBatch, PcapScanner, PcapngScanner: where the packets lie in that buffer
    options.py        the options of pcapng blocks
    links.pyx         a packet's TCP segment, or the name of what it is instead
    unwrap.py         packets inside packets without a TCP segment: fragments.py (IP fragments), tunnels.py (VXLAN, GRE ...)
    reassembly.pyx    Flows, Flow, Half: segments in any order -> items in the order of the conversation; the state machine
    roles.py          which endpoint is the server when no SYN was captured
    tls/              TLS 1.2 and 1.3 with a key log -> the bytes inside
    packet.py         Packet, Datagram, TcpSegment: one packet as objects
    items.py          Opened, Gap, Ended, Differs, Closed (Data is in reassembly.pyx)
    limits.py         Limits: every bound
    spans.pxd         the bounds-checked readers through which the .pyx look at bytes

Seams

    with open_capture(path_or_dash) as capture:      CaptureError when it is no capture at all
        for item in read_flows(capture, limits):     Opened, Data, Gap, Ended, Differs, Closed
            ...
        capture.damage                               CaptureError when the file could not be read to its end, else None

Items know nothing of Kafka. The client is known when the flow's SYN or SYN-ACK was captured (``flow.client_known``), else
guessed; ``flow.swap()`` corrects the guess for all items read from then on. Missing bytes of a stream are a Gap;
``flow.half(direction).from_start`` tells whether the beginning of a direction was captured.
In compressed files, byte positions in errors are those of the decompressed capture.

Who owns which bytes: the buffer is Capture's and lent to a PacketBatch until the next one; reassembly copies each payload
once, into Data or a held segment. Everything held is bounded by Limits.

To add
    a link type           links.pyx: its number in the LINK_ enum, and a branch in ``_network_version`` that returns IPv4 or
                          IPv6 and where that header begins; if its EtherType is not just before it, ``_ethertype_before``
    an encapsulation      tunnels.py: its row among BY_ETHERTYPE, BY_PROTOCOL or BY_UDP_PORT, and scapy's class for it
    a file format         scanners.pyx: a class with scan(); reader.py: its magic in Capture._detect
    a compression         files.py: a class with readinto() and its magic in see_through
    an item               items.py, made in Flow; kproxy.pipeline.flow_reader reads items
    a bound               limits.py
"""

from kproxy.capture.items import Closed, CloseReason, Differs, Ended, FlowItem, Gap, Opened
from kproxy.capture.limits import Limits
from kproxy.capture.packet import Packet
from kproxy.capture.reader import Capture, open_capture, read_flows
from kproxy.capture.reassembly import Data, Flow, Flows, Uncopied
from kproxy.capture.scanners import PacketBatch

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
    "Uncopied",
    "open_capture",
    "read_flows",
]
