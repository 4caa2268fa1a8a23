"""Connections without a byte: what is said of them, and of which nothing is said. What TCP did is asked of tshark."""

import gzip
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from kproxy.capture import CaptureFile, MergedCapture, open_capture, read_flows
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.session import NotKafka
from tests.conftest import Require
from tests.support.corpus import CAPTURES
from tests.support.sampled import case

SECOND = 1_700_000_000
MACS = {
    "src": "02:00:00:00:00:01",
    "dst": "02:00:00:00:00:02",
}  # else Scapy asks the network for them, for a second each
# at which second, from the client or the broker, flags
SYNS: list[tuple[float, str, str]] = [(0, "C", "S"), (1, "C", "S"), (3, "C", "S"), (7, "C", "S")]
TAKEN: list[tuple[float, str, str]] = [(0, "C", "S"), (0.01, "B", "SA"), (0.02, "C", "A")]
SAID: dict[str, tuple[list[tuple[float, str, str]], int, str | None]] = {
    "nothing answers": (SYNS, 9092, "no answer"),
    "nobody listens": ([(0, "C", "S"), (0.01, "B", "RA")], 9092, "refused"),
    "taken, then ended": ([*TAKEN, (0.03, "B", "FA"), (0.04, "C", "FA")], 9092, "dropped"),
    "taken, then reset": ([*TAKEN, (0.03, "B", "RA")], 9092, "dropped"),
    "nobody listens at a container's port": ([(0, "C", "S"), (0.01, "B", "RA")], 29092, "refused"),
    "another service": ([(0, "C", "S"), (0.01, "B", "RA")], 80, None),
    "a probe that ends": ([*TAKEN, (0.03, "C", "FA"), (0.04, "B", "FA")], 9092, None),
    "a probe that resets": ([*TAKEN[:2], (0.03, "C", "R")], 9092, None),
    "the capture ends": (SYNS[:1], 9092, None),
    "each packet is captured twice": ([(0, "C", "S"), (0.0001, "C", "S")], 9092, None),
    "only the client is captured": ([*SYNS[:2], (1.01, "C", "A"), (9, "C", "FA")], 9092, None),
    "only the broker is captured": ([(0.01, "B", "SA"), (0.03, "B", "FA")], 9092, None),
    "the capture begins later": ([(0.03, "B", "FA"), (0.04, "C", "FA")], 9092, None),
}


def _capture(path: Path, packets: list[tuple[float, str, str]], port: int, *, six: bool = False) -> Path:
    client, broker, layer = ("::1", "::2", IPv6) if six else ("10.0.0.5", "10.0.0.9", IP)
    made: list[Any] = []
    for at, side, flags in packets:
        ends = {"src": client, "dst": broker} if side == "C" else {"src": broker, "dst": client}
        sport, dport = (50_000, port) if side == "C" else (port, 50_000)
        sequence, acknowledged = (1000, 5000) if side == "C" else (5000, 1000)
        tcp = TCP(sport=sport, dport=dport, flags=flags, seq=sequence + ("S" not in flags), ack=acknowledged + 1)
        packet = Ether(**MACS) / layer(**ends) / tcp
        packet.time = SECOND + at
        made.append(packet)
    wrpcap(str(path), made)
    return path


def _attempts(path: Path) -> list[NotKafka]:
    with open_capture(path) as capture:
        return [event for event in FlowEvents(read_flows(capture)) if isinstance(event, NotKafka)]


@pytest.mark.parametrize("six", [False, True])
def test_what_is_said_of_a_connection_without_a_byte(six: bool, tmp_path: Path) -> None:
    for what, (packets, port, kind) in SAID.items():
        with case(what):
            found = _attempts(_capture(tmp_path / "a.pcap", packets, port, six=six))
            assert [event.kind for event in found] == ([] if kind is None else [kind])
            for event in found:
                assert event.at == SECOND * 10**9 and event.connection.tcp is not None
                assert event.connection.tcp.syns == sum(flags == "S" for _, _, flags in packets)


def test_an_attempt_goes_on_from_file_to_file(tmp_path: Path) -> None:
    files = [_capture(tmp_path / f"{n}.pcap", SYNS[n : n + 1], 9092) for n in range(4)]
    assert [_attempts(file) for file in files] == [[]] * 4
    with MergedCapture(
        [CaptureFile((SECOND + int(at)) * 10**9, file) for (at, *_), file in zip(SYNS, files, strict=True)]
    ) as capture:
        (event,) = (each for each in FlowEvents(read_flows(capture)) if isinstance(each, NotKafka))
    assert (event.kind, event.connection.tcp and event.connection.tcp.syns) == ("no answer", 4)


def test_who_tried_and_how_often_is_what_tshark_sees(tmp_path: Path, require: Require) -> None:
    require("tshark", shutil.which("tshark"), "tshark is not installed")
    path = tmp_path / "a.pcapng"
    path.write_bytes(gzip.decompress((CAPTURES / "truth" / "address-behind-firewall.pcapng.gz").read_bytes()))
    fields = [word for name in ("tcp.stream", "ip.src", "tcp.srcport", "tcp.flags") for word in ("-e", name)]
    shown = subprocess.run(
        ["tshark", "-r", str(path), "-T", "fields", *fields], capture_output=True, text=True, check=True
    ).stdout
    streams: dict[str, list[tuple[str, int]]] = {}
    for line in shown.splitlines():
        stream, source, port, flags = line.split("\t")
        streams.setdefault(stream, []).append((f"{source}:{port}", int(flags, 16)))
    silent = {
        packets[0][0]: len(packets)
        for packets in streams.values()
        if len(packets) > 1 and all(flags & 0x12 == 0x02 for _, flags in packets)
    }
    found = {event.connection.client: event for event in _attempts(path)}
    assert silent == {client: event.connection.tcp.syns for client, event in found.items() if event.connection.tcp}
    assert {event.kind for event in found.values()} == {"no answer"}
