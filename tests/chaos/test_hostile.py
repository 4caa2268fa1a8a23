"""Promises 3, 4, 20, 22, attacks 1 to 5 and 14 to 22: hostile bytes are forwarded unchanged and harm no other connection.

The whole of promise 22: `python -m pytest tests/chaos -m long`.
"""

import functools
import gzip
import itertools
import json
from collections import Counter
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kproxy.proxy.supervisor.child import Activity
from tests.chaos.conftest import FIXED, Record, Scripted, Start
from tests.support.frames import array, batch, heartbeat, heartbeat_answer, message, record, request, string
from tests.support.kafka.processes import eventually, resident_size
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.peers import Peer, answer, answering, client, heartbeats

MIB = 1 << 20


def produce_of(records: bytes, version: int = 3) -> bytes:
    """Produce, acks=1, of *records* to orders-0."""
    body = string(None) + pack(">hi", 1, 1_500)
    return request(0, version, 1, body + array(string("orders") + array(pack(">ii", 0, len(records)) + records)))


def damaged(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


ONE = batch(record(b"key", b"value"), 1)


@functools.cache
def hostile_requests() -> dict[str, bytes]:
    return {
        "attack 1: snappy that says 4 GiB": produce_of(batch(b"\xff\xff\xff\xff\x0f", 1, attributes=2)),
        "attack 2: more topics than bytes": request(3, 4, 1, pack(">i", 0x7FFFFFFF) + b"\0"),
        "attack 3: 2^32 - 1 tags": request(3, 12, 1, b"\1\0\0\xff\xff\xff\xff\x0f", tags=b"\0"),
        "attack 4: a million empty names": request(3, 4, 1, pack(">i", 1_000_000) + bytes(2_000_000) + b"\0"),
        "attack 5: gzip of 256 MiB": produce_of(batch(gzip.compress(bytes(256 * MIB), 1), 1, attributes=1)),
        "attack 14: varints of 11 bytes": produce_of(batch(b"\xff" * 11 + b"\1", 1)),
        "attack 14: a record of negative length": produce_of(batch(b"\x03" + b"\0" * 9, 1)),
        "attack 14: a string of length -2": request(3, 4, 1, pack(">ih", 1, -2) + b"\0"),
        "attack 14: 2^31 - 1 headers": produce_of(batch(record(None, b"v", 0, b"\xfe\xff\xff\xff\x0f"), 1)),
        "attack 15: a CRC that is wrong": produce_of(damaged(ONE, len(ONE) - 1)),
        "attack 15: magic 3": produce_of(ONE[:16] + b"\3" + ONE[17:]),
        "attack 15: the last batch cut short": produce_of(ONE + ONE[:-7]),
        "attack 16: compressed inside compressed": produce_of(
            message(gzip.compress(message(gzip.compress(message(b"v")), attributes=1)), attributes=1), 2
        ),
        "attack 17: two abort markers": produce_of(batch(record(b"\0\0\0\0", b"\0\0\0\0\0\0") * 2, 2, attributes=0x30)),
        "attack 18: a client id of LF, ANSI, NUL": heartbeat(1, client_id="a\nb\x1b[2Jc\0d\u202ee"),
        "attack 18: a client id that is no UTF-8": heartbeat(1, client_id="xy").replace(b"xy", b"\xff\xfe"),
        "attack 18: a client id of 32 KiB": heartbeat(1, client_id="x" * 32_000),
    }


def test_attacks_1_to_5_and_14_to_18_pass_byte_for_byte(
    scripted: Scripted, proxied: Start, record_property: Record, tmp_path: Path
) -> None:
    """As a request and as a response. No process is restarted, and each event stays one line of the log."""
    recorder: list[bytes] = []

    def echo(peer: Peer) -> None:
        while True:
            asked = peer.frame()
            recorder.append(asked)
            peer.send(answer(asked, asked[12:]))

    log = tmp_path / "decoded.jsonl"
    proxy = proxied(scripted(echo).address, analysis={"log": {"path": str(log)}}).analyzing()
    before = proxy.workers(), proxy.named("kproxy-analyzer")
    sizes = {"worker": proxy.resident_size(), "analyzer": resident_size(before[1][0])}
    hostile_ones = hostile_requests()
    for name, hostile in hostile_ones.items():
        with client(proxy.bootstrap()) as one:
            for sent in (heartbeat(2), hostile, heartbeat(2)):
                one.send(sent)
                assert one.frame() == answer(sent, sent[12:]), name
    assert [each for each in recorder if each != heartbeat(2)] == list(hostile_ones.values())

    def logged() -> bool:
        lines = [
            json.loads(line) for line in log.read_text(encoding="utf-8").split("\n")[:-1]
        ]  # the last may be in part
        return Counter(line["event"] for line in lines)["exchange"] == 3 * len(hostile_ones)

    eventually(logged, what="every exchange is one line", patience=300)
    assert (proxy.workers(), proxy.named("kproxy-analyzer")) == before
    record_property("resident bytes grown, worker", proxy.resident_size() - sizes["worker"])
    record_property("resident bytes grown, analyzer", resident_size(before[1][0]) - sizes["analyzer"])


def test_promise_4_others_are_served_while_a_hostile_response_is_decoded(
    scripted: Scripted, proxied: Start, record_property: Record
) -> None:
    """Metadata is held and decoded for its addresses: one client has 200,000 brokers told to it, again and again."""
    brokers = array(*[pack(">i", number) + string("") + pack(">ih", 0, -1) for number in range(200_000)])
    body = pack(">i", 0) + brokers + pack(">h", -1) + pack(">i", -1) + array()

    def hostile(peer: Peer) -> None:
        while True:
            asked = peer.frame()
            peer.send(answer(asked, body) if asked[4:6] == b"\0\3" else answer(asked))

    proxy = proxied(scripted(hostile).address, virtual={"addresses": {"mode": "port"}})
    before = proxy.resident_size()
    ask = request(3, 4, 1, pack(">i", -1) + b"\0")
    for _ in range(5):
        with client(proxy.bootstrap()) as attacker, client(proxy.bootstrap()) as one:
            attacker.send(ask)
            for number in range(500):
                one.send(heartbeat(number))
                assert one.frame() == answer(heartbeat(number))
            attacker.end()
            attacker.swallow()
    grown = proxy.resident_size() - before
    record_property("the loop was late by at most, seconds", proxy.count("kproxy_loop_lag_seconds"))
    record_property("promise 3: resident bytes grown per byte", grown / len(body))
    assert grown < 100 * len(body)


def test_attack_19_brokers_without_end_do_not_take_all_ports(scripted: Scripted, proxied: Start) -> None:
    """Metadata names 500 brokers where 20 are allowed: the others are withheld, and no port is opened for them."""
    brokers = [pack(">i", number) + string(f"10.0.{number >> 8}.{number & 255}") for number in range(500)]
    body = pack(">i", 0) + array(*[each + pack(">ih", 9092, -1) for each in brokers])
    body += pack(">h", -1) + pack(">i", -1) + array()

    def many(peer: Peer) -> None:
        while True:
            asked = peer.frame()
            if asked[4:8] != pack(">hh", 3, 4):
                return
            peer.send(answer(asked, body))

    proxy = proxied(scripted(many).address, virtual={"addresses": {"mode": "port", "most_brokers": 20}})
    (worker,) = proxy.workers()
    before = len(list(Path(f"/proc/{worker}/fd").iterdir()))
    for _ in range(3):
        with client(proxy.bootstrap()) as one:
            one.send(request(3, 4, 1, pack(">i", -1) + b"\0"))
            answered = one.frame()
    assert answered.count(b"10.0.") == 0
    assert len(list(Path(f"/proc/{worker}/fd").iterdir())) <= before + 20 + 4  # and those of the connections just ended
    assert proxy.count("kproxy_withheld_addresses_total") == 3 * 480


FAULTS = ("raises", "hangs", "answers with no verdict", "grows past the cap", "replies to a response")


def test_promise_19_attack_22_a_filter_at_fault(scripted: Scripted, tmp_path: Path) -> None:
    """An observer's faults change nothing; a policy's are answered with UNKNOWN_SERVER_ERROR, and close no connection."""

    def at_fault(name: str, fault: str, fails_open: bool) -> dict[str, Any]:
        use = {"use": "tests.chaos.faulty_filters:Faulty", "with": {"fault": fault, "fails_open": fails_open}}
        return cluster([broker.address], name=name, addresses=FIXED, filters=[use])

    broker = scripted(heartbeats)
    cases = list(itertools.product(FAULTS, (True, False)))
    clusters = [at_fault(f"c{number}", *case) for number, case in enumerate(cases)]
    proxy = Proxy(tmp_path / "proxy", clusters)
    try:
        proxy.start()
        for place, (fault, fails_open) in enumerate(cases):
            for number in range(3):
                with client(proxy.bootstrap(place)) as other, client(proxy.bootstrap(place)) as one:
                    other.send(request(999, 0, 1, b"not the filter's"))
                    assert other.frame() == heartbeat_answer(1), fault
                    one.send(heartbeat(number))
                    assert one.frame() == heartbeat_answer(number, 0 if fails_open else -1), (fault, fails_open)
                    other.send(request(999, 0, 2, b"still served"))
                    assert other.frame() == heartbeat_answer(2), fault
        assert proxy.count("kproxy_filter_faults_total") >= 3 * len(cases)
    finally:
        proxy.close()


@pytest.mark.slow
@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_promise_22_attack_19_names_do_not_become_series(
    scripted: Scripted, proxied: Start, record_property: Record, count: int
) -> None:
    """Names are analyzed or, where the analyzer is behind, counted as left out; a scrape costs less than a second of CPU."""
    proxy = proxied(scripted(answering).address).analyzing()
    for start in range(0, count, 1_000):
        asked = [heartbeat(n, f"group-{n}", client_id=f"client-{n}") for n in range(start, start + 1_000)]
        with client(proxy.bootstrap()) as one:
            one.send(b"".join(asked))
            for each in asked:
                assert one.frame() == answer(each)

    def noted() -> float:
        return proxy.count("kproxy_client_requests_total") + proxy.count("kproxy_exchanges_left_out_total")

    eventually(lambda: noted() >= count, what="all requests are counted, or left out", patience=120)
    before = Activity.of(proxy.process.pid).cpu_s
    shown = proxy.metrics()
    spent = Activity.of(proxy.process.pid).cpu_s - before
    families = Counter(name.partition("{")[0] for name in shown)
    record_property("series of the largest family", families.most_common(1)[0])
    record_property("CPU seconds of a scrape", spent)
    assert spent < 1
    analyzed = proxy.count("kproxy_client_requests_total")
    # An analyzer without CPU time leaves some out
    assert families["kproxy_client_requests_total"] == min(1_000, analyzed)
    assert analyzed < 1_000 or proxy.count("kproxy_client_requests_total", "__other__") == analyzed - 999
    assert max(families.values()) <= 1_000
    assert noted() == count
