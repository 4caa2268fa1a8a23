"""Whole files: the public captures against their manifest, damage at every byte, and memory that does not grow."""

import gzip
import json
import random
import tracemalloc
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from kproxy.capture import Closed, Data, Gap, Opened, open_capture, read_flows
from kproxy.capture.files import see_through
from kproxy.capture.reader import BUFFER_SIZE, Capture
from kproxy.errors import CaptureError
from tests.support.built_captures import CAPTURES, block, enhanced, interface, kafka_like, pcap, section, streams

MANIFEST = [json.loads(line) for line in (CAPTURES / "MANIFEST.jsonl").read_text().splitlines()]
CONVERSATION = kafka_like(exchanges=3)
FILE = pcap(CONVERSATION.packets)
NG_FILE = section() + interface() + b"".join(enhanced(p.data, p.time_ns // 1000) for p in CONVERSATION.packets)


class Memory:
    """A file in memory, as open_source would give it."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)

    def readinto(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self.data))
        buffer[:count] = self.data[:count]
        self.data = self.data[count:]
        return count

    def close(self) -> None:
        pass


def in_memory(data: bytes) -> Capture:
    return Capture(see_through(Memory(data), "x"), "x")


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_public_captures_hold_the_connections_of_the_manifest(entry: dict[str, Any]) -> None:
    with open_capture(CAPTURES / entry["file"]) as capture:
        items = list(read_flows(capture))
    kinds = Counter(type(item) for item in items)
    transport = entry["transport"]
    assert capture.damage is None
    assert capture.counters.packets == transport["packets"]
    assert kinds[Opened] == kinds[Closed] == transport["connections"]
    assert kinds[Gap] == transport["streams_with_gap"] == 0
    ports = set(entry["ports"])
    opened = [item.flow for item in items if isinstance(item, Opened)]
    assert {int(flow.server.rsplit(":", 1)[1]) for flow in opened} <= ports
    assert capture.flows is not None and capture.flows.passed_over == {}


def by_sequence_number(path: Path) -> dict[tuple[str, int], bytes]:
    """Each direction's bytes put where its sequence numbers say, first wins: what reassembly must come to."""
    starts: dict[tuple[str, int], int] = {}
    placed: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    with open_capture(path) as capture:
        for packet in capture:
            ip = Ether(packet.data)[IP]
            tcp = ip[TCP]
            name = (f"{ip.src}:{tcp.sport}", tcp.dport)
            if "S" in tcp.flags:
                starts[name] = tcp.seq + 1
            payload = bytes(tcp.payload)[: ip.len - ip.ihl * 4 - tcp.dataofs * 4]
            for i, byte in enumerate(payload):
                placed[name].setdefault((tcp.seq + i - starts[name]) % 2**32, byte)
    return {name: bytes(bytes_[i] for i in range(len(bytes_))) for name, bytes_ in placed.items()}


def test_the_lossy_capture_comes_out_whole() -> None:
    path = CAPTURES / "11-lossy-network.pcap"
    expected = by_sequence_number(path)
    found: dict[tuple[str, int], bytes] = defaultdict(bytes)
    with open_capture(path) as capture:
        for item in read_flows(capture):
            if isinstance(item, Data):
                ends = (item.flow.client, item.flow.server)
                source, target = ends if item.direction == 0 else ends[::-1]
                found[source, int(target.rsplit(":", 1)[1])] += item.data
    assert found == expected


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", ["11-lossy-network.pcap", "05-admin.pcap", "01-java-produce-consume-group.pcap"])
def test_a_real_capture_shuffled_and_duplicated_gives_the_same_streams(name: str, seed: int) -> None:
    with open_capture(CAPTURES / name) as capture:
        packets = list(capture)
    rng = random.Random(seed)
    shuffled = packets + rng.sample(packets, len(packets) // 10)
    rng.shuffle(shuffled)
    ordered = sorted(streams(read_flows(in_memory(pcap(packets)))))
    assert sorted(streams(read_flows(in_memory(pcap(shuffled))))) == ordered


@pytest.mark.parametrize("file", [FILE, NG_FILE])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_compressed_or_not_it_is_the_same_capture(file: bytes, pack: type[bytes], tmp_path: Path) -> None:
    (tmp_path / "any.name").write_bytes(pack(file))
    with open_capture(tmp_path / "any.name") as capture:
        assert streams(read_flows(capture)) == [tuple(CONVERSATION.sent)]
        assert capture.damage is None
        assert capture.format == ("pcap" if file is FILE else "pcapng")
        assert capture.position == capture.counters.file_bytes == len(file)


@pytest.mark.parametrize("file", [FILE, NG_FILE])
def test_stopped_it_ends_as_if_the_file_did(file: bytes) -> None:
    copies = 3 * BUFFER_SIZE // len(file) + 1
    capture = in_memory(file + file[24:] * copies if file is FILE else file * copies)
    packets = []
    for packet in capture:
        packets.append(packet)
        capture.stop()
    assert 0 < capture.position < capture.counters.file_bytes
    whole = file + file[24:] * copies if file is FILE else file * copies
    assert packets == list(in_memory(whole[: capture.position]))
    assert capture.damage is None


@pytest.mark.parametrize("file", [FILE, NG_FILE])
def test_cut_at_any_byte_everything_before_is_given_and_the_place_said(file: bytes) -> None:
    whole = list(in_memory(file))
    for size in range(0, len(file), 13):
        try:
            capture = in_memory(file[:size])
        except CaptureError as error:
            assert size < (24 if file is FILE else 12)
            assert "byte " in str(error)
            continue
        packets = list(capture)
        assert packets == whole[: len(packets)]
        if capture.damage is None:
            assert capture.position == size
        else:
            assert f"x: byte {capture.position}: the file ends within a packet or block" in str(capture.damage)
            assert capture.position < size


def test_damaged_in_the_middle_everything_before_is_given() -> None:
    file = bytearray(FILE)
    file[24 + 16 + len(CONVERSATION.packets[0].data) + 8] = 0xFF
    file[24 + 16 + len(CONVERSATION.packets[0].data) + 11] = 0xFF
    capture = in_memory(bytes(file))
    items = list(read_flows(capture))
    assert [type(item) for item in items] == [Opened, Closed]
    assert "x: byte 94: a packet of 4278190335 bytes" in str(capture.damage)


def test_damage_of_the_compression_is_the_capture_s() -> None:
    capture = in_memory(gzip.compress(FILE)[:-20])
    packets = list(capture)
    assert packets == list(in_memory(FILE))[: len(packets)]
    assert "gzip data ends too early" in str(capture.damage)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "x: byte 0: the file is empty"),
        (b"GET / HTTP/1.1\r\n\r\n12345678", "neither pcap nor pcapng .it begins with 47 45 54 20."),
        (FILE[:20], "byte 20: the file ends within its header"),
        (NG_FILE[:8], "byte 8: the file ends within its header"),
        (gzip.compress(b"x" * 100, mtime=0), "byte 0: neither pcap nor pcapng"),
        (gzip.compress(FILE, mtime=0)[:12], "gzip data ends too early"),
    ],
)
def test_what_is_no_capture_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        in_memory(data)


def test_a_block_larger_than_the_buffer_is_read() -> None:
    large = block(0xBAD, bytes(5 << 20))
    capture = in_memory(section() + interface() + large + enhanced(b"after"))
    assert [packet.data for packet in capture] == [b"after"]
    assert capture.damage is None


class Endless:
    """A capture of one connection that never stops sending, until it has given *limit* bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.given, self.rest = limit, 0, FILE[:24]
        head, *_ = (p for p in CONVERSATION.packets if len(p.data) > 1000)
        self.frame = bytearray(head.data)
        self.sequence = 1

    def readinto(self, buffer: memoryview) -> int:
        while len(self.rest) < 200_000 and self.given < self.limit:
            self.frame[38:42] = self.sequence.to_bytes(4, "big")
            self.sequence = (self.sequence + len(self.frame) - 54) % 2**32
            size = len(self.frame).to_bytes(4, "little")
            self.rest += bytes(8) + size + size + bytes(self.frame)
            self.given += len(self.frame)
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count

    def close(self) -> None:
        pass


@pytest.mark.parametrize("limit", [4 << 20, 64 << 20])
def test_memory_does_not_grow_with_the_file(limit: int) -> None:
    tracemalloc.start()
    try:
        total = sum(len(item.data) for item in read_flows(Capture(Endless(limit), "x")) if isinstance(item, Data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total > limit * 0.9
    assert peak < 6 * BUFFER_SIZE


@settings(max_examples=settings.default.max_examples * 4)
@given(st.data())
def test_any_damage_gives_items_and_at_most_a_damage(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from([FILE, NG_FILE])))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=5))
    try:
        capture = in_memory(bytes(damaged))
    except CaptureError:
        return
    items = list(read_flows(capture))
    assert capture.damage is None or isinstance(capture.damage, CaptureError)
    assert sum(isinstance(item, Opened) for item in items) == sum(isinstance(item, Closed) for item in items)


@settings(max_examples=settings.default.max_examples * 4)
@given(st.sampled_from([b"", FILE[:24], NG_FILE[:48]]), st.binary(max_size=300))
def test_any_bytes_are_a_capture_or_refused(head: bytes, data: bytes) -> None:
    try:
        capture = in_memory(head + data)
    except CaptureError:
        return
    list(read_flows(capture))
