"""Accepting: limits, no descriptors left, brokers that are not there, and a port that joins itself."""

import asyncio
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.config import Addresses, Limits, Timeouts
from kproxy.proxy.forwarding.sockets import Acceptor
from kproxy.proxy.network.listening import listen
from kproxy.proxy.network.socket_addresses import to_sockaddr
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.conftest import Require
from tests.support import netns
from tests.support.links import request, run
from tests.support.ports import free_ports
from tests.support.virtual_clusters import Broker, Front, ask, front, listening

FIXED = Addresses(mode="fixed")


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


ROOT = Path(__file__).parents[3]


def test_a_client_is_joined_with_the_broker() -> None:
    async def work() -> None:
        broker = Broker()
        async with listening(broker.serve) as broker.port, front(f"127.0.0.1:{broker.port}", addresses=FIXED) as proxy:
            reader, writer = await proxy.connect()
            assert await ask(reader, writer, request(12, 0, 5, b"body")) == b"\0\0\0\x0b\0\0\0\5\0\1tbody"
            link = next(iter(proxy.worker.links))
            assert link.target == ("127.0.0.1", broker.port)
            writer.close()
            await proxy.until(lambda: not proxy.worker.links)
            assert proxy.causes == {CloseCause.CLIENT_CLOSED: 1}
            assert proxy.total(Total.CONNECTIONS_OPENED) == proxy.total(Total.UPSTREAM_CONNECTS) == 1

    run(work)


def test_promise_8_the_one_too_many_is_refused_and_counted() -> None:
    async def work() -> None:
        broker = Broker()
        limits = Limits(connections=5)
        async with (
            listening(broker.serve) as broker.port,
            front(f"127.0.0.1:{broker.port}", addresses=FIXED, limits=limits) as proxy,
        ):
            clients = [await proxy.connect() for _ in range(5)]
            for reader, writer in clients:
                await ask(reader, writer, request(12, 0, 1))
            reader, late = await proxy.connect()
            assert await reader.read() == b""
            late.close()
            assert proxy.total(Total.REFUSED_CONNECTIONS) == 1
            assert len(proxy.worker.links) == 5
            clients[0][1].close()
            await proxy.until(lambda: len(proxy.worker.links) == 4)
            reader, writer = await proxy.connect()  # there is room again
            await ask(reader, writer, request(12, 0, 1))
            for _, one in [*clients[1:], (reader, writer)]:
                one.close()

    run(work)


def test_promise_18_a_broker_that_refuses_closes_the_client_after_a_moment() -> None:
    async def work() -> None:
        async with front(f"127.0.0.1:{free_ports()}", addresses=FIXED) as proxy:
            began = asyncio.get_running_loop().time()
            reader, writer = await proxy.connect()
            assert await reader.read() == b""
            assert asyncio.get_running_loop().time() - began > 0.09  # Kafka's own delay after a failed login is 100 ms
            assert proxy.causes == {CloseCause.UPSTREAM_UNREACHABLE: 1}
            assert proxy.total(Total.UPSTREAM_CONNECTS) == proxy.total(Total.UPSTREAM_CONNECT_FAILURES) == 1
            writer.close()

    run(work)


def test_promise_17_a_broker_that_does_not_answer_is_given_up() -> None:
    """A listener whose backlog is full drops what comes, as a dead host does."""

    async def work() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            where = silent.getsockname()
            filling = [socket.socket() for _ in range(3)]
            for one in filling:
                one.setblocking(False)
                one.connect_ex(where)
            async with front(f"127.0.0.1:{where[1]}", addresses=FIXED, timeouts=Timeouts(connect=0.2)) as proxy:
                reader, writer = await proxy.connect()
                await proxy.until(lambda: proxy.worker.links)
                link = next(iter(proxy.worker.links))
                assert link.connecting
                await proxy.until(lambda: tick(proxy) and not proxy.worker.links)
                assert await reader.read() == b""
                assert proxy.causes == {CloseCause.UPSTREAM_UNREACHABLE: 1}
                writer.close()
            for one in filling:
                one.close()

    run(work)


def tick(proxy: Front) -> bool:
    import time  # noqa: PLC0415

    proxy.cluster.tick(time.monotonic_ns())
    return True


ITSELF = """
from pathlib import Path
from kproxy.config import Addresses
from tests.conftest import Require
from tests.support.virtual_clusters import front
from tests.support.links import run
import asyncio, socket

async def work():
    async with front("127.0.0.1:40000", addresses=Addresses(mode="fixed")) as proxy:
        Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40000")
        with socket.socket() as probe:
            probe.connect(("127.0.0.1", 40_000))
            assert probe.getsockname() == probe.getpeername()
        reader, writer = await proxy.connect(local_addr=("127.0.0.1", 39_999))
        assert await reader.read() == b""
        print([cause.name for cause in proxy.causes])
        writer.close()

run(work)
"""


def test_attack_20_a_port_that_joins_itself_is_nobody(require: Require) -> None:
    """A connect from a free port of this host to that very port succeeds without a listener (simultaneous open)."""
    require("netns", netns.available(), "network namespaces cannot be made here")
    with netns.namespace("kproxy-self") as inside:
        words = [*inside, sys.executable, "-c", ITSELF]
        found = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert found.stdout == "['UPSTREAM_UNREACHABLE']\n", found.stderr


def test_two_requests_before_the_broker_is_connected_wait_in_the_socket() -> None:
    """Attack 11 (Kroxylicious #513) over TCP."""

    async def work() -> None:
        broker = Broker()
        async with listening(broker.serve) as broker.port, front(f"127.0.0.1:{broker.port}", addresses=FIXED) as proxy:
            with socket.create_connection(("127.0.0.1", proxy.port)) as client:
                client.sendall(request(12, 0, 1) + request(12, 0, 2))
                client.setblocking(False)
                got = b""
                while len(got) < 22:
                    got += await asyncio.get_running_loop().sock_recv(client, 100)
                assert got == b"\0\0\0\7\0\0\0\1\0\1t\0\0\0\7\0\0\0\2\0\1t"

    run(work)


def test_clients_that_wait_when_the_listener_stops_are_served() -> None:
    async def work() -> None:
        broker = Broker()
        async with listening(broker.serve) as broker.port, front(f"127.0.0.1:{broker.port}", addresses=FIXED) as proxy:
            waiting = [
                socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(200)
            ]  # more than one turn takes
            proxy.cluster.stop()
            assert proxy.total(Total.CONNECTIONS_OPENED) == 200
            for client in waiting:
                client.setblocking(False)
                await asyncio.get_running_loop().sock_sendall(client, request(12, 0, 1))
                assert await asyncio.get_running_loop().sock_recv(client, 100) == b"\0\0\0\7\0\0\0\1\0\1t"
                client.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", proxy.port))

    run(work)


def test_who_comes_while_nobody_is_accepted_waits() -> None:
    async def work() -> None:
        broker = Broker()
        async with listening(broker.serve) as broker.port, front(f"127.0.0.1:{broker.port}", addresses=FIXED) as proxy:
            proxy.cluster.pause()
            reader, writer = await proxy.connect()
            writer.write(request(12, 0, 1))
            for _ in range(20):
                await asyncio.sleep(0)
            assert proxy.total(Total.CONNECTIONS_OPENED) == 0
            proxy.cluster.resume()
            assert await reader.readexactly(11) == b"\0\0\0\7\0\0\0\1\0\1t"
            writer.close()

    run(work)


class Faulty:
    """An owner that fails when a client comes."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.plan = None  # no Plan: making a link fails
        self.limits = None
        self.sampled = None

    def on_fault(self, link: Any, error: Exception) -> None:
        self.faults.append(repr(error))


def test_a_fault_while_a_client_comes_leaves_nothing_open() -> None:
    from kproxy.proxy.forwarding.lane import Worker  # noqa: PLC0415
    from kproxy.proxy.tap.counters import Counters  # noqa: PLC0415

    async def work() -> None:
        listener = listen("127.0.0.1", 0)
        worker = Worker(Counters.create(), None, asyncio.get_running_loop())
        acceptor = Acceptor(worker, Faulty(), listener.fileno())
        acceptor.set_target(to_sockaddr(socket.AF_INET, ("127.0.0.1", 9)), ("127.0.0.1", 9))
        acceptor.start()
        counts = []
        for _ in range(2):  # libuv keeps a descriptor from its first stream on
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
            counts.append(open_files())
        assert len(acceptor.owner.faults) == 2
        assert worker.counters.total_of(Total.CONNECTIONS_OPEN) == 0 and not worker.links
        assert counts[0] == counts[1]
        acceptor.pause()
        listener.close()

    run(work)


EMFILE = """
import asyncio, resource, sys
from kproxy.config import Addresses
from kproxy.proxy.tap.counted import Total
from tests.conftest import Require
from tests.support.virtual_clusters import Broker, ask, front, listening
from tests.support.links import request, run

async def work():
    broker = Broker()
    async with listening(broker.serve) as broker.port:
        async with front(f"127.0.0.1:{broker.port}", addresses=Addresses(mode="fixed")) as proxy:
            spare = [open("/dev/null") for _ in range(40)]
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare[-1].fileno() + 1, 4096))  # the lowest free is taken first
            print("ready", proxy.port, flush=True)
            await proxy.until(lambda: proxy.total(Total.ACCEPT_ERRORS))
            for one in spare:
                one.close()
            await proxy.until(lambda: proxy.total(Total.CONNECTIONS_OPENED) >= 5)
            print("served", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

run(work)
"""


def test_attack_23_accepting_survives_that_no_descriptor_is_left() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", EMFILE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            word, port = child.stdout.readline().split()
            assert word == "ready"
            clients = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(5)]
            assert child.stdout.readline() == "served\n"
            for client in clients:
                client.settimeout(20)
                client.sendall(request(12, 0, 1))
                assert client.recv(100) == b"\0\0\0\7\0\0\0\1\0\1t"
                client.close()
            child.stdin.write("\n")
            child.stdin.close()
            assert child.wait(20) == 0
        finally:
            child.kill()


@pytest.mark.parametrize("count", [300, pytest.param(5_000, marks=pytest.mark.long)])
def test_connections_that_come_and_go_leave_no_descriptor(count: int) -> None:
    async def work() -> None:
        broker = Broker()
        async with listening(broker.serve) as broker.port, front(f"127.0.0.1:{broker.port}", addresses=FIXED) as proxy:
            before = open_files()
            for number in range(count):
                reader, writer = await proxy.connect()
                if number % 3:
                    await ask(reader, writer, request(12, 0, 1))
                if number % 2:
                    writer.transport.abort()
                writer.close()
            await proxy.until(lambda: not proxy.worker.links)
            await proxy.until(lambda: open_files() <= before)
            assert proxy.total(Total.CONNECTIONS_OPENED) == count == sum(proxy.causes.values())
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0

    run(work)
