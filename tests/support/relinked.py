"""A recorded capture on other links and in other containers: the same TCP segments, written again with scapy or by hand.

Each of CONTAINERS is (name, what makes the bytes of the file). The recorded capture is one of Ethernet frames with IPv4.
"""

import random
import struct
from collections.abc import Callable, Iterator

from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q
from scapy.packet import Raw

from kproxy.capture.scanners import SECTION_MAGIC
from tests.support.built_captures import block, enhanced, interface, section
from tests.support.split_captures import packets_of

RECORDED = "01-java-produce-consume-group.pcap"
ETHERNET, RAW, SLL, IPV6, SLL2 = 1, 101, 113, 229, 276
IP_TYPE = 0x0800
Repack = Callable[[bytes], bytes]


def frames(name: str) -> Iterator[tuple[int, int, bytes]]:
    """The packets of a capture, whole: seconds, microseconds, frame."""
    for record in packets_of(name)[1]:
        seconds, fraction, captured, original = struct.unpack("<IIII", record[:16])
        assert captured == original
        yield seconds, fraction, record[16:]


def relinked(link: int, repack: Repack, name: str = RECORDED) -> bytes:
    """A pcap of packets that *repack* makes of the recorded frames."""
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, link)
    for seconds, fraction, frame in frames(name):
        packet = repack(frame)
        data += struct.pack("<IIII", seconds, fraction, len(packet), len(packet)) + packet
    return data


def as_ipv6(frame: bytes) -> bytes:
    """The segment in IPv6, between addresses that have the old ones as their last four bytes."""
    packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]
    segment = packet[4 * (packet[0] & 15) :]
    source, target = ("2001:db8::" + ".".join(map(str, packet[at : at + 4])) for at in (12, 16))
    return bytes(IPv6(src=source, dst=target, nh=6, hlim=64) / Raw(segment))


def tagged(frame: bytes) -> bytes:
    """The frame with a provider's VLAN tag and a customer's."""
    tags = Dot1AD(vlan=7, type=0x8100) / Dot1Q(vlan=9, type=IP_TYPE) / Raw(frame[14:])
    return frame[:12] + b"\x88\xa8" + bytes(tags)


def sections(name: str = RECORDED) -> bytes:
    """A pcapng of three sections, in both byte orders, with packets of two interfaces: Ethernet and cooked.

    The second interface is described between packets; times have nanoseconds in it.
    """
    recorded = list(frames(name))
    third = len(recorded) // 3
    data = b""
    for order, some in (("<", recorded[:third]), (">", recorded[third : 2 * third]), ("<", recorded[2 * third :])):
        data += section(order) + interface(ETHERNET, order=order)
        for at, (seconds, fraction, frame) in enumerate(some):
            if at == len(some) // 2:
                nanoseconds = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
                data += interface(SLL, options=nanoseconds, order=order) + block(0x0BAD, b"other", order)
            micros = seconds * 1_000_000 + fraction
            if at < len(some) // 2 or at % 2:
                data += enhanced(frame, micros, order=order)
            else:
                cooked = bytes(CookedLinux(proto=IP_TYPE) / Raw(frame[14:]))
                data += enhanced(cooked, micros * 1_000, interface=1, order=order)
    return data


def cut(data: bytes, seed: int) -> bytes:
    """The file, cut somewhere behind its first third."""
    return data[: random.Random(seed).randrange(len(data) // 3, len(data) - 1)]


def damaged(data: bytes) -> bytes:
    """The file with a last section that does not say in which byte order it is."""
    at = data.rindex(SECTION_MAGIC) + 8
    return data[:at] + b"odd!" + data[at + 4 :]


CONTAINERS: dict[str, Callable[[], bytes]] = {
    "VLAN.pcap": lambda: relinked(ETHERNET, tagged),
    "SLL.pcap": lambda: relinked(SLL, lambda frame: bytes(CookedLinux(proto=IP_TYPE) / Raw(frame[14:]))),
    "SLL2.pcap": lambda: relinked(SLL2, lambda frame: bytes(CookedLinuxV2(proto=IP_TYPE) / Raw(frame[14:]))),
    "raw-IPv6.pcap": lambda: relinked(RAW, as_ipv6),
    "IPv6.pcap": lambda: relinked(IPV6, as_ipv6),
    "sections.pcapng": sections,
    "sections-cut.pcapng": lambda: cut(sections(), 3),
    "sections-damaged.pcapng": lambda: damaged(sections()),
}
