"""Kafka inside TLS, from the packets to the events."""

from pathlib import Path

import pytest

from kproxy.capture import open_capture, read_flows
from kproxy.capture.tls import KeyLog
from kproxy.output.tls import JOINED_LATE_HINT, KEYS_HINT
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.pipeline.summary import Summary
from kproxy.pipeline.tls_flow import Secrets, begins_tls, is_client_hello
from kproxy.session import Event, Exchange, Gap, NotKafka, Tls
from tests.pipeline.test_flow_reader import write
from tests.support.frames import heartbeat, heartbeat_answer
from tests.support.secrets_block import without_secrets
from tests.support.tls import CLIENT, REQUEST, RESPONSE, Pair, Setup, log_of
from tests.support.traffic import CAPTURES

DSB = CAPTURES / "07-tls13-dsb.pcapng"


def talk() -> Pair:
    pair = Pair(Setup(client_certificate=True, ask_certificate=True)).handshake()
    for number in range(3):
        pair.send(REQUEST, heartbeat(number))
        pair.send(RESPONSE, heartbeat_answer(number))
    return pair


def events(path: Path, keylog: KeyLog | None = None) -> list[Event]:
    with open_capture(path) as capture:
        return list(FlowEvents(read_flows(capture), keylog=keylog))


def segments(pair: Pair) -> list[tuple[bool, bytes]]:
    return [(direction is REQUEST, data) for direction, data in pair.chunks]


@pytest.mark.parametrize("syn", [True, False])
def test_kafka_inside_tls_is_read(tmp_path: Path, syn: bool) -> None:
    pair = talk()
    path = write(tmp_path / "a.pcap", segments(pair), syn=syn)
    found = events(path, log_of(pair.keylog))
    exchanges = [event for event in found if isinstance(event, Exchange)]
    assert [exchange.correlation_id for exchange in exchanges] == [0, 1, 2]
    assert all(exchange.response is not None for exchange in exchanges)
    assert isinstance(found[-1], Tls)
    for event in found:
        assert event.connection.client == "10.0.0.5:51234"
        assert event.connection.tls is not None
        assert event.connection.tls.client_certificate == CLIENT


def test_without_keys_one_event_says_what_it_is(tmp_path: Path) -> None:
    (event,) = events(write(tmp_path / "a.pcap", segments(talk()), syn=True))
    assert isinstance(event, NotKafka)
    assert event.kind == "tls"
    assert "TLS 1.3" in event.what
    assert "server name broker.test" in event.what


def test_in_the_middle_of_it_even_the_client_is_unknown(tmp_path: Path) -> None:
    pair = talk()
    (event,) = events(write(tmp_path / "a.pcap", segments(pair)[3:], syn=False), log_of(pair.keylog))
    assert isinstance(event, NotKafka)
    assert "the ClientHello is not in the capture" in event.what
    assert "--keylog" not in event.what and event.what.endswith(JOINED_LATE_HINT)
    summary = Summary()
    summary.write(event, None)
    assert any("joins late" in line for line in summary.lines())
    assert not any(KEYS_HINT in line for line in summary.lines())


def test_a_lost_packet_costs_the_exchange_it_hit(tmp_path: Path) -> None:
    pair = talk()
    lost = next(
        n for n, (direction, data) in enumerate(pair.chunks) if n > 2 and direction is RESPONSE and len(data) < 50
    )
    chunks = segments(pair)
    path = write(tmp_path / "a.pcap", chunks, syn=True)
    whole = [event.correlation_id for event in events(path, log_of(pair.keylog)) if isinstance(event, Exchange)]
    assert whole == [0, 1, 2]
    from scapy.utils import rdpcap, wrpcap  # noqa: PLC0415

    packets = list(rdpcap(str(path)))
    del packets[3 + lost]
    wrpcap(str(path), packets)
    found = events(path, log_of(pair.keylog))
    answered = [e.correlation_id for e in found if isinstance(e, Exchange) and e.response is not None]
    assert answered == [1, 2]
    assert any(isinstance(event, Gap) for event in found)


def test_something_else_inside_tls_is_said_to_be_that(tmp_path: Path) -> None:
    pair = Pair().handshake()
    pair.send(REQUEST, b"GET / HTTP/1.1\r\n\r\n")
    found = events(write(tmp_path / "a.pcap", segments(pair), syn=True), log_of(pair.keylog))
    assert [type(event) for event in found] == [NotKafka, Tls]
    assert isinstance(found[0], NotKafka)
    assert found[0].kind == "http"


def test_secrets_of_the_capture_come_before_those_of_the_file() -> None:
    with open_capture(DSB) as capture:
        secrets = Secrets(None)
        secrets.read_from(capture)
        keylog = KeyLog(secrets.more)
        found = list(FlowEvents(read_flows(capture), keylog=keylog))
    assert sum(isinstance(event, Exchange) for event in found) == 24
    assert sum(isinstance(event, Tls) for event in found) == 5


def test_the_capture_without_its_secrets_needs_the_file(tmp_path: Path) -> None:
    capture, keys = without_secrets(DSB.read_bytes())
    path = tmp_path / "bare.pcapng"
    path.write_bytes(capture)
    assert {event.kind for event in events(path) if isinstance(event, NotKafka)} == {"tls"}
    assert sum(isinstance(event, Exchange) for event in events(path, log_of(keys))) == 24


def test_beginnings() -> None:
    pair = talk()
    assert begins_tls(pair.chunks[0][1])
    assert is_client_hello(pair.chunks[0][1])
    assert not is_client_hello(pair.chunks[1][1])
    assert not begins_tls(b"\x15\x03\x03\x00\x02\x02\x28")  # an alert alone
