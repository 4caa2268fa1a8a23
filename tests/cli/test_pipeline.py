"""From packets to events: Kafka is found by content, the client by what it says, the rest is dropped at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from kproxy.capture import open_capture, read_flows
from kproxy.cli.pipeline import Pipeline
from kproxy.session import Event, Exchange, NotKafka
from tests.support.frames import heartbeat, heartbeat_answer
from tests.support.traffic import CAPTURES

Segment = tuple[bool, bytes]  # from the side with the high port?
HIGH, LOW = ("10.0.0.5", 51_234), ("10.0.0.9", 443)


def write(path: Path, segments: list[Segment], *, syn: bool, low: tuple[str, int] = LOW) -> Path:
    """A capture of one connection between HIGH and *low*, opened by HIGH."""
    packets: list[Any] = []
    sequence = {True: 1000, False: 5000}

    def add(from_high: bool, flags: str, data: bytes = b"") -> None:
        (source, sport), (target, dport) = (HIGH, low) if from_high else (low, HIGH)
        layers = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src=source, dst=target)
        tcp = TCP(sport=sport, dport=dport, flags=flags, seq=sequence[from_high], ack=sequence[not from_high])
        packet = layers / tcp / Raw(data) if data else layers / tcp
        packet.time = 1_700_000_000 + len(packets) / 1000
        packets.append(packet)
        sequence[from_high] += len(data) + ("S" in flags)

    if syn:
        add(True, "S")
        add(False, "SA")
        add(True, "A")
    for from_high, data in segments:
        add(from_high, "PA", data)
    wrpcap(str(path), packets)
    return path


def events(path: Path, numbers_from: int = 0) -> list[Event]:
    with open_capture(path) as capture:
        return list(Pipeline(read_flows(capture), numbers_from=numbers_from))


def conversation(ids: range, *, client_is_high: bool) -> Iterator[Segment]:
    for number in ids:
        yield client_is_high, heartbeat(number)
        yield not client_is_high, heartbeat_answer(number)


def test_kafka_is_found_on_any_port(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", list(conversation(range(3), client_is_high=True)), syn=True)
    found = events(path, numbers_from=10)
    assert [event.correlation_id for event in found if isinstance(event, Exchange)] == [0, 1, 2]
    assert {(e.connection.number, e.connection.client, e.connection.broker) for e in found} == {
        (11, "10.0.0.5:51234", "10.0.0.9:443")
    }
    assert found[0].at == 1_700_000_000_004_000_000  # the fifth packet, in ns


def test_in_the_middle_the_client_is_who_asks(tmp_path: Path) -> None:
    """Ports say nothing here: the one with the low port asks."""
    path = write(tmp_path / "a.pcap", list(conversation(range(20), client_is_high=False)), syn=False)
    found = [event for event in events(path) if isinstance(event, Exchange)]
    assert [event.correlation_id for event in found] == list(range(20))
    assert {event.connection.client for event in found} == {"10.0.0.9:443"}
    assert all(event.response is not None for event in found)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (bytes.fromhex("160301020001"), "tls"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (bytes(200), "unknown"),
    ],
)
@pytest.mark.parametrize("syn", [True, False])
def test_what_is_not_kafka_is_said_once_and_dropped(tmp_path: Path, first: bytes, kind: str, syn: bool) -> None:
    segments = [(True, first), *[(False, bytes(15)), (True, b"and more")] * 30]
    (event,) = events(write(tmp_path / "a.pcap", segments, syn=syn))
    assert isinstance(event, NotKafka)
    assert event.kind == kind
    assert event.what


def test_a_server_that_speaks_first_is_no_broker(tmp_path: Path) -> None:
    segments = [(False, b"SSH-2.0-OpenSSH_9.2\r\n"), (True, b"SSH-2.0-Go\r\n")]
    (event,) = events(write(tmp_path / "a.pcap", segments, syn=True))
    assert isinstance(event, NotKafka)
    assert event.kind == "ssh"


def test_silence_is_nothing(tmp_path: Path) -> None:
    assert events(write(tmp_path / "a.pcap", [], syn=True)) == []


def test_a_capture_that_begins_in_the_middle_is_decoded() -> None:
    found = events(CAPTURES / "12-midstream-start.pcap")
    assert sum(isinstance(event, Exchange) for event in found) == 88
    assert not [event for event in found if isinstance(event, NotKafka)]


def test_the_topic_of_the_metadata_log_has_a_name() -> None:
    found = events(CAPTURES / "10-kraft-interbroker.pcap")
    names = {
        name
        for event in found
        if isinstance(event, Exchange) and event.api_key == 1
        for name in event.topic_names.values()
    }
    assert "__cluster_metadata" in names
