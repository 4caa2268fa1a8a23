"""Promises 14 to 17: SIGTERM, reloads, new certificates and options of filters, brokers and our own processes that die.

The long ones: `python -m pytest tests/chaos -m long`.
"""

import os
import re
import signal
import ssl
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

import pytest

from kproxy.protocol.records import Record as WrittenRecord
from kproxy.protocol.records.editing import RecordBatch, write_batches
from tests.chaos.conftest import FIXED, Record, Scripted, Start
from tests.support.certificates import Authority
from tests.support.frames import batch, frame, heartbeat, record, request
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.messages import request_frame
from tests.support.peers import Peer, answer, answering, client
from tests.support.sockets import Wire, end_offsets, metadata


def test_promise_14_what_is_in_flight_is_answered(scripted: Scripted, proxied: Start, record_property: Record) -> None:
    free = threading.Event()
    requests = [heartbeat(number) for number in range(50)]

    def slow(peer: Peer) -> None:
        asked = [peer.frame() for _ in requests]
        free.wait()
        for each in asked:
            peer.send(answer(each))
        peer.swallow()

    proxy = proxied(scripted(slow).address)
    clients = [client(proxy.bootstrap()) for _ in range(10)]
    for one in clients:
        one.send(b"".join(requests))
    eventually(lambda: proxy.count("kproxy_in_flight_requests") == 500, what="all are in flight")
    proxy.process.send_signal(signal.SIGTERM)
    eventually(lambda: proxy.get("/readyz", but=(503,))[0] == 503, what="it says that it is not ready")
    free.set()
    for one in clients:
        assert one.rest() == b"".join(map(answer, requests))
        one.close()
    assert proxy.process.wait(60) == 0
    record_property("requests unanswered", 0)


@pytest.mark.slow
def test_promise_14_it_does_not_wait_for_ever(scripted: Scripted, proxied: Start, record_property: Record) -> None:
    """One request is never answered; an idle connection is closed at once."""
    proxy = proxied(scripted(lambda peer: peer.swallow() and None).address, timeouts={"drain": 2.0})
    with client(proxy.bootstrap()) as waiting, client(proxy.bootstrap()):
        waiting.send(heartbeat(1))
        eventually(lambda: proxy.count("kproxy_in_flight_requests") == 1)
        begun = time.monotonic()
        proxy.process.send_signal(signal.SIGTERM)
        assert waiting.closed()
        status = proxy.process.wait(60)
        record_property("seconds until the exit, with a drain of 2", time.monotonic() - begun)
        assert status == 0


@pytest.mark.slow
def test_promise_14_holds_from_the_first_connection_on(
    scripted: Scripted, tmp_path: Path, record_property: Record
) -> None:
    """SIGTERM comes while the workers forward and the analyzer has not even begun."""
    asked, free = threading.Event(), threading.Event()

    def slow(peer: Peer) -> None:
        request = peer.frame()
        asked.set()
        free.wait()
        peer.send(answer(request))
        peer.swallow()

    proxy = Proxy(tmp_path / "proxy", [cluster([scripted(slow).address], addresses=FIXED)])
    try:
        proxy.begin()
        (analyzer,) = eventually(lambda: proxy.named("kproxy-analyzer"), what="there is an analyzer", pause=0)
        os.kill(analyzer, signal.SIGSTOP)
        with eventually(lambda: client(proxy.bootstrap()), what="a worker accepts", pause=0) as one:
            one.send(heartbeat(1))
            assert asked.wait(60)
            record_property("serving was logged", "serving" in proxy.said())
            proxy.process.send_signal(signal.SIGTERM)
            eventually(lambda: "draining" in proxy.said(), what="it says that it drains")
            os.kill(analyzer, signal.SIGCONT)
            free.set()
            assert one.rest() == answer(heartbeat(1))
        assert proxy.process.wait(60) == 0
    finally:
        free.set()
        proxy.close()


@pytest.mark.slow
def test_promise_14_clients_that_wait_while_the_brokers_are_asked_for_are_not_reset(
    scripted: Scripted, tmp_path: Path
) -> None:
    """SIGTERM comes while a worker waits for the bootstrap broker's Metadata: its clients are in the backlog."""
    asked, over = threading.Event(), threading.Event()

    def silent_first(peer: Peer) -> None:
        if asked.is_set():
            return answering(peer)
        peer.frame()
        asked.set()
        over.wait()

    virtual = cluster([scripted(silent_first).address], addresses={"mode": "port"})
    proxy = Proxy(tmp_path / "proxy", [virtual], timeouts={"connect": "1h", "drain": "1h"})
    try:
        proxy.begin()
        with eventually(lambda: client(proxy.bootstrap()), what="a worker listens", pause=0) as one:
            assert asked.wait(60)
            one.send(heartbeat(1) + heartbeat(2))
            assert "serving" not in proxy.said()
            proxy.process.send_signal(signal.SIGTERM)
            one.socket.settimeout(60)
            assert one.socket.recv(1) == b""  # an orderly end: it may ask another proxy, which a reset does not tell
        assert proxy.process.wait(60) == 0
    finally:
        over.set()
        proxy.close()


MOST_IN_FLIGHT = 100  # requests of a producer


def produce_one(topic: str, number: int) -> bytes:
    """Produce v3, acks=all, one record."""
    records = batch(record(None, str(number).encode()), 1)
    named = pack(">h", len(topic)) + topic.encode()
    body = pack(">hhi", -1, -1, 10_000) + pack(">i", 1) + named + pack(">i", 1) + pack(">ii", 0, len(records)) + records
    return request(0, 3, number, body)


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_promise_14_no_acknowledged_record_is_lost_and_none_written_is_unacknowledged(
    single: Cluster, proxied: Start, record_property: Record
) -> None:
    """Four producers with acks=all, pipelining, while SIGTERM comes: the broker has what it acknowledged to them.

    As real producers do they wait for answers when many are missing: what is in flight can be answered within the drain time.
    """
    topic = single.topic("drained")
    proxy = proxied(single.open, virtual={"addresses": {"mode": "port"}})
    acknowledged: Counter[int] = Counter()

    def produce(start: int) -> None:
        may_send = threading.Semaphore(MOST_IN_FLIGHT)
        ended = threading.Event()
        with client(proxy.bootstrap()) as one:

            def read() -> None:
                try:
                    while True:
                        response = one.frame()
                        assert unpack_from(">h", response, 8 + 4 + 2 + len(topic) + 4 + 4)[0] == 0, response
                        acknowledged[unpack_from(">i", response, 4)[0]] += 1
                        may_send.release()
                except (EOFError, ConnectionError):
                    pass
                finally:
                    ended.set()
                    may_send.release()

            reading = threading.Thread(target=read)
            reading.start()
            try:
                for number in count(start):
                    may_send.acquire()
                    if ended.is_set():
                        break
                    one.send(produce_one(topic, number))
            except ConnectionError:
                pass
            reading.join()

    producers = [threading.Thread(target=produce, args=(start * 10_000_000,)) for start in range(4)]
    for each in producers:
        each.start()
    eventually(lambda: len(acknowledged) > 1_000, what="a thousand are acknowledged")
    proxy.process.send_signal(signal.SIGTERM)
    status = proxy.process.wait(60)
    for each in producers:
        each.join(60)
    record_property("acknowledged", len(acknowledged))
    assert status == 0
    assert set(acknowledged.values()) == {1}
    assert sum(end_offsets(single.open, topic).values()) == len(acknowledged)


@pytest.mark.slow
def test_promise_14_a_sidecar_outlives_its_application(scripted: Scripted, proxied: Start) -> None:
    proxy = proxied(scripted(answering).address, options=["--outlive"])
    with client(proxy.bootstrap()) as application:
        application.send(heartbeat(1))
        assert application.frame() == answer(heartbeat(1))
        proxy.process.send_signal(signal.SIGTERM)
        eventually(lambda: "going on" in proxy.said(), what="it says that it goes on")
        for number in range(100):
            application.send(heartbeat(number))
            assert application.frame() == answer(heartbeat(number))
        with client(proxy.bootstrap()) as more:  # an application connects to brokers as it needs them
            more.send(heartbeat(3))
            assert more.frame() == answer(heartbeat(3))
        assert proxy.running
    assert proxy.process.wait(60) == 0


@pytest.mark.parametrize("connections", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_promise_15_a_reload_refuses_no_connection(
    scripted: Scripted, proxied: Start, record_property: Record, connections: int
) -> None:
    proxy = proxied(scripted(answering).address)
    over = threading.Event()
    reloads = [0]

    def reload() -> None:
        while not over.is_set():
            proxy.config["timeouts"] = {"idle": 700.0 + reloads[0] % 7}
            proxy.write()
            proxy.process.send_signal(signal.SIGHUP)
            reloads[0] += 1
            over.wait(0.05)

    reloading = threading.Thread(target=reload)
    reloading.start()
    refused = 0
    try:
        with client(proxy.bootstrap()) as steady:
            for number in range(connections):
                try:
                    with client(proxy.bootstrap()) as one:
                        one.send(heartbeat(number))
                        assert one.frame() == answer(heartbeat(number))
                except (ConnectionError, EOFError):
                    refused += 1
                if number % 100 == 0:
                    steady.send(heartbeat(number))
                    assert steady.frame() == answer(heartbeat(number))
    finally:
        over.set()
        reloading.join()
    record_property("connections, refused, reloads", (connections, refused, reloads[0]))
    assert refused == 0
    assert reloads[0] > 1
    assert "mistake" not in proxy.said()


MISTAKES = ("clusters: [", '{"clusters": [], "nonsense": 1}', "!!python/object/apply:os.system ['true']", "")


def test_promise_15_a_bad_configuration_keeps_the_old_one(scripted: Scripted, proxied: Start) -> None:
    proxy = proxied(scripted(answering).address)
    with client(proxy.bootstrap()) as steady:
        for count, text in enumerate(MISTAKES, 1):
            proxy.file.write_text(text, encoding="utf-8")
            proxy.process.send_signal(signal.SIGHUP)
            eventually(lambda count=count: proxy.log.read_text().count("before stays") >= count, what="it says why")
            steady.send(heartbeat(2))
            assert steady.frame() == answer(heartbeat(2))
        with client(proxy.bootstrap()) as fresh:
            fresh.send(heartbeat(3))
            assert fresh.frame() == answer(heartbeat(3))
        proxy.write()  # and a good one is taken again
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: "was taken" in proxy.said(), what="the good one is taken")


@pytest.mark.slow
@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_promise_15_brokers_have_the_same_ports_after_a_restart(single: Cluster, proxied: Start) -> None:
    """Kroxylicious #416: who remembers an address from before finds it served as soon as anything is."""
    proxy = proxied(single.open, virtual={"addresses": {"mode": "port"}})
    before = metadata(proxy.bootstrap()).brokers
    for _ in range(2):
        proxy.stop()
        proxy.start()
        with Wire(before[1]) as remembered:
            remembered.ask(18, 0, b"")
        assert metadata(proxy.bootstrap()).brokers == before


def serial_number(address: str, ca: str) -> str:
    """Of the certificate that a client is shown; it connects and asks something."""
    context = ssl.create_default_context(cafile=ca)
    with Wire(address, tls=context) as wire:
        wire.ask(12, 0, b"\0\1g\0\0\0\5\0\1m")
        shown = wire.socket.getpeercert()  # type: ignore[attr-defined]
        return str(shown["serialNumber"])


def test_promise_16_a_new_certificate_drops_no_connection(
    scripted: Scripted, proxied: Start, tmp_path: Path, record_property: Record
) -> None:
    authority = Authority("proxy", tmp_path / "pki")
    certificate, key = authority.issue_for("kproxy")
    tls = {"certificate": str(certificate), "key": str(key)}
    proxy = proxied(scripted(answering).address, virtual={"addresses": {"mode": "fixed"}, "listener_tls": tls})
    context = ssl.create_default_context(cafile=authority.ca)
    before = serial_number(proxy.bootstrap(), authority.ca)
    with Wire(proxy.bootstrap(), tls=context) as steady:
        steady.ask(12, 0, b"\0\1g\0\0\0\5\0\1m")
        key.write_text("no key", encoding="utf-8")
        eventually(lambda: "does not contain a private key" in proxy.said(), what="it says why")
        assert serial_number(proxy.bootstrap(), authority.ca) == before
        for _ in range(2):
            begun = time.monotonic()
            authority.issue_for("kproxy")
            tries = [before]
            while tries[-1] == before:
                assert time.monotonic() - begun < 60, proxy.said()
                tries.append(serial_number(proxy.bootstrap(), authority.ca))
            record_property("seconds, handshakes until the new one", (time.monotonic() - begun, len(tries)))
            before = tries[-1]
            steady.ask(12, 0, b"\0\1g\0\0\0\5\0\1m")
    assert proxy.count("kproxy_tls_handshake_failures_total") == 0


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_without_the_analyzer_traffic_goes_on(
    scripted: Scripted, proxied: Start, record_property: Record, kill: signal.Signals
) -> None:
    proxy = proxied(scripted(answering).address, analysis={"ring_size": 1 << 20}).analyzing()
    (analyzer,) = proxy.named("kproxy-analyzer")
    with client(proxy.bootstrap()) as one:

        def ask(requests: int) -> None:
            for number in range(requests):
                one.send(heartbeat(number, "g" * 10_000))
                assert one.frame() == answer(heartbeat(number, "g" * 10_000))

        ask(100)
        os.kill(analyzer, kill)
        begun = time.monotonic()
        ask(500)  # more than the ring holds
        if kill == signal.SIGKILL:
            eventually(lambda: proxy.named("kproxy-analyzer"), what="there is another")
            assert proxy.named("kproxy-analyzer") != [analyzer]
        else:
            eventually(lambda: proxy.count("kproxy_tap_dropped_bytes_total") > 0, what="drops are counted")
            os.kill(analyzer, signal.SIGCONT)
        analyzed = proxy.count("kproxy_analyzed_frames_total")

        def analyzes_again() -> bool:
            ask(10)  # an analyzer that has just started does not get what passed before
            return proxy.count("kproxy_analyzed_frames_total") > analyzed

        eventually(analyzes_again, what="frames are analyzed again")
        record_property("seconds until it is back", time.monotonic() - begun)
        record_property("bytes it did not get", proxy.count("kproxy_tap_dropped_bytes_total"))


TOGETHER, TURNS, CONNECTIONS = 20, 60, 3
PRODUCED = b"\0\1" + bytes(4) + b"\0"  # of version 9: no tags, no topics, throttle_time_ms, no tags


def filters(run: int) -> list[dict[str, Any]]:
    """A chain whose every option changes from run to run."""
    rule = {"when": f'topic.startsWith("secret-{run}")', "name": f"run {run}"}
    limit = {"by": "client_id", "produce_bytes": 1_000_000_000 + run, "requests": 1_000_000 + run}
    mask = {"rules": [{"topics": [f"people-{run}"], "fields": [f"$.a{run}"]}]}
    return [
        {"use": "headers", "with": {"fixed": {"run": str(run)}, "origin": None}},
        {"use": "deny", "with": {"rules": [rule]}},
        {"use": "throttle", "with": {"limits": [limit], "burst": 10.0 + run}},
        {"use": "mask", "with": mask},
    ]


def produce(number: int) -> bytes:
    records = write_batches([RecordBatch([WrittenRecord(value=b"%d" % number)])])
    topic = {"name": "orders", "partition_data": [{"index": 0, "records": records}]}
    return request_frame("ProduceRequest", 9, correlation_id=number, acks=-1, topic_data=[topic])


@pytest.mark.slow
def test_options_that_change_under_load_lose_no_exchange(scripted: Scripted, proxied: Start) -> None:
    runs: list[bytes] = []

    def producing(peer: Peer) -> None:
        while True:
            asked = peer.frame()
            found = re.search(rb"\x06run.([0-9]+)", asked)  # the header: zigzag size, name, size, value
            assert found is not None
            runs.append(found[1])
            peer.send(frame(asked[8:12] + PRODUCED))

    proxy = proxied(scripted(producing).address, virtual={"addresses": FIXED, "filters": filters(0)})
    over, reloads = threading.Event(), [0]

    def reload() -> None:
        while not over.wait(0.2):
            reloads[0] += 1
            proxy.config["clusters"][0]["filters"] = filters(reloads[0])
            proxy.write()
            proxy.process.send_signal(signal.SIGHUP)

    reloading = threading.Thread(target=reload)
    reloading.start()
    try:
        turn = 0
        while turn < TURNS or (len(set(runs)) < 3 and turn < 100 * TURNS):
            peers = [client(proxy.bootstrap()) for _ in range(CONNECTIONS)]
            for peer in peers:
                peer.send(b"".join(produce(number) for number in range(TOGETHER)))
            for peer in peers:
                assert [peer.frame() for _ in range(TOGETHER)] == [
                    frame(pack(">i", number) + PRODUCED) for number in range(TOGETHER)
                ]
                peer.socket.close()
            turn += 1
    finally:
        over.set()
        reloading.join()
    assert len(set(runs)) >= 3
    assert len(runs) == turn * CONNECTIONS * TOGETHER
    assert "mistake" not in proxy.said()
    assert proxy.count("kproxy_filter_faults_total") == 0
