"""The life of `kproxy run` before a broker of a few lines: reloads, limits over all workers, readiness, its end.

tests/chaos/test_lifecycle.py has the rest: drains, bad configurations, processes that die.
"""

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
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.peers import ScriptedBroker, answering
from tests.support.ports import free_ports
from tests.support.sockets import Wire

HEARTBEAT = 12
BODY = string("g") + pack(">i", 5) + string("m-1")
FIXED = {"mode": "fixed"}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(answering) as held:
        yield held


@pytest.fixture
def start(tmp_path: Path, broker: ScriptedBroker) -> Iterator[Any]:
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


def test_15_a_filter_that_does_not_load_is_told_with_its_place_in_the_file(start: Any) -> None:
    """Only workers load filters: the supervisor finds the place."""
    proxy = start(workers=2)
    use = {"use": "rewrite_addresses", "with": {"x": 1}}
    proxy.config["clusters"][0]["filters"] = [{"use": "rewrite_addresses"}, use]
    proxy.write()
    eventually(lambda: "the configuration before stays" in proxy.log.read_text(), what="the mistake to be found")
    events = map(json.loads, proxy.log.read_text().splitlines())
    (mistake,) = [event for event in events if event["event"] == "a mistake in the configuration"]
    lines = proxy.file.read_text().splitlines()
    first = lines.index('     "use": "rewrite_addresses"')
    at = next(at for at, line in enumerate(lines) if use["use"] in line and at > first)
    assert (mistake["file"], mistake["line"]) == (str(proxy.file), at + 1)
    assert lines[at][mistake["column"] - 1 :].startswith(json.dumps(use["use"]))
    assert mistake["path"] == "clusters[0].filters[1].use"
    assert "does not take these options" in mistake["reason"]
    with Wire(proxy.bootstrap()) as wire:
        beat(wire)


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
