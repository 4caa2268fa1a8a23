"""The life of `kproxy run` before a broker of a few lines: it drains, outlives, reloads, mends itself (promises 14 and 15)."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from tests.support.frames import string
from tests.support.held_broker import HeldBroker
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.wire import Wire
from tests.support.ports import free_ports

HEARTBEAT = 12
BODY = string("g") + pack(">i", 5) + string("m-1")
FIXED = {"mode": "fixed"}


@pytest.fixture
def broker() -> Iterator[HeldBroker]:
    with HeldBroker() as held:
        yield held


@pytest.fixture
def start(tmp_path: Path, broker: HeldBroker) -> Iterator[Any]:
    """``start(**settings)`` -> a Proxy that serves, without an analyzer unless the settings have one."""
    running: list[Proxy] = []

    def start(**settings: Any) -> Proxy:
        clusters = [cluster([broker.address], addresses=FIXED)]
        running.append(Proxy(tmp_path, clusters, **{"analysis": {"enabled": False}, **settings}))
        return running[0].start()

    yield start
    for proxy in running:
        proxy.close()


def beat(wire: Wire) -> None:
    """A request and its answer."""
    assert wire.ask(HEARTBEAT, 0, BODY) == b"\0\0"


def begin(wire: Wire, broker: HeldBroker) -> None:
    """A request that stays in flight."""
    broker.hold()
    wire.send(b"\0\0\0\x1e" + pack(">hhih", HEARTBEAT, 0, 77, 3) + b"app" + BODY + b"\0" * (30 - 13 - len(BODY)))
    assert broker.asked.wait(20)


def refused(proxy: Proxy) -> bool:
    """Whether nobody listens any more."""
    try:
        Wire(proxy.bootstrap()).close()
    except ConnectionRefusedError:
        return True
    return False


def test_14_what_is_in_flight_is_answered_before_the_end(start: Any, broker: HeldBroker) -> None:
    proxy = start(workers=2, timeouts={"drain": "1h"})
    with Wire(proxy.bootstrap()) as idle, Wire(proxy.bootstrap()) as busy:
        beat(idle)
        begin(busy, broker)
        proxy.process.send_signal(signal.SIGTERM)
        with pytest.raises(EOFError):
            idle.frame()  # nothing was in flight on it
        eventually(lambda: refused(proxy), what="the listener to be closed")
        assert proxy.get("/readyz", but=(503,)) == (503, "draining\n")
        broker.may_answer.set()
        assert busy.frame() == b"\0\0\0\6" + pack(">ih", 77, 0)
        with pytest.raises(EOFError):
            busy.frame()
    assert proxy.process.wait(30) == 0


def test_14_a_drain_ends_though_a_broker_never_answers(start: Any, broker: HeldBroker) -> None:
    proxy = start(timeouts={"drain": "200ms"})
    with Wire(proxy.bootstrap()) as busy:
        begin(busy, broker)
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(30) in (0, 1)  # 1: a worker on a busy machine was late to end, and was ended
        with pytest.raises((EOFError, ConnectionResetError)):
            busy.frame()


def test_14_it_outlives_its_clients(start: Any) -> None:
    proxy = start(outlive=True)
    first = Wire(proxy.bootstrap())
    beat(first)
    proxy.process.send_signal(signal.SIGTERM)
    eventually(lambda: "going on until no client" in proxy.said(), what="the signal to be seen")
    second = Wire(proxy.bootstrap())
    beat(second)
    first.close()
    beat(second)
    assert proxy.process.poll() is None
    second.close()
    assert proxy.process.wait(30) == 0


class Reloaded:
    """A running proxy whose configuration the tests of this module change, one after the other."""

    def __init__(self, proxy: Proxy, broker: HeldBroker) -> None:
        self.proxy, self.broker = proxy, broker
        self._clusters = proxy.config["clusters"]
        self._seen = 0

    def restore(self) -> None:
        """Go back to the first configuration, and forget what was logged before."""
        self.proxy.config["clusters"] = [dict(self._clusters[0])]
        self.proxy.write()
        self.broker.may_answer.set()
        self.proxy.process.send_signal(signal.SIGHUP)
        self.await_event("the configuration was taken")
        self._seen = len(self.proxy.log.read_text())

    def events(self) -> list[dict[str, Any]]:
        """What was logged since the configuration was restored."""
        lines = self.proxy.log.read_text()[self._seen :].splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def await_event(self, event: str, count: int = 1) -> None:
        """Wait until an event was logged so often."""
        eventually(lambda: sum(one["event"] == event for one in self.events()) >= count, what=event)


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    with HeldBroker() as broker:
        clusters = [cluster([broker.address], addresses=FIXED)]
        proxy = Proxy(tmp_path_factory.mktemp("reloads"), clusters, workers=2, analysis={"enabled": False})
        try:
            yield Reloaded(proxy.start(), broker)
        finally:
            proxy.close()


@pytest.fixture
def reloaded(one_run: Reloaded) -> Reloaded:
    one_run.restore()
    return one_run


def test_15_a_reload_drops_no_connection(reloaded: Reloaded) -> None:
    proxy, broker = reloaded.proxy, reloaded.broker
    with Wire(proxy.bootstrap()) as wire:
        begin(wire, broker)
        proxy.config["timeouts"] = {"idle": "1h"}
        extra = cluster([broker.address], addresses=FIXED, name="extra")
        proxy.config["clusters"].append(extra)
        proxy.write()
        reloaded.await_event("the configuration was taken")
        broker.may_answer.set()
        assert wire.frame() == b"\0\0\0\6" + pack(">ih", 77, 0)
        with Wire(extra["listen"]) as other:
            beat(other)
        beat(wire)


def test_15_a_bad_configuration_keeps_the_one_before(reloaded: Reloaded) -> None:
    proxy = reloaded.proxy
    with Wire(proxy.bootstrap()) as wire:
        beat(wire)
        proxy.file.write_text("clusters: [{listen: nowhere}]\n", encoding="utf-8")
        reloaded.await_event("the configuration before stays")
        assert "clusters[0].listen" in [event.get("path") for event in reloaded.events()]
        beat(wire)
        with Wire(proxy.bootstrap()) as other:
            beat(other)


def test_15_an_address_that_is_taken_keeps_the_configuration_before(reloaded: Reloaded) -> None:
    proxy = reloaded.proxy
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        proxy.config["clusters"].append(cluster(["127.0.0.1:9"], addresses=FIXED, name="x") | {"listen": listen})
        proxy.write()
        reloaded.await_event("the configuration before stays")
    assert "already in use" in reloaded.events()[-1]["reason"].lower()
    with Wire(proxy.bootstrap()) as wire:
        beat(wire)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ({"use": "no.such:Filter"}, "there is no module 'no'"),
        ({"use": "rewrite_addresses", "with": {"x": 1}}, "does not take these options"),
        ({"use": "tests.chaos.faulty_filters:Nothing"}, "has no 'Nothing'"),
    ],
)
def test_15_a_filter_that_does_not_load_is_told_with_its_place_in_the_file(
    reloaded: Reloaded, use: dict[str, Any], reason: str
) -> None:
    """Only workers load filters: the supervisor finds the place."""
    proxy = reloaded.proxy
    proxy.config["clusters"][0]["filters"] = [{"use": "rewrite_addresses"}, use]
    proxy.write()
    reloaded.await_event("the configuration before stays")
    (mistake,) = [event for event in reloaded.events() if event["event"] == "a mistake in the configuration"]
    lines = proxy.file.read_text().splitlines()
    first = lines.index('     "use": "rewrite_addresses"')
    at = next(at for at, line in enumerate(lines) if use["use"] in line and at > first)
    assert (mistake["file"], mistake["line"]) == (str(proxy.file), at + 1)
    assert lines[at][mistake["column"] - 1 :].startswith(json.dumps(use["use"]))
    assert mistake["path"] == "clusters[0].filters[1].use"
    assert reason in mistake["reason"]
    with Wire(proxy.bootstrap()) as wire:
        beat(wire)


def test_15_nobody_is_refused_while_it_reloads(reloaded: Reloaded) -> None:
    for reload in range(1, 4):
        reloaded.proxy.process.send_signal(signal.SIGHUP)
        for _ in range(50):
            with Wire(reloaded.proxy.bootstrap()) as wire:
                beat(wire)
        reloaded.await_event("the configuration was taken", reload)


def is_open(wire: Wire) -> bool:
    """Whether requests on a connection are answered."""
    try:
        beat(wire)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return False
    return True


def opened(proxy: Proxy) -> list[Wire]:
    """Connections until one is refused."""
    found: list[Wire] = []
    while True:
        wire = Wire(proxy.bootstrap())
        if not is_open(wire):
            wire.close()
            return found
        found.append(wire)


def test_8_limits_hold_for_all_workers_together_and_for_those_that_a_reload_adds(start: Any) -> None:
    """Not a share for each: the kernel does not distribute clients evenly."""
    proxy = start(workers=3, limits={"connections": 10})
    clients = opened(proxy)
    assert len(clients) == 10
    clients.pop().close()
    clients += eventually(lambda: opened(proxy), what="a place to be free again")
    assert len(clients) == 10
    proxy.config |= {"workers": 5, "limits": {"connections": 30, "connections_per_address": 17}}
    proxy.write()
    eventually(lambda: "the configuration was taken" in proxy.said(), what="the configuration to be taken")
    clients += opened(proxy)
    assert len(clients) == 17  # those that came before the limit by address count
    os.kill(proxy.workers()[0], signal.SIGKILL)  # and what a worker that died had is free
    alive = [wire for wire in clients if is_open(wire)]
    eventually(lambda: len(proxy.workers()) == 5 and proxy.get("/readyz", but=(503,))[0] == 200, what="another worker")
    more = opened(proxy)
    assert len(alive) + len(more) == 17
    for wire in (*clients, *more):
        wire.close()


@pytest.mark.parametrize("mode", ["port", "fixed"])
def test_it_is_not_ready_before_a_broker_was_reached(tmp_path: Path, mode: str) -> None:
    """And becomes so by itself: no client comes to a pod that is not ready. What happens to brokers later does not count."""
    port = free_ports()
    proxy = Proxy(
        tmp_path,
        [cluster([f"127.0.0.1:{port}"], addresses={"mode": mode}, name="orders")],
        workers=2,
        analysis={"enabled": False},
    )

    def answer() -> tuple[int, str]:
        return proxy.get("/readyz", but=(503,))

    try:
        proxy.begin()
        if mode == "fixed":  # the first attempt is the first client's
            eventually(lambda: answer() == (200, "ready\n"), what="the workers")
            Wire(proxy.bootstrap()).close()
        reason = f"no connection to 127.0.0.1:{port}: Connection refused" if mode == "port" else ""
        eventually(lambda: f"no broker of orders has been reached: {reason}" in answer()[1], what="/readyz")
        status, text = proxy.get("/readyz?format=json", but=(503,))
        (state,) = json.loads(text)["clusters"]
        assert (status, state["name"], state["broker_reached"]) == (503, "orders", False)
        assert "Connection refused" in state["reason"]
        with socket.create_server(("127.0.0.1", port)):
            eventually(lambda: answer() == (200, "ready\n"), what="a broker to be reached")
        assert answer()[0] == 200
    finally:
        proxy.close()


def test_who_dies_is_replaced_and_clients_do_not_notice_that_the_analyzer_died(start: Any) -> None:
    proxy = start(analysis={})
    with Wire(proxy.bootstrap()) as wire:
        for _ in range(2):
            (pid,) = eventually(lambda: proxy.named("kproxy-analyzer"), what="an analyzer")
            os.kill(pid, signal.SIGKILL)
            for _ in range(200):
                beat(wire)
            eventually(lambda pid=pid: proxy.named("kproxy-analyzer") not in ([], [pid]), what="another analyzer")
    (pid,) = proxy.workers()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: proxy.workers() not in ([], [pid]), what="another worker")
    eventually(lambda: proxy.get("/readyz", but=(503,))[0] == 200, what="/readyz")
    with Wire(proxy.bootstrap()) as wire:
        beat(wire)


def test_nothing_is_left_when_it_is_killed(start: Any) -> None:
    proxy = start(workers=2, analysis={})
    with Wire(proxy.bootstrap()) as wire:
        beat(wire)
        pids = proxy.pids()
        assert len(pids) == 4
        proxy.process.kill()
        proxy.process.wait(30)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="all to be gone")
        with pytest.raises((EOFError, ConnectionResetError)):
            wire.frame()
