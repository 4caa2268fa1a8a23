"""Reaching brokers: every address in turn, in bounded time, straight or through a proxy; what a failure says and costs."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from kproxy.config import Addresses, Cluster
from kproxy.errors import UpstreamError, UsageError
from kproxy.proxy.network.proxy_protocol import Header, read_header
from kproxy.proxy.network.resolver import Address, Resolver
from kproxy.proxy.network.upstream import Upstream
from tests.support.backend import echo, said_back, scripted
from tests.support.loops import LOOPS
from tests.support.ports import free_ports


def at(host: str, port: int) -> Address:
    return socket.AF_INET, (host, port)


def naming(*addresses: Address) -> Resolver:
    """A name service for which every name has these addresses."""

    async def question(host: str, port: int) -> list[Address]:
        return list(addresses)

    return Resolver(question)


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A port that does not answer: its queue of connections is full, so the kernel drops who knocks."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as stack:
        for _ in range(4):
            queued = stack.enter_context(socket.socket())
            queued.setblocking(False)
            queued.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_a_broker_is_reached_by_number_and_by_name(loop: str, host: str) -> None:
    async with echo("::1" if ":" in host else "127.0.0.1") as (port, _):
        connected = await Upstream().connect(host, port)
        assert connected.getblocking() is False
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        assert await said_back(connected, b"hello") == b"hello"


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_refusal_is_one_sentence_with_the_address_and_the_delay_grows_to_a_second(loop: str) -> None:
    port = free_ports()
    upstream = Upstream()
    delays = []
    for _ in range(6):
        with pytest.raises(UpstreamError, match=f"^no connection to 127.0.0.1:{port}: Connection refused$"):
            await upstream.connect("127.0.0.1", port)
        delays.append(upstream.delay())
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    async with echo() as (working, _):
        (await upstream.connect("127.0.0.1", working)).close()
    assert upstream.delay() == 0.1


@pytest.mark.parametrize("loop", LOOPS)
async def test_the_next_address_is_tried_and_then_known_to_be_the_better_one(loop: str) -> None:
    async with echo() as (port, came):
        upstream = Upstream(resolver=naming(at("127.0.0.2", port), at("127.0.0.1", port)))
        assert upstream.resolved("broker", port) is None
        (await upstream.connect("broker", port)).close()
        assert upstream.resolved("broker", port) == at("127.0.0.1", port)
        assert (await said_back(await upstream.connect("broker", port), b"x"), len(came)) == (b"x", 2)


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_silent_address_leaves_time_for_the_others(loop: str) -> None:
    async with echo() as (port, _):
        with silent() as deaf:
            upstream = Upstream(resolver=naming(at("127.0.0.1", deaf), at("127.0.0.1", port)), timeout=0.4)
            assert await said_back(await upstream.connect("broker", port), b"x") == b"x"
            with pytest.raises(UpstreamError, match=f"^no connection to 127.0.0.1:{deaf}: no answer in time$"):
                await upstream.connect("127.0.0.1", deaf)


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_name_service_that_does_not_answer_does_not_hang_a_client(loop: str) -> None:
    async def question(host: str, port: int) -> list[Address]:
        await asyncio.Event().wait()
        return []

    upstream = Upstream(resolver=Resolver(question), timeout=0.1)
    with pytest.raises(UpstreamError, match="broker: the name was not resolved in time"):
        await upstream.connect("broker", 9092)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@pytest.mark.parametrize("loop", LOOPS)
async def test_bootstrap_brokers_are_asked_in_turn_and_the_dead_one_last(loop: str) -> None:
    dead = free_ports()
    async with echo() as (one, came_one), echo() as (two, came_two):
        endpoints = [f"127.0.0.1:{port}" for port in (one, dead, two)]
        upstream = Upstream(endpoints)
        reached = []
        for _ in range(6):
            connected, endpoint = await upstream.connect_bootstrap()
            assert await said_back(connected, b"x") == b"x"
            reached.append(endpoint)
        assert endpoints[1] not in reached
        assert min(len(came_one), len(came_two)) >= 2
        assert len(came_one) + len(came_two) == 6  # as many as clients asked for


@pytest.mark.parametrize("loop", LOOPS)
async def test_when_no_bootstrap_broker_is_there_the_sentence_names_three(loop: str) -> None:
    dead = [f"127.0.0.1:{free_ports()}" for _ in range(5)]
    with pytest.raises(UpstreamError, match=r"^no connection to [^\n]*; no connection[^\n]*; and 2 more$"):
        await Upstream(dead).connect_bootstrap()
    with pytest.raises(UpstreamError, match="no bootstrap broker"):
        await Upstream().connect_bootstrap()


@pytest.mark.parametrize("loop", LOOPS)
async def test_through_a_proxy_the_proxy_resolves_the_name(loop: str) -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\n"
    request = b"CONNECT broker.internal:9092 HTTP/1.1\r\nhost: broker.internal:9092\r\n\r\n"
    async with scripted([(len(request), [answer]), (5, [b"world"])]) as (port, read):
        upstream = Upstream(through=f"http://localhost:{port}")
        assert upstream.resolved("127.0.0.1", port) is None
        connected = await upstream.connect("broker.internal", 9092)
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert await said_back(connected, b"hello") == b"world"
        assert read[0].splitlines()[0] == request.splitlines()[0]
    with pytest.raises(UpstreamError, match=rf"no connection to b:1 by http://localhost:{port}: Connection refused"):
        await upstream.connect("b", 1)


async def test_a_proxy_that_does_not_answer_does_not_hang_a_client() -> None:
    async with scripted([(1_000_000, [])]) as (port, _):
        for kind in ("http", "socks5"):
            with pytest.raises(UpstreamError, match=f"no connection to b:1 by {kind}://.*: no answer in time"):
                await Upstream(through=f"{kind}://127.0.0.1:{port}", timeout=0.1).connect("b", 1)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("fd00:ec2::254", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("0.0.0.0", "no address of a broker"),
        ("::", "no address of a broker"),
        ("224.0.0.1", "no address of a broker"),
    ],
)
async def test_a_broker_is_not_where_no_broker_can_be_by_number_or_by_name(address: str, reason: str) -> None:
    named = Upstream(resolver=naming((socket.AF_INET6 if ":" in address else socket.AF_INET, (address, 80))))
    for upstream, host in ((Upstream(), address), (named, "broker")):
        assert upstream.resolved(host, 80) is None
        with pytest.raises(UpstreamError, match=reason):
            await upstream.connect(host, 80)
        assert upstream.resolved(host, 80) is None


def test_link_local_brokers_may_be_allowed() -> None:
    upstream = Upstream(allow_link_local=True)
    assert upstream.resolved("169.254.0.5", 9092) == at("169.254.0.5", 9092)


async def test_what_the_caller_tried_itself_counts_too() -> None:
    upstream = Upstream(resolver=naming(at("127.0.0.2", 1), at("127.0.0.1", 1)))
    with pytest.raises(UpstreamError):
        await upstream.connect("broker", 1)
    upstream.note_attempt(at("127.0.0.2", 1), True)
    assert upstream.resolved("broker", 1) == at("127.0.0.2", 1)
    upstream.note_attempt(at("127.0.0.2", 1), False)
    upstream.note_attempt(at("127.0.0.2", 1), False)
    assert upstream.delay() == 0.2


def test_as_the_configuration_says() -> None:
    cluster = Cluster(
        listen=":0",
        bootstrap=["127.0.0.1:1"],
        through="socks5://proxy",
        send_proxy_protocol="v2",
        addresses=Addresses(allow_link_local=True),
    )
    upstream = Upstream.of(cluster, 1.0)
    assert not upstream.direct
    header = upstream.proxy_header("10.0.0.1:5", "10.0.0.2:6")
    assert read_header(header) == Header(2, len(header), "10.0.0.1:5", "10.0.0.2:6")
    assert Upstream(send_proxy_protocol="v1").proxy_header("10.0.0.1:5", "10.0.0.2:6").startswith(b"PROXY TCP4 ")
    assert (Upstream().own_proxy_header(), Upstream(send_proxy_protocol="v1").own_proxy_header()) == (
        b"",
        b"PROXY UNKNOWN\r\n",
    )
    assert Upstream().proxy_header("10.0.0.1:5", "10.0.0.2:6") == b""
    with pytest.raises(UsageError, match="host:port"):
        Upstream(["broker"])
