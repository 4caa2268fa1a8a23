"""Cut captures into files as tcpdump -C, -G and dumpcap do; also into files that overlap, and those of another host.

All captures, cut at other points than usual, locally and on Spark, against the rows of the whole:

    KPROXY_SEEDS="20261 777" python -m pytest -m "" -k cut_at_random tests/cli/test_many_files.py tests/spark/test_grouping.py
"""

import gzip
import os
import random
import struct
from itertools import pairwise
from pathlib import Path

import zstandard

from tests.support.corpus import CAPTURES

SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 3, 6
SEQUENCE = 16 + 14 + 20 + 4  # in a packet of a pcap, behind the headers of Ethernet and IPv4
SEEDS = [int(seed) for seed in os.environ.get("KPROXY_SEEDS", "1 2 3").split()]
COMPRESSORS = (lambda data: data, gzip.compress, zstandard.compress)


class Packets:
    """A little-endian capture: what stands at the beginning of each of its files, and its packets with what precedes each."""

    def __init__(self, data: bytes) -> None:
        self.is_ng = data[:4] == struct.pack("<I", SECTION)
        self.head, self.packets, self.between = b"", [], b""
        if self.is_ng:
            self._walk_blocks(data)
        else:
            self.head, at = data[:24], 24
            while at < len(data):
                size = 16 + struct.unpack_from("<I", data, at + 8)[0]
                self.packets.append(data[at : at + size])
                at += size

    def _walk_blocks(self, data: bytes) -> None:
        at, before = 0, b""
        while at < len(data):
            kind, size = struct.unpack_from("<II", data, at)
            block = data[at : at + size]
            if kind in (SECTION, INTERFACE):
                self.head += block
            elif kind in (SIMPLE, ENHANCED):
                self.packets.append(before + block)
                before = b""
            else:
                before += block
            at += size

    def file(self, first: int, stop: int) -> bytes:
        """The content of a file that has these packets."""
        return self.head + b"".join(self.packets[first:stop])

    def later(self, seconds: int) -> "Packets":
        """The same packets as a host saw them whose clock is *seconds* ahead; of a pcap."""
        assert not self.is_ng
        other = Packets(self.head)
        for packet in self.packets:
            (at,) = struct.unpack_from("<I", packet)
            other.packets.append(struct.pack("<I", at + seconds) + packet[4:])
        return other

    def others(self, seconds: int) -> "Packets":
        """As ``later``, of other connections between the same addresses and ports: they have other sequence numbers."""
        other = self.later(seconds)
        for at, packet in enumerate(other.packets):
            numbers = (number + (1 << 30) & 0xFFFFFFFF for number in struct.unpack_from(">II", packet, SEQUENCE))
            other.packets[at] = packet[:SEQUENCE] + struct.pack(">II", *numbers) + packet[SEQUENCE + 8 :]
        return other

    def sides(self) -> tuple["Packets", "Packets"]:
        """What clients sent, and what brokers sent, from the lower port."""
        sides = Packets(self.head), Packets(self.head)
        for packet in self.packets:
            source, target = struct.unpack_from(">HH", packet, SEQUENCE - 4)
            sides[source < target].packets.append(packet)
        return sides

    def with_packets_of(self, other: "Packets") -> "Packets":
        """Both, merged by time."""
        merged = Packets(self.head)
        merged.packets = sorted(self.packets + other.packets, key=lambda packet: struct.unpack_from("<II", packet))
        return merged


def two_days(packets: Packets) -> tuple[bytes, bytes]:
    """A capture in the middle of which a day ends, as two files. An hour later, in the second one, other connections of
    the same clients and ports do the same, with other sequence numbers."""
    [middle] = struct.unpack_from("<I", packets.packets[len(packets.packets) // 2])
    packets = packets.later(-middle % 86_400)
    later = packets.others(3_600)
    days = [struct.unpack_from("<I", packet)[0] // 86_400 for packet in packets.packets]
    split = days.index(days[-1])
    return packets.file(0, split), packets.file(split, len(days)) + b"".join(later.packets)


def packets_of(name: str) -> Packets:
    """The packets of a capture of ``captures/``."""
    data = (CAPTURES / name).read_bytes()
    return Packets(gzip.decompress(data) if name.endswith(".gz") else data)


def cut(packets: Packets, folder: Path, seed: int, *, most: int = 12, overlap: int = 0) -> list[Path]:
    """Cut a capture into 2 to *most* files at random points, each compressed or not; the names do not sort by time.

    *overlap*: packets before and after a part that it has too.
    """
    chance = random.Random(seed)
    count = len(packets.packets)
    points = sorted(chance.sample(range(1, count), min(count - 1, chance.randint(1, most - 1))))
    ranges = list(pairwise([0, *points, count]))
    names = chance.sample(range(1_000, 9_999), len(ranges))
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"part{number}.pcap" for number in names]
    for file, (first, stop) in zip(files, ranges, strict=True):
        content = packets.file(max(0, first - overlap), stop + overlap)
        file.write_bytes(chance.choice(COMPRESSORS)(content))
    return files
