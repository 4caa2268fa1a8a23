"""The decoded log and the counts beside it agree to the last request, whatever becomes of the analyzer."""

import json
import os
import random
import signal
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.conftest import Record, Scripted, Start
from tests.support.certificates import Authority
from tests.support.frames import heartbeat, produce
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.peers import answer, answering, client, is_answered
from tests.support.sampled import sampled
from tests.support.sockets import Wire


class Load:
    """Clients that send requests of all sizes as fast as they are answered, each counting its own."""

    def __init__(self, connect: Callable[[], Any], clients: int) -> None:
        self._connect = connect
        self.sent = [0] * clients
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        try:
            with self._connect() as peer:
                while not self._stop.is_set():
                    self._batch(number, peer, chance)
        except Exception as error:
            self.faults.append(repr(error))

    def _batch(self, number: int, peer: Any, chance: random.Random) -> None:
        requests = []
        for _ in range(chance.randrange(1, 20)):
            self.sent[number] += 1
            size = chance.choice((1, 100, 1_000, 30_000))
            acks = chance.randrange(5)
            requests.append(heartbeat(self.sent[number], "g" * size) if acks else produce(self.sent[number], 0))
        peer.send(b"".join(requests))
        for request in filter(is_answered, requests):
            assert peer.frame() == answer(request)

    def stop(self) -> int:
        """Stop, and return how many requests were sent."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self.faults == []
        return sum(self.sent)


def events(log: Path) -> list[dict[str, Any]]:
    lines = b"".join(file.read_bytes() for file in log.parent.glob(f"{log.stem}*")).splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def check(proxy: Proxy, log: Path, sent: int, record_property: Record) -> None:
    def left_out() -> float:
        return proxy.count("kproxy_exchanges_left_out_total")

    # Those with acks=0 may be on their way still: no answer says that they have passed
    eventually(lambda: proxy.count("kproxy_requests_total") == sent, what=f"{sent} requests are counted")
    eventually(lambda: len(events(log)) + left_out() >= sent, what="all is written or counted")
    counted = left_out()
    record_property("requests, left out", (sent, counted))
    assert proxy.stop(patience=60) == 0
    found = events(log)
    assert {event["event"] for event in found} <= {"exchange"}  # all may be left out where the analyzer gets no CPU
    assert [event for event in found if event["unanswered"] is not None or event["undecoded"] is not None] == []
    assert len(found) + counted == sent


RINGS_AND_KILLS = [
    (ring, (kill,) * 3 if kill else ())
    for ring in (65_536, 4_194_304)
    for kill in (None, signal.SIGKILL, signal.SIGSTOP)
]


@pytest.mark.parametrize(("ring", "kills"), sampled(RINGS_AND_KILLS, RINGS_AND_KILLS[1:2]))
def test_the_log_and_what_was_left_out_are_all_requests(
    scripted: Scripted,
    proxied: Start,
    tmp_path: Path,
    record_property: Record,
    ring: int,
    kills: tuple[signal.Signals, ...],
) -> None:
    log = tmp_path / "kafka.jsonl"
    proxy = proxied(scripted(answering).address, analysis={"log": {"path": str(log)}, "ring_size": ring}).analyzing()
    load = Load(lambda: client(proxy.bootstrap()), 4)
    for kill in kills:
        before = proxy.count("kproxy_requests_total")
        eventually(lambda before=before: proxy.count("kproxy_requests_total") > before + 300, what="traffic passes")
        (analyzer,) = proxy.named("kproxy-analyzer")
        os.kill(analyzer, kill)
        before = proxy.count("kproxy_requests_total")
        eventually(lambda before=before: proxy.count("kproxy_requests_total") > before + 300, what="traffic passes")
        if kill == signal.SIGSTOP:
            os.kill(analyzer, signal.SIGCONT)
        else:
            eventually(
                lambda gone=analyzer: proxy.named("kproxy-analyzer") not in ([], [gone]), what="there is another"
            )
    if kills:
        before = proxy.count("kproxy_requests_total")
        eventually(lambda: proxy.count("kproxy_requests_total") > before + 300, what="traffic passes")
    else:
        eventually(lambda: proxy.count("kproxy_requests_total") > 3_000, what="traffic passes")
    check(proxy, log, load.stop(), record_property)


@pytest.mark.slow
def test_so_they_are_through_tls(scripted: Scripted, proxied: Start, tmp_path: Path, record_property: Record) -> None:
    log = tmp_path / "kafka.jsonl"
    authority = Authority("proxy", tmp_path / "pki")
    certificate, key = authority.issue_for("kproxy")
    tls = {"certificate": str(certificate), "key": str(key)}
    proxy = proxied(
        scripted(answering).address,
        virtual={"addresses": {"mode": "fixed"}, "listener_tls": tls},
        analysis={"log": {"path": str(log)}, "ring_size": 65_536},
    ).analyzing()
    context = ssl.create_default_context(cafile=authority.ca)
    load = Load(lambda: Wire(proxy.bootstrap(), tls=context), 3)
    eventually(lambda: proxy.count("kproxy_requests_total") > 3_000, what="traffic passes")
    check(proxy, log, load.stop(), record_property)
