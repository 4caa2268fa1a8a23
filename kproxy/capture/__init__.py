"""Read capture files (pcap, pcapng): from packets through link layers and TCP to the timed byte streams of each connection.

Bytes pass through: reader -> scanners -> links (-> unwrap) -> reassembly -> (tls/) -> kproxy.pipeline.

    reader.py         a path or standard input, plain, gzip or zstd -> Capture: one buffer, one scanner; keeps damage instead of
                      raising it; read_flows
    merging.py        MergedCapture: many files as one capture, their packets in the order of their times
    scanners.pyx      PacketBatch, PcapScanner, PcapngScanner: where the packets lie in that buffer
    links.pyx         a packet's TCP segment, or the reason why it has none
    unwrap.py         packets inside other packets: IP fragments, tunnels (VXLAN, GRE ...)
    reassembly.pyx    Flows, Flow, Half: segments in any order -> items in the order of the conversation; the state machine
    roles.py          guesses which endpoint is the server when no SYN was captured
    splitting.py      splits a capture file at packet boundaries, for several processes
    segments.pyx      segments packed by connection, to be sent to another process
    tls/              decrypts TLS 1.2 and 1.3 with a key log
    items.py          packets, and the items of flows and TLS connections (Data is in reassembly.pyx); Limits: every bound
    spans.pxd         the bounds-checked readers through which the .pyx look at bytes

Seams

    with open_capture(path_or_dash) as capture:      CaptureError when it is no capture at all
        for item in read_flows(capture, limits):     Opened, Data, Gap, Ended, Differs, Closed
            ...
        capture.damage                               CaptureError when the file could not be read to its end, else None

    with MergedCapture(files) as capture:            the same, for many files that are one capture

Items know nothing of Kafka. The client is known if the flow's SYN or SYN-ACK was captured (``flow.client_known``), otherwise
guessed; ``flow.swap()`` corrects the guess for all later items. Missing bytes become a Gap; ``flow.half(direction).from_start``
says whether the beginning of a direction was captured. Byte positions in errors refer to the decompressed capture.

Who owns which bytes: Capture owns the buffer and lends it to a PacketBatch until the next one; reassembly copies each payload
once, into Data or a held segment. Limits bounds everything held.

To add
    a link type           links.pyx: its number in the LINK_ enum, and a branch in ``_network_version`` that returns IPv4 or
                          IPv6 and where that header begins; if its EtherType is not just before it, ``_ethertype_before``
    an encapsulation      unwrap.py: its row among BY_ETHERTYPE, BY_PROTOCOL or BY_UDP_PORT, and scapy's class for it
    a file format         scanners.pyx: a class with scan(); reader.py: its magic in Capture._detect
    a compression         reader.py: a class with readinto() and its magic in see_through
    an item               items.py, made in Flow; kproxy.pipeline.flow_reader reads items
    a bound               items.Limits
"""

from kproxy.capture.items import Closed, CloseReason, Differs, Doubts, Ended, FlowItem, Gap, Limits, Opened, Packet
from kproxy.capture.merging import CaptureFile, MergedCapture
from kproxy.capture.reader import Capture, open_capture, read_flows
from kproxy.capture.reassembly import Data, Flow, Flows, Uncopied
from kproxy.capture.scanners import PacketBatch

__all__ = [
    "Capture",
    "CaptureFile",
    "CloseReason",
    "Closed",
    "Data",
    "Differs",
    "Doubts",
    "Ended",
    "Flow",
    "FlowItem",
    "Flows",
    "Gap",
    "Limits",
    "MergedCapture",
    "Opened",
    "Packet",
    "PacketBatch",
    "Uncopied",
    "open_capture",
    "read_flows",
]
