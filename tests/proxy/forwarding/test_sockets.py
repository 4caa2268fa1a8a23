"""Plain sockets: accepting under limits and faults, connecting, and pumping with back-pressure, half-close and resets."""

import asyncio
import gc
import os
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kproxy.config.structs import Addresses, Limits, Timeouts
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Direction, Filter
from kproxy.proxy.forwarding.sockets import Acceptor
from kproxy.proxy.network.listening import listen
from kproxy.proxy.network.socket_addresses import to_sockaddr
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.conftest import Require
from tests.proxy.network.test_upstream import silent
from tests.support import namespaces
from tests.support.links import (
    Bench,
    Judge,
    Owner,
    Turns,
    Wanting,
    close_all,
    links_beside,
    request,
    response,
    run,
    take,
)
from tests.support.ports import free_ports
from tests.support.virtual_clusters import Broker, Front, ask, front


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


class TcpBench(Bench):
    """Over TCP, which alone has resets; *broker* and *client* are its far ends."""

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            one = socket.create_connection(listener.getsockname())
            return one, listener.accept()[0]


@pytest.mark.parametrize("who", ["client", "broker"])
@pytest.mark.parametrize("waiting", [False, True])
async def test_a_reset_ends_the_connection_with_its_cause(who: str, waiting: bool) -> None:
    bench = TcpBench()
    if waiting:
        await bench.send(bench.client, request(3, 1, 1))
        await bench.settled()
    reset(getattr(bench, who))
    other = bench.broker if who == "client" else bench.client
    if who == "client" and waiting:
        await bench.settled()
        assert not bench.link.closed  # the broker is heard out: it may have been a produce
        await bench.send(bench.broker, response(1, bytes(100)))
    if who == "client" or waiting:
        await bench.rest(other)
    async with asyncio.timeout(10):
        await bench.owner.closed.wait()
    assert bench.owner.cause is (CloseCause.CLIENT_RESET if who == "client" else CloseCause.BROKER_RESET)


async def test_a_client_that_is_gone_while_it_is_answered_is_noticed_by_writing() -> None:
    bench = TcpBench()
    await bench.send(bench.client, request(1, 4, 1) + request(1, 4, 2))
    await bench.settled()
    sending = asyncio.ensure_future(bench.send(bench.broker, response(1, bytes(30_000_000))))
    await bench.receive(bench.client, 100_000)
    reset(bench.client)
    await sending  # it is read to its end and thrown away
    await bench.send(bench.broker, response(2))
    async with asyncio.timeout(10):
        await bench.owner.closed.wait()
    assert bench.owner.cause is CloseCause.CLIENT_RESET
    assert bench.worker.buffered_bytes == 0


def test_what_a_client_that_is_gone_did_not_take_does_not_keep_its_connection_open() -> None:
    async def work() -> None:
        bench = TcpBench()
        await bench.send(bench.client, request(1, 4, 1) + request(1, 4, 2))
        await bench.settled()
        sending = asyncio.ensure_future(bench.send(bench.broker, response(1, bytes(30_000_000))))
        await bench.settled()
        assert not sending.done()  # the client takes nothing, so the broker has to wait
        bench.client.close()  # with bytes that it has not read: a reset
        await sending
        await bench.send(bench.broker, response(2))
        async with asyncio.timeout(10):
            await bench.owner.closed.wait()
        assert bench.owner.cause is CloseCause.CLIENT_RESET
        assert bench.worker.buffered_bytes == 0

    run(work, seconds=20.0)


async def test_the_broker_is_done_first_and_the_client_hears_all_of_it() -> None:
    bench = Bench()
    await bench.send(bench.client, request(1, 4, 1))
    await bench.settled()
    answer = response(1, bytes(5_000_000))
    sending = asyncio.ensure_future(bench.send(bench.broker, answer))
    assert await bench.receive(bench.client, 1_000) == answer[:1_000]
    await bench.receive(bench.client, len(answer) - 1_000)
    await sending
    bench.broker.shutdown(socket.SHUT_WR)
    assert await bench.rest(bench.client) == b""
    bench.client.close()
    await bench.owner.closed.wait()
    assert bench.owner.cause is CloseCause.BROKER_CLOSED


class Breaks(Filter):
    """Not what filters do: the owner itself fails."""

    responses = frozenset({3})


async def test_what_an_owner_raises_closes_the_connection_and_never_reaches_the_loop() -> None:
    def judge(*_: object) -> bool:
        raise RuntimeError("a fault of kproxy's own")

    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    bench = Bench(Owner(judge_response=judge), Chain([Breaks()]))
    await bench.send(bench.client, request(3, 1, 1))
    await bench.settled()
    await bench.send(bench.broker, response(1, bytes(100)))
    assert await bench.rest(bench.client) == b""
    assert bench.owner.cause is CloseCause.ERROR
    assert bench.owner.told == [("fault", 'RuntimeError("a fault of kproxy\'s own")')]
    assert seen == []


async def test_a_client_that_takes_no_answers_of_filters_is_read_no_further() -> None:
    """Nothing of it goes to the broker, so that only this holds it up."""

    def judge(link: object, frame: bytes) -> bool:
        link.answer(response(int.from_bytes(frame[8:12], "big"), bytes(10_000)))  # type: ignore[attr-defined]
        return True

    class Asks(Filter):
        requests = frozenset({3})

    bench = Bench(Owner(judge_request=judge), Chain([Asks()]))
    flood = b"".join(request(3, 1, n) for n in range(20_000))  # 200 MB of answers
    sending = asyncio.ensure_future(bench.send(bench.client, flood))
    await bench.settled()
    assert bench.worker.buffered_bytes < 1_000_000
    for n in range(20_000):
        assert await bench.receive(bench.client, 10_008) == response(n, bytes(10_000))
    await sending
    assert bench.counters.total_of(Total.IN_FLIGHT) == 0


async def test_attack_11_one_byte_a_segment_and_two_requests_in_one() -> None:
    """The bytes of Kroxylicious #513: two requests before the broker was connected."""
    bench = Bench(Judge(Chain(())))
    sent = request(18, 3, 0, b"\0\x05kafka\x061.0.0\0") + request(3, 9, 1, b"\0\1\1\0\0\0")
    for byte in sent:
        await bench.send(bench.client, bytes([byte]))
        await bench.settled()
    assert await bench.receive(bench.broker, len(sent)) == sent
    answers = response(0, bytes(40)) + response(1, bytes(60))
    for byte in answers:
        await bench.send(bench.broker, bytes([byte]))
        await bench.settled()
    assert await bench.receive(bench.client, len(answers)) == answers
    assert bench.link.frames_received == (2, 2)


FIXED = Addresses(mode="fixed")


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


ROOT = Path(__file__).parents[3]


async def test_promise_8_the_one_too_many_is_refused_and_counted() -> None:
    broker = Broker()
    limits = Limits(connections=5)
    async with broker, front(broker.address, addresses=FIXED, limits=limits) as proxy:
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


async def test_promise_18_a_broker_that_refuses_closes_the_client_after_a_moment() -> None:
    async with front(f"127.0.0.1:{free_ports()}", addresses=FIXED) as proxy:
        began = asyncio.get_running_loop().time()
        reader, writer = await proxy.connect()
        assert await reader.read() == b""
        assert asyncio.get_running_loop().time() - began > 0.09  # Kafka's own delay after a failed login is 100 ms
        assert proxy.causes == {CloseCause.UPSTREAM_UNREACHABLE: 1}
        assert proxy.total(Total.UPSTREAM_CONNECTS) == proxy.total(Total.UPSTREAM_CONNECT_FAILURES) == 1
        writer.close()


async def test_promise_17_a_broker_that_does_not_answer_is_given_up() -> None:
    with silent() as port:
        async with front(f"127.0.0.1:{port}", addresses=FIXED, timeouts=Timeouts(connect=0.2)) as proxy:
            reader, writer = await proxy.connect()
            await proxy.until(lambda: proxy.worker.links)
            assert next(iter(proxy.worker.links)).connecting
            await proxy.until(lambda: tick(proxy) and not proxy.worker.links)
            assert await reader.read() == b""
            assert proxy.causes == {CloseCause.UPSTREAM_UNREACHABLE: 1}
            writer.close()


def tick(proxy: Front) -> bool:
    proxy.cluster.tick(time.monotonic_ns())
    return True


ITSELF = """
from pathlib import Path
from kproxy.config.structs import Addresses
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
    require("netns", namespaces.can_make_networks(), "network namespaces cannot be made here")
    with namespaces.namespace("kproxy-self") as inside:
        words = [*inside, sys.executable, "-c", ITSELF]
        found = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert found.stdout == "['UPSTREAM_UNREACHABLE']\n", found.stderr


async def test_two_requests_before_the_broker_is_connected_wait_in_the_socket() -> None:
    """Attack 11 (Kroxylicious #513) over TCP."""
    async with Broker() as broker, front(broker.address, addresses=FIXED) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(request(12, 0, 1) + request(12, 0, 2))
            client.setblocking(False)
            got = b""
            while len(got) < 22:
                got += await asyncio.get_running_loop().sock_recv(client, 100)
            assert got == b"\0\0\0\7\0\0\0\1\0\1t\0\0\0\7\0\0\0\2\0\1t"


async def test_clients_that_wait_when_the_listener_stops_are_served() -> None:
    async with Broker() as broker, front(broker.address, addresses=FIXED) as proxy:
        waiting = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(200)]  # more than one turn takes
        proxy.cluster.stop()
        assert proxy.total(Total.CONNECTIONS_OPENED) == 200
        for client in waiting:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(client, request(12, 0, 1))
            assert await asyncio.get_running_loop().sock_recv(client, 100) == b"\0\0\0\7\0\0\0\1\0\1t"
            client.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port))


async def test_who_comes_while_nobody_is_accepted_waits() -> None:
    async with Broker() as broker, front(broker.address, addresses=FIXED) as proxy:
        proxy.cluster.pause()
        reader, writer = await proxy.connect()
        writer.write(request(12, 0, 1))
        for _ in range(20):
            await asyncio.sleep(0)
        assert proxy.total(Total.CONNECTIONS_OPENED) == 0
        proxy.cluster.resume()
        assert await reader.readexactly(11) == b"\0\0\0\7\0\0\0\1\0\1t"
        writer.close()


class Faulty:
    """An owner that fails when a client comes."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.plan = None  # no Plan: making a link fails
        self.limits = None
        self.sampled = None

    def on_fault(self, link: Any, error: Exception) -> None:
        self.faults.append(repr(error))


async def test_a_fault_while_a_client_comes_leaves_nothing_open() -> None:
    from kproxy.proxy.forwarding.lane import Worker  # noqa: PLC0415
    from kproxy.proxy.tap.counters import Counters  # noqa: PLC0415

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


EMFILE = """
import asyncio, resource, sys
from kproxy.config.structs import Addresses
from kproxy.proxy.tap.counted import Total
from tests.support.links import run
from tests.support.virtual_clusters import Broker, front

async def work():
    async with Broker() as broker:
        async with front(broker.address, addresses=Addresses(mode="fixed")) as proxy:
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


async def come_and_go(proxy: Front, count: int) -> None:
    for number in range(count):
        reader, writer = await proxy.connect()
        if number % 3:
            await ask(reader, writer, request(12, 0, 1))
        if number % 2:
            writer.transport.abort()
        writer.close()


@pytest.mark.parametrize("count", [300, pytest.param(5_000, marks=pytest.mark.long)])
async def test_connections_that_come_and_go_leave_no_descriptor(count: int) -> None:
    async with Broker() as broker, front(broker.address, addresses=FIXED) as proxy:
        await come_and_go(proxy, 1)  # opens the worker's poller, which stays
        await proxy.until(lambda: not proxy.worker.links)
        gc.collect()  # what other tests left may be collected at any time
        before = open_files()
        await come_and_go(proxy, count)
        await proxy.until(lambda: not proxy.worker.links)
        await proxy.until(lambda: open_files() <= before)
        assert proxy.total(Total.CONNECTIONS_OPENED) == count + 1 == sum(proxy.causes.values())


async def test_many_sockets_that_are_ready_at_once_are_handled_in_turns_and_in_order() -> None:
    """Each takes a millisecond, as 256 KiB of small frames do: the loop must not be held up until all have been read."""
    seen: list[tuple[int, int]] = []

    def judge(link, frame):
        take(0.001)
        seen.append((link.number, turns.count))
        return True

    bench = Bench(Owner(judge_request=judge), Wanting(3, Direction.REQUEST))
    links = links_beside(bench, 200)
    for _, client, _ in links:
        client.send(request(3, 1, 1))
    turns = Turns()
    while len(seen) < 200:
        await asyncio.sleep(0)
    turns.stop()
    assert {number for number, _ in seen} == set(range(2, 202))
    assert max(Counter(turn for _, turn in seen).values()) <= 8
    close_all(links)
