"""Promises 1, 10, 12 and 13, attacks 6, 9, 10 and 13: frames of bad sizes and unknown APIs, and who answers whom.

Requests and responses stay in order, and together, whatever is between them. A million: `python -m pytest tests/chaos -m long`.
"""

import json
import random
import socket
import threading
from pathlib import Path
from struct import pack

import pytest

from tests.chaos.conftest import Record, Scripted, Shared, Start
from tests.support.frames import api_versions, batch, heartbeat, heartbeat_answer, produce, record, request
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import connections_to, eventually
from tests.support.kafka.proxies import Proxy
from tests.support.peers import Peer, Recorder, answer, client, is_answered, size_field
from tests.support.sockets import address, end_offsets

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


OPENED = "kproxy_connections_opened_total"


def random_requests(seed: int, count: int) -> list[bytes]:
    """Of many APIs and versions, known or not, correlation ids from few so that they come twice, a fifth with acks=0."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        number = chance.randrange(-3, 50)
        kind = chance.randrange(5)
        if kind == 0:
            made.append(produce(number, 0))
        elif kind == 1:
            made.append(produce(number, chance.choice((1, -1))))
        elif kind == 2:
            made.append(heartbeat(number, "g" * chance.randrange(300)))
        else:
            api = chance.choice((3, 10, 12, 19, 60, 900, 32_000))
            made.append(request(api, chance.randrange(20), number, chance.randbytes(chance.randrange(200))))
    return made


def pieces(chance: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(len(data) // 700))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if start != end]


def send_in_pieces(peer: Peer, seed: int, data: bytes) -> None:
    for piece in pieces(random.Random(seed), data):
        peer.send(piece)


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_promise_12_never_mispaired(shared: Shared, record_property: Record, count: int) -> None:
    """Answers carry a number of their own: what the client reads is byte for byte what the broker said, in its order."""
    received: list[bytes] = []

    def numbered(peer: Peer) -> None:
        number = 0
        while True:
            asked = peer.frame()
            received.append(asked)
            if is_answered(asked):
                peer.send(answer(asked, pack(">q", number) + bytes(number % 97)))
                number += 1

    proxy = shared(numbered)
    total = 0
    for seed in range(count // 10_000):
        received.clear()
        sent = random_requests(seed, 10_000)
        asked = [each for each in sent if is_answered(each)]
        expected = [answer(each, pack(">q", number) + bytes(number % 97)) for number, each in enumerate(asked)]
        with client(proxy.bootstrap()) as one:
            sending = threading.Thread(target=send_in_pieces, args=(one, seed, b"".join(sent)))
            sending.start()
            assert [one.frame() for _ in expected] == expected
            sending.join()
        assert received == sent
        total += len(sent)
    mispaired = proxy.count("kproxy_mispaired_responses_total")
    record_property("requests", total)
    record_property("wrong pairs", mispaired)
    assert mispaired == 0
    assert proxy.count("kproxy_in_flight_requests") == 0
    assert sum(proxy.count(f"kproxy_{what}_total") for what in ("requests",)) == total


def test_promise_12_the_decoded_log_pairs_as_the_client_does(
    scripted: Scripted, proxied: Start, tmp_path: Path
) -> None:
    """Heartbeats with an error code each, pipelined with Produce acks=0 between: the log has each with its own."""
    codes = [number % 100 for number in range(2_000)]

    def coded(peer: Peer) -> None:
        number = 0
        while True:
            asked = peer.frame()
            if is_answered(asked):
                peer.send(heartbeat_answer(int.from_bytes(asked[8:12], "big"), codes[number]))
                number += 1

    log = tmp_path / "decoded.jsonl"
    proxy = proxied(scripted(coded).address, analysis={"log": {"path": str(log)}}).analyzing()
    sent = b"".join(produce(number, 0) + heartbeat(number) for number in range(len(codes)))
    with client(proxy.bootstrap()) as one:
        one.send(sent)
        for number, code in enumerate(codes):
            assert one.frame() == heartbeat_answer(number, code)

    def logged() -> list[dict[str, object]]:
        lines = [json.loads(line) for line in log.read_text().split("\n")[:-1]]  # the last may be in part
        found = [line for line in lines if line.get("apiName") == "Heartbeat"]
        assert len(found) == len(codes), (len(found), proxy.said())
        return found

    found = eventually(logged, what="all exchanges are logged")
    assert [line["response"]["errorCode"] for line in found] == codes  # type: ignore[index]


ODD = {
    "an unknown id": lambda asked: [answer(heartbeat(777))],
    "one answer twice": lambda asked: [answer(asked[0]), answer(asked[0]), answer(asked[1])],
    "two that changed places": lambda asked: [answer(asked[1]), answer(asked[0])],
}


@pytest.mark.parametrize("kind", ODD)
def test_attack_10_odd_correlation_ids_pass_and_are_counted(shared: Shared, kind: str) -> None:
    asked = [heartbeat(1), heartbeat(2)]
    odd = b"".join(ODD[kind](asked))
    unframed = size_field(-1) + b"anything"
    after = answer(heartbeat(3)) + b"".join(map(answer, asked))

    def script(peer: Peer) -> None:
        peer.exactly(len(asked[0] + asked[1]))
        peer.send(odd)
        peer.exactly(len(unframed))
        peer.send(after)

    proxy = shared(script)
    with client(proxy.bootstrap()) as one:
        one.send(asked[0] + asked[1])
        assert one.exactly(len(odd)) == odd
        one.send(unframed)
        assert one.rest() == after
    assert proxy.count("kproxy_mispaired_responses_total") >= 1 <= proxy.count("kproxy_opaque_connections_total")
    with client(proxy.bootstrap()) as other:  # other connections are not affected
        other.send(asked[0] + asked[1])
        assert other.exactly(len(odd)) == odd


def produce_acks_zero(topic: str, number: int, count: int) -> bytes:
    """Produce v3 with acks=0 of one batch of *count* records."""
    records = batch(b"".join(record(None, b"value", i) for i in range(count)), count)
    named = pack(">h", len(topic)) + topic.encode()
    body = pack(">hhi", -1, 0, 1_500) + pack(">i", 1) + named + pack(">i", 1) + pack(">ii", 0, len(records)) + records
    return request(0, 3, number, body)


def send_and_leave(where: str, topic: str, *, reset: bool) -> None:
    """Ten requests of a thousand records; then FIN, or RST, with no wait for anything."""
    one = Peer(socket.create_connection(address(where), 30))
    one.send(b"".join(produce_acks_zero(topic, number, 1_000) for number in range(10)))
    one.reset() if reset else one.close()


def _lost(cluster: Cluster, topic: str, runs: int, *, reset: bool, proxy: Proxy | None = None) -> int:
    """How many records are not in *topic* when as many connections as *runs* sent theirs: to the broker or to *proxy*."""
    cluster.topic(topic)
    before = connections_to(cluster.open)
    opened = proxy.count(OPENED) if proxy else 0
    for _ in range(runs):
        send_and_leave(proxy.bootstrap() if proxy else cluster.open, topic, reset=reset)
    if proxy:
        eventually(lambda: proxy.count(OPENED) == opened + runs, what="the proxy has accepted all")
        eventually(lambda: proxy.count("kproxy_connections_open") == 0, what="the proxy has passed all on")
    eventually(lambda: connections_to(cluster.open) <= before, what="the broker has read all and closed")
    written = [-1]

    def settled() -> bool:  # what the broker has read it handles in order, but for what its few threads are at
        written.append(sum(end_offsets(cluster.open, topic).values()))
        return written[-1] == written[-2]

    eventually(settled, pause=0.5, what="no more is written")
    return runs * 10_000 - written[-1]


@pytest.mark.slow
@pytest.mark.parametrize("single", [NEWEST], indirect=True)
@pytest.mark.parametrize("runs", [10, pytest.param(100, marks=pytest.mark.long)])
def test_promise_10_attack_9_acks_0_and_close_loses_nothing(
    single: Cluster, proxied: Start, record_property: Record, runs: int
) -> None:
    proxy = proxied(single.open, virtual={"addresses": {"mode": "port"}})
    lost = {
        f"{way}, {end}": _lost(single, f"acks-zero-{runs}-{way}-{end}", runs, reset=end == "RST", proxy=through)
        for way, through in (("direct", None), ("through", proxy))
        for end in ("FIN", "RST")
    }
    record_property("records lost", str(lost))
    assert lost["direct, FIN"] == lost["through, FIN"] == 0
    assert lost["through, RST"] <= max(lost["direct, RST"], 0)


def test_promise_10_a_slow_broker_gets_all_of_it(shared: Shared) -> None:
    """The client has gone with RST or FIN while most of what it sent is still underway."""
    recorder = Recorder()
    proxy = shared(recorder)
    sent = b"".join(produce(number, 0) for number in range(10_000))
    for _ in range(4):
        with client(proxy.bootstrap()) as one:
            one.send(sent)
    assert set(recorder.wait(4)) == {sent}
