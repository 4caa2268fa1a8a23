"""Whole files: the public captures against their manifest, damage at every byte, and memory that does not grow."""

import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
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
from kproxy.capture.reader import (
    BUFFER_SIZE,
    ByteSource,
    Capture,
    PlainSource,
    end_waiting_read,
    open_source,
    see_through,
)
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


@pytest.mark.slow
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


CONTENT = random.Random(1).randbytes(300_000) + bytes(300_000)
PLAIN = CAPTURES / "01-java-produce-consume-group.pcap"


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self.file, self.step = io.BytesIO(data), step

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self.file.readinto(memoryview(buffer)[: self.step])


def read_all(source: ByteSource, size: int = 50_000) -> bytes:
    buffer, parts = bytearray(size), []
    while count := source.readinto(memoryview(buffer)):
        parts.append(bytes(buffer[:count]))
    return b"".join(parts)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


FORMS = [
    CONTENT,
    gzip.compress(CONTENT),
    gzip.compress(CONTENT[:5]) + gzip.compress(CONTENT[5:]) + bytes(1000),
    zstd(CONTENT),
    zstd(CONTENT[:5]) + zstd(CONTENT[5:]),
    bytes.fromhex("502a4d1803000000") + b"abc" + zstd(CONTENT),
]


@pytest.mark.parametrize("step", [7919, 1 << 20])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_content(form: bytes, step: int) -> None:
    assert read_all(see_through(Trickle(form, step), "x")) == CONTENT


def test_one_byte_at_a_time() -> None:
    for form in (CONTENT[:999], gzip.compress(CONTENT[:999]), zstd(CONTENT[:999])):
        assert read_all(see_through(Trickle(form, 1), "x"), size=1) == CONTENT[:999]


def test_nothing_is_nothing() -> None:
    assert read_all(see_through(io.BytesIO(b""), "x")) == b""


@pytest.mark.parametrize("keep", [11, 1000, 200_000])
def test_gzip_that_ends_too_early_gives_what_is_there_and_says_so(keep: int) -> None:
    source, found, buffer = see_through(io.BytesIO(FORMS[1][:keep]), "x.gz"), b"", bytearray(1000)
    with pytest.raises(CaptureError, match=rf"x\.gz: the gzip data ends too early, at byte {keep} of the file"):
        while count := source.readinto(memoryview(buffer)):
            found += buffer[:count]
    assert CONTENT.startswith(found)
    assert len(found) > keep - 1000


@pytest.mark.parametrize("form", [FORMS[1], FORMS[3]])
def test_damage_in_the_compressed_data_is_told(form: bytes) -> None:
    damaged = bytearray(form)
    damaged[4:40] = b"\xff" * 36
    with pytest.raises(CaptureError, match="data is damaged"):
        read_all(see_through(io.BytesIO(bytes(damaged)), "x"))


def test_a_checksum_that_does_not_hold_is_told() -> None:
    damaged = bytearray(FORMS[1])
    damaged[-6] ^= 1
    with pytest.raises(CaptureError, match="incorrect data check"):
        read_all(see_through(io.BytesIO(bytes(damaged)), "x"))


@pytest.mark.parametrize("bomb", [gzip.compress(bytes(64 << 20)), zstd(bytes(64 << 20))])
def test_a_bomb_gives_no_more_than_was_asked_for(bomb: bytes) -> None:
    source, buffer = see_through(io.BytesIO(bomb), "x"), bytearray(4096)
    assert [source.readinto(memoryview(buffer)) for _ in range(3)] == [4096] * 3


def test_a_huge_zstd_window_is_refused() -> None:
    header = (
        bytes.fromhex("28b52ffd") + b"\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00"
    )  # 2 GiB, one empty raw block
    with pytest.raises(CaptureError, match="zstd data is damaged"):
        read_all(see_through(io.BytesIO(header), "x"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"none\.pcap: cannot be opened: No such file"):
        open_source(tmp_path / "none.pcap")
    with pytest.raises(CaptureError, match="cannot be opened"):
        open_source("a\0b")
    with pytest.raises(CaptureError, match="Is a directory"):
        open_source(tmp_path)


def test_standard_input_is_a_stream() -> None:
    program = "from kproxy.capture import open_capture\nprint(len(list(open_capture('-'))))"
    read_end, write_end = os.pipe()
    with (
        subprocess.Popen([sys.executable, "-c", program], stdin=read_end, stdout=subprocess.PIPE) as process,
        os.fdopen(write_end, "wb") as pipe,
    ):
        os.close(read_end)
        pipe.write(gzip.compress(PLAIN.read_bytes()))
        pipe.close()
        assert process.communicate()[0] == b"115\n"  # MANIFEST.jsonl


def test_a_signal_handler_can_end_a_read_that_waits() -> None:
    """The system call is repeated after any other signal handler (PEP 475)."""
    reading, writing = os.pipe()
    before = signal.signal(signal.SIGALRM, lambda number, frame: end_waiting_read(frame))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)  # again and again: the first may come too early
    try:
        with open(reading, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor
            assert PlainSource(pipe, "pipe").readinto(memoryview(bytearray(8))) == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(writing)
