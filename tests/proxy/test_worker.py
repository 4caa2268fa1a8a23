"""A worker as a process, with its supervisor's end of the channel in the test's hand."""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.config.structs import Addresses, Cluster, Config, Limits, Timeouts
from kproxy.proxy import admission
from kproxy.proxy import worker as worker_module
from kproxy.proxy.admission import Admission
from kproxy.proxy.logs import EVENTS_LOST
from kproxy.proxy.messages import (
    Alive,
    Brokers,
    Configure,
    Connections,
    Drain,
    Drained,
    Failed,
    ListConnections,
    LogEvent,
    Ready,
    ReloadCertificates,
)
from kproxy.proxy.network.socket_addresses import to_sockaddr
from kproxy.proxy.supervisor.processes import WORKER
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters, SharedLimits
from kproxy.proxy.tap.ring import TapReader, create_ring
from kproxy.proxy.tap.tapped import TapKind
from tests.support.child import PATIENCE, ChildProcess
from tests.support.frames import heartbeat, heartbeat_answer
from tests.support.peers import ScriptedBroker, answering
from tests.support.ports import free_ports

FIXED = Addresses(mode="fixed")
BEAT, ANSWER = heartbeat(1), heartbeat_answer(1)
NOBODY = "127.0.0.1:1"


class WorkerProcess(ChildProcess):
    """A running worker."""

    def __init__(self) -> None:
        super().__init__()
        self.counters = Counters.create()
        self.ring = create_ring(1 << 20)
        self.spawn(WORKER, counters=self.counters.fd, taps=(self.ring,), worker=3)

    def configure(self, *clusters: Cluster, **words: Any) -> Any:
        """Send it a configuration; its answer."""
        self.send(Configure.to(Config(clusters=list(clusters), **words)))
        return self.until(Ready, Failed)

    def close(self) -> None:
        super().close()
        os.close(self.ring)


@contextmanager
def worker() -> Iterator[WorkerProcess]:
    made = WorkerProcess()
    try:
        yield made
    finally:
        made.close()


def beat(client: socket.socket) -> None:
    client.settimeout(PATIENCE)
    client.sendall(BEAT)
    assert client.recv(len(ANSWER), socket.MSG_WAITALL) == ANSWER


def cluster(port: int, broker: str, name: str = "one") -> Cluster:
    return Cluster(name=name, listen=f"127.0.0.1:{port}", bootstrap=[broker], addresses=FIXED)


def test_it_serves_counts_taps_and_drains() -> None:
    port = free_ports()
    with ScriptedBroker(answering) as broker, worker() as running:
        reader = TapReader(running.ring)
        reader.attach()
        assert running.configure(cluster(port, broker.address)) == Ready()
        with socket.create_connection(("127.0.0.1", port)) as client:
            beat(client)
            running.send(ListConnections(5))
            answer = running.until(Connections)
            assert (answer.question, answer.more) == (5, False)
            assert [(row.worker, row.cluster, row.requests) for row in answer.connections] == [(3, "one", 1)]
            assert running.counters.total_of(Total.CONNECTIONS_OPEN) == 1
            running.send(Drain(10))
            running.until(Drained)
            assert client.recv(1) == b""
        assert running.process.wait(PATIENCE) == 0
        kinds = [TapKind(item[0]) for item in reader.read(100)]
        assert kinds == [TapKind.OPEN, TapKind.DATA, TapKind.DATA, TapKind.CLOSE]
        assert running.counters.total_of(Total.CONNECTIONS_OPEN) == 0


def test_it_drains_while_its_configuration_waits_for_a_broker() -> None:
    port = free_ports()
    with (
        worker() as running,
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as slow,
    ):
        asks = Cluster(
            name="asks", listen=f"127.0.0.1:{free_ports()}", bootstrap=[f"127.0.0.1:{silent.getsockname()[1]}"]
        )
        config = Config(
            clusters=[cluster(port, f"127.0.0.1:{slow.getsockname()[1]}"), asks], timeouts=Timeouts(connect=3600)
        )
        running.send(Configure.to(config))
        # Once it is asked which brokers there are, the other cluster is served.
        with silent.accept()[0], socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(BEAT)
            with slow.accept()[0] as accepted:
                assert accepted.recv(len(BEAT), socket.MSG_WAITALL) == BEAT
                running.send(Drain(3600))
                while _listens(port):
                    os.sched_yield()
                accepted.sendall(ANSWER)
                assert client.recv(len(ANSWER), socket.MSG_WAITALL) == ANSWER
        assert running.until(Drained) == Drained(0)
        assert [message for message in running.heard if not isinstance(message, Alive)] == [Drained(0)]
        assert running.process.wait(PATIENCE) == 0


def _listens(port: int) -> bool:
    """Whether a socket listens on a port of 127.0.0.1, by the kernel's table: a probe would be one more client."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()]
    return any(row[1] == f"0100007F:{port:04X}" and row[3] == "0A" for row in rows)


def test_events_that_cannot_be_sent_are_counted_and_their_number_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MOST_EVENTS_WAITING", 2)
    sent: list[LogEvent] = []

    async def main() -> None:
        reads = asyncio.Event()

        class Slow:
            async def send(self, message: LogEvent) -> None:
                await reads.wait()
                sent.append(message)

        handler = worker_module.ToSupervisor(Slow())  # type: ignore[arg-type]
        for number in range(5):
            handler.emit(logging.makeLogRecord({"msg": f"event {number}", "levelname": "INFO"}))
        reads.set()
        while len(sent) < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        handler.emit(logging.makeLogRecord({"msg": "later", "levelname": "INFO"}))
        while len(sent) < 4:
            await asyncio.sleep(0)
        # as a library does that is called in a thread
        await asyncio.to_thread(handler.handle, logging.makeLogRecord({"msg": "of a thread", "levelname": "INFO"}))
        while len(sent) < 5:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert [event.event for event in sent] == ["event 0", "event 1", EVENTS_LOST, "later", "of a thread"]
    assert sent[2].keys == {"count": 3}


def test_it_ends_with_its_supervisor() -> None:
    with worker() as running:
        running.configure(cluster(free_ports(), NOBODY))
        running._lines.close()
        running.control.close()
        assert running.process.wait(PATIENCE) == 0


def test_clusters_come_and_go_and_their_clients_stay_and_are_still_timed() -> None:
    first, second = free_ports(), free_ports()
    with ScriptedBroker(answering) as broker, worker() as running:
        running.configure(cluster(first, broker.address))
        with socket.create_connection(("127.0.0.1", first)) as client:
            beat(client)
            quick = Timeouts(idle=0.5)
            assert running.configure(cluster(second, broker.address, "two"), timeouts=quick) == Ready()
            beat(client)
            with socket.socket() as late:
                assert late.connect_ex(("127.0.0.1", first)) != 0
            with socket.create_connection(("127.0.0.1", second)) as other:
                beat(other)
                assert other.recv(1) == b""  # idle
            beat(client)  # under the configuration it began with
            running.send(ListConnections(1))
            assert [row.cluster for row in running.until(Connections).connections] == ["one"]


def test_what_cannot_be_done_or_decoded_leaves_what_runs() -> None:
    port = free_ports()
    with ScriptedBroker(answering) as broker, worker() as running, socket.create_server(("127.0.0.1", 0)) as taken:
        running.configure(cluster(port, broker.address))
        other = taken.getsockname()[1]
        refused = running.configure(cluster(port, NOBODY, "another"), cluster(other, broker.address, "cannot"))
        assert isinstance(refused, Failed) and f"127.0.0.1:{other}" in refused.why
        running.control.sendall(b'{"type": "something new", "words": [1, 2]}\n')
        while (event := running.until(LogEvent)).event != "a message of the supervisor cannot be decoded":
            pass
        assert event.level == "error" and "something new" in event.keys["reason"]
        running.send(Configure(msgspec.Raw(b'{"clusters": 5}')))
        assert "clusters" in running.until(Ready, Failed).why
        running.send(Brokers("no such cluster", [(1, "h", 2)]))
        running.send(ReloadCertificates())
        with socket.create_connection(("127.0.0.1", port)) as client:
            beat(client)


HERE, THERE = (to_sockaddr(socket.AF_INET, (host, 5_000)) for host in ("10.0.0.1", "10.0.0.2"))
SIX = to_sockaddr(socket.AF_INET6, ("2001:db8::1", 5_000, 0, 0))
MAPPED = to_sockaddr(socket.AF_INET6, ("::ffff:10.0.0.1", 6_000, 0, 0))


def made(shared: SharedLimits | None = None, **limits: int) -> Admission:
    return Admission(Limits(**limits), Counters.create(), shared or SharedLimits.create(), b"key")


def test_without_limits_by_address_or_second_nobody_need_be_asked() -> None:
    assert not made().checks_each_client
    assert made(connections_per_address=1).checks_each_client
    assert made(connections_per_second=1).checks_each_client


@pytest.mark.parametrize("peer", [HERE, SIX])
def test_an_address_is_counted_over_all_workers_whatever_its_port(peer: bytes) -> None:
    shared = SharedLimits.create()
    one, other = (made(shared, connections_per_address=3) for _ in range(2))
    slots = [one.admit(peer), other.admit(peer), other.admit(peer[:2] + b"\x11\x22" + peer[4:])]
    assert len(set(slots)) == 1
    assert one.admit(peer) is other.admit(peer) is None
    assert one.admit(THERE) is not None
    assert slots[2] is not None
    other.uncount(slots[2])
    assert one.admit(peer) is not None


def test_an_ipv4_client_is_the_same_at_a_socket_of_both_families() -> None:
    asked = made(connections_per_address=1)
    assert asked.admit(HERE) is not None
    assert asked.admit(MAPPED) is None


def test_who_came_before_the_limit_counts() -> None:
    asked = made()
    asked.count(HERE)
    asked.count(HERE)
    asked.configure(Limits(connections_per_address=2))
    assert asked.admit(HERE) is None
    assert asked.admit(THERE) is not None


def test_so_many_a_second_of_all_workers_and_a_second_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100_000_000_000
    monkeypatch.setattr(admission.time, "monotonic_ns", lambda: now)
    shared = SharedLimits.create()
    one, other = (made(shared, connections_per_second=10) for _ in range(2))

    def came(count: int) -> int:
        return sum(asked.admit(HERE) is not None for _ in range(count) for asked in (one, other))

    assert came(6) == 10
    now += 400_000_000
    assert came(3) == 4
    now += 3_600_000_000_000
    assert came(6) == 10  # what was not used is not saved up


def test_a_client_that_a_second_refuses_takes_no_place_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100_000_000_000
    monkeypatch.setattr(admission.time, "monotonic_ns", lambda: now)
    asked = made(connections_per_second=1, connections_per_address=2)
    assert [asked.admit(HERE) is not None for _ in range(5)] == [True, False, False, False, False]
    now += 1_000_000_000
    assert asked.admit(HERE) is not None


def test_one_a_second_lets_one_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100_000_000_000
    monkeypatch.setattr(admission.time, "monotonic_ns", lambda: now)
    asked = made(connections_per_second=1)
    came = 0
    for _ in range(400):
        now += 100_000_000
        came += asked.admit(HERE) is not None
    assert came == 40
