"""Capture files: pcap and pcapng, link layers, TCP reassembly -> the byte streams of both directions with their times."""

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
