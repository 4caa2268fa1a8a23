"""Promises 1 and 13, attacks 6 and 13: bad sizes, unexpected answers, unknown APIs."""

from collections.abc import Callable
from struct import pack

import pytest

from tests.chaos.conftest import Shared
from tests.chaos.peers import Peer, Recorder, answer, client, size_field
from tests.support.frames import (
    api_versions,
    heartbeat,
    produce,
    request,
)
from tests.support.kafka.processes import eventually

Record = Callable[[str, object], None]
MIB = 1 << 20
MOST = 104_857_600

BAD_STARTS = {
    "2^31 - 1": size_field(0x7FFFFFFF),
    "-2^31": size_field(0x80000000),
    "-1": size_field(-1),
    **{str(size): size_field(size) + b"\0" * size for size in range(8)},
    "one more than the most": size_field(MOST + 1),
    "TLS ClientHello": bytes.fromhex("16030100c8010000c40303"),
    "TLS alert": bytes.fromhex("15030100020228"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
}


def test_promise_1_attack_6_a_bad_size_costs_nothing(shared: Shared, record_property: Record) -> None:
    recorder = Recorder()
    proxy = shared(recorder)
    for name, start in BAD_STARTS.items():
        before = proxy.resident_size()
        for _ in range(20):
            with client(proxy.bootstrap()) as one:
                one.send(start)
                assert one.closed(), name
        grown = proxy.resident_size() - before
        record_property(f"resident bytes after 20 times {name}", grown)
        assert grown < MIB, name
    count = 20 * len(BAD_STARTS)
    causes = {cause: proxy.count("kproxy_connections_closed_total", f'"{cause}"') for cause in CAUSES}
    record_property("causes", str(causes))
    assert sum(causes.values()) == count
    assert set(recorder.wait(count)) == {b""}


CAUSES = ("bad_frame", "not_kafka", "frame_too_big")


def test_promise_1_a_big_size_reserves_nothing(shared: Shared, record_property: Record) -> None:
    """The biggest frame there may be is announced on a hundred connections, and nothing of it sent but the header."""
    proxy = shared(Recorder())
    start = size_field(MOST) + produce(1, 1)[4:]
    before = proxy.resident_size()
    clients = [client(proxy.bootstrap()) for _ in range(100)]
    for one in clients:
        one.send(start)
    eventually(lambda: proxy.count("kproxy_bytes_total", "request") == 100 * len(start), what="all starts have passed")
    grown = proxy.resident_size() - before
    record_property("resident bytes of 100 connections", grown)
    for one in clients:
        one.close()
    assert grown < 4 * MIB


@pytest.mark.parametrize(
    "body",
    {
        "KIP-511: version 0 with error 35": pack(">hi", 35, 1) + pack(">hhh", 18, 0, 2),
        "librdkafka's mock: an error and nothing else": pack(">h", 35),
        "cut short": pack(">hi", 0, 60) + pack(">hhh", 0, 0, 9),
        "nothing at all": b"",
        "more than there should be": pack(">hi", 0, 0) + b"\xff" * 300,
    }.values(),
)
def test_attack_13_any_answer_to_api_versions_passes_unchanged(shared: Shared, body: bytes) -> None:
    def odd(peer: Peer) -> None:
        while True:
            peer.send(answer(peer.frame(), body))

    proxy = shared(odd)
    with client(proxy.bootstrap()) as one:
        one.send(api_versions(7))
        assert one.frame() == answer(api_versions(7), body)
        one.send(heartbeat(8))
        assert one.frame() == answer(heartbeat(8), body)


def test_promise_13_unknown_apis_and_versions_pass_and_are_counted(shared: Shared) -> None:
    recorder = Recorder()
    proxy = shared(recorder)
    sent = [request(999, 0, 1, b"future"), request(12, 77, 2, b"\0\1\2"), request(-3, -5, 3, b""), heartbeat(4)]
    with client(proxy.bootstrap()) as one:
        one.send(b"".join(sent))
        one.end()
        (received,) = recorder.wait()
    assert received == b"".join(sent)
    assert proxy.count("kproxy_requests_total", 'api="other"') == 2
    assert proxy.count("kproxy_requests_total", 'api="Heartbeat"', 'version="other"') == 1
