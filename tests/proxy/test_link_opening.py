"""Links that begin with more than two sockets: names, PROXY headers in and out, SNI, targets that the kernel knows."""

import asyncio
import contextlib
import gc
import itertools
import json
import resource
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.config.structs import Addresses, BrokerTls, ListenerTls, Timeouts
from kproxy.proxy.network.proxy_protocol import write_v1, write_v2
from kproxy.proxy.network.tls import broker_context
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.conftest import Require
from tests.proxy.network.test_upstream import program
from tests.proxy.test_virtual_cluster import BEAT, BEATEN
from tests.support import peers
from tests.support.certificates import certificates
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.links import request
from tests.support.peers import Peer, Script, ScriptedBroker
from tests.support.ports import free_ports
from tests.support.redirected import REQUEST, RESPONSE
from tests.support.sockets import address
from tests.support.virtual_clusters import Broker, ask, front

FIXED = Addresses(mode="fixed")
LISTENER = ListenerTls(certificate=certificates().server.certificate, key=certificates().server.key)
# From the examples of haproxy's doc/proxy-protocol.txt, sections 2.1 and 2.2
V1 = b"PROXY TCP4 203.0.113.7 198.51.100.2 56324 443\r\n"
V2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes((203, 0, 113, 7, 198, 51, 100, 2)) + b"\xdc\x04\x01\xbb"
LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
LATER_NS = 3_600_000_000_000  # when every timeout is over


async def test_a_broker_that_has_a_name_is_found_and_then_connected_to_straight() -> None:
    async with Broker() as broker, front(f"localhost:{broker.port}", addresses=FIXED) as proxy:
        for number in range(4):
            reader, writer = await proxy.connect()
            assert len(await ask(reader, writer, request(12, 0, number))) == 11
            writer.close()
        assert broker.came == 4


@pytest.mark.parametrize("piece", [1, 5, 1_000])
@pytest.mark.parametrize(("header", "client"), [(V1, "203.0.113.7:56324"), (V2, "203.0.113.7:56324"), (LOCAL, None)])
async def test_the_client_is_who_the_balancer_says(header: bytes, client: str | None, piece: int) -> None:
    async with Broker() as broker, front(broker.address, addresses=FIXED, proxy_protocol=True) as proxy:
        reader, writer = await proxy.connect()
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = header + BEAT
        for at in range(0, len(sent), piece):
            writer.write(sent[at : at + piece])
            await asyncio.sleep(0)
        assert await reader.readexactly(11) == b"\0\0\0\7\0\0\0\1\0\1t"
        link = next(iter(proxy.worker.links))
        own = "{}:{}".format(*writer.get_extra_info("sockname"))
        assert proxy.cluster.row_of(link, 0, 0).client == (client or own)
        writer.close()


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", BEAT, b"PROXY TCP4 nobody\r\n", V2[:12] + b"\x31" + V2[13:]])
async def test_without_a_proxy_header_nobody_comes_in(start: bytes) -> None:
    async with front("127.0.0.1:1", addresses=FIXED, proxy_protocol=True) as proxy:
        reader, writer = await proxy.connect()
        writer.write(start)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        await proxy.until(lambda: not proxy.worker.links)
        assert proxy.causes == {CloseCause.PROXY_PROTOCOL: 1}
        writer.close()


async def test_promise_4_half_a_header_costs_no_time() -> None:
    """Whoever waits for the rest must not be woken by what has come already."""
    async with front("127.0.0.1:1", addresses=FIXED, proxy_protocol=True) as proxy:
        clients = [await proxy.connect() for _ in range(20)]
        for _, writer in clients:
            writer.write(V1[:20])
        await proxy.until(lambda: proxy.total(Total.CONNECTIONS_OPEN) == 20)
        await asyncio.sleep(0.05)
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.sleep(0.5)
        after = resource.getrusage(resource.RUSAGE_SELF)
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.25
        for _, writer in clients:
            writer.close()
        await proxy.until(lambda: not proxy.worker.links)


async def test_a_link_that_is_closed_while_it_opens_leaves_the_next_connection_alone() -> None:
    """Its socket's number is soon another's: nothing of the first may still watch it."""
    broker = Broker()
    quick = Timeouts(first_request=0.7, connect=0.8)  # together the time to open, of which no event tells
    async with broker, front(broker.address, addresses=FIXED, proxy_protocol=True, timeouts=quick) as proxy:
        reader, writer = await proxy.connect()
        writer.write(V1[:10])
        await proxy.until(lambda: proxy.worker.links)
        proxy.cluster.tick(time.monotonic_ns() + LATER_NS)
        assert not proxy.worker.links
        others = [await proxy.connect() for _ in range(5)]
        for reader, other in others:
            other.write(V1 + BEAT)
            assert await reader.readexactly(11) == b"\0\0\0\7\0\0\0\1\0\1t"
        await proxy.until(lambda: not proxy.cluster._tasks)  # the first one's time to open is over
        for reader, other in others:
            other.write(BEAT)
            assert await reader.readexactly(11) == b"\0\0\0\7\0\0\0\1\0\1t"
            other.close()
        writer.close()
        await proxy.until(lambda: not proxy.worker.links)
        assert proxy.causes[CloseCause.FIRST_REQUEST_TIMEOUT] == 1


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_the_broker_is_told_who_the_client_is(version: str) -> None:
    async with Broker() as broker, front(broker.address, addresses=FIXED, send_proxy_protocol=version) as proxy:
        reader, writer = await proxy.connect()
        host, port = writer.get_extra_info("sockname")
        line = f"PROXY TCP4 {host} 127.0.0.1 {port} {proxy.port}\r\n".encode()
        ends = port.to_bytes(2, "big") + proxy.port.to_bytes(2, "big")
        expected = line if version == "v1" else V2[:16] + socket.inet_aton("127.0.0.1") * 2 + ends
        broker.reads_preamble = len(expected)
        assert len(await ask(reader, writer, BEAT)) == 11
        assert broker.preamble == expected
        writer.close()


async def test_the_servers_name_says_which_broker() -> None:
    async with Broker() as here, Broker() as there:
        here.brokers = there.brokers = [(4, "localhost", here.port), (5, "localhost", there.port)]
        sni = Addresses(mode="sni", broker_name="broker-{node_id}.kafka.test")
        async with front(f"localhost:{here.port}", addresses=sni, listener_tls=LISTENER) as proxy:
            context = broker_context(BrokerTls(ca=certificates().ca))
            came = {}
            for name in ("broker-5.kafka.test", "broker-4.kafka.test", "localhost"):
                before = here.came, there.came
                reader, writer = await proxy.connect(ssl=context, server_hostname=name)
                await ask(reader, writer, BEAT)
                came[name] = here.came - before[0], there.came - before[1]
                told: Any = await ask(reader, writer, request(3, 1, 9, b"\xff\xff\xff\xff"))
                assert b"broker-4.kafka.test" in told and b"broker-5.kafka.test" in told
                assert told.count(proxy.port.to_bytes(4, "big")) == 2
                writer.close()
            assert came == {"broker-5.kafka.test": (0, 1), "broker-4.kafka.test": (1, 0), "localhost": (1, 0)}


async def test_a_name_that_is_nobodys() -> None:
    async with front("no-such-host.invalid:9092", addresses=FIXED) as proxy:
        reader, writer = await proxy.connect()
        assert await reader.read() == b""
        assert proxy.causes == {CloseCause.UPSTREAM_UNREACHABLE: 1}
        assert proxy.total(Total.UPSTREAM_CONNECT_FAILURES) == 1
        writer.close()


async def test_attack_20_whom_nothing_redirected_goes_nowhere() -> None:
    async with front("", addresses=Addresses(mode="transparent")) as proxy:
        reader, writer = await proxy.connect()
        assert await reader.read() == b""
        assert proxy.causes == {CloseCause.LOOP: 1}
        writer.close()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_every_way_of_not_beginning_leaves_no_descriptor() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    where = silent.getsockname()[1]
    quick = Timeouts(first_request=0.05, connect=0.05)
    words: dict[str, Any] = {"listener_tls": LISTENER, "broker_tls": BrokerTls(ca=certificates().ca)}
    context = broker_context(BrokerTls(ca=certificates().ca))
    async with front(f"localhost:{where}", addresses=FIXED, timeouts=quick, **words) as proxy:
        before = 0
        for _ in range(3):
            for tls in ({}, {"ssl": context, "server_hostname": "localhost"}):
                try:
                    _, writer = await proxy.connect(**tls)
                except OSError:
                    continue
                proxy.cluster.tick(time.monotonic_ns() + LATER_NS)
                writer.transport.abort()
            await proxy.until(lambda: not proxy.worker.links and not proxy.cluster._tasks)
            gc.collect()  # what other tests left may be collected at any time
            before = before or descriptors()
            await proxy.until(lambda before=before: descriptors() <= before)  # transports close in the next turn
    silent.close()


async def test_a_connection_as_it_is_shown_and_told_of() -> None:
    async with Broker() as broker, front(broker.address) as proxy:
        reader, writer = await proxy.connect(proxy.port + 1)
        await ask(reader, writer, BEAT)
        link = next(iter(proxy.worker.links))
        row = msgspec.to_builtins(proxy.cluster.row_of(link, time.monotonic_ns(), 5))
        client = "{}:{}".format(*writer.get_extra_info("sockname"))
        assert 0 <= row.pop("idle_s") <= row.pop("age_s") < 60
        assert row == {
            "worker": 5,
            "number": link.number,
            "cluster": "default",
            "client": client,
            "broker": broker.address,
            "node_id": 0,
            "requests": 1,
            "responses": 1,
            "request_bytes": len(BEAT),
            "response_bytes": len(BEATEN),
            "in_flight": 0,
            "last_api": "Heartbeat",
            "tls": False,
        }
        told = json.loads(proxy.cluster.describe(link, True))
        assert (told["client"], told["broker"], told["from_start"]) == (client, row["broker"], True)
        writer.close()


CLIENT, BALANCER = "192.0.2.7:1234", "198.51.100.9:9092"


def answering(peer: Peer) -> None:
    """Answer every request as one for ApiVersions."""
    while True:
        peer.send(RESPONSE[:4] + peer.frame()[8:12] + RESPONSE[8:])


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    with contextlib.ExitStack() as stack:

        def start(script: Script = answering, *, host: str = "127.0.0.1", **settings: Any) -> Proxy:
            _, port = address(stack.enter_context(ScriptedBroker(script)).address)
            ours = cluster([f"{host}:{port}"], **settings)
            proxy = Proxy(tmp_path / "kproxy", [ours], analysis={"enabled": False})
            stack.callback(proxy.close)
            return proxy.start()

        yield start


def connected(proxy: Proxy) -> Peer:
    return peers.client(proxy.bootstrap())


def ask_through(client: Peer) -> bytes:
    client.send(REQUEST)
    return client.exactly(len(RESPONSE))


def known(proxy: Proxy) -> list[str]:
    rows = proxy.connections()
    rows = rows["connections"] if isinstance(rows, dict) else rows
    return [row["client"] for row in rows]


def test_a_client_is_who_the_balancer_says_and_none_without_a_header(begin: Callable[..., Proxy]) -> None:
    proxy = begin(proxy_protocol=True)
    for write, piece in itertools.product((write_v1, write_v2), (1_000, 1)):
        header = write(CLIENT, BALANCER)
        with connected(proxy) as client:
            for at in range(0, len(header), piece):
                client.send(header[at : at + piece])
            assert ask_through(client) == RESPONSE
            assert known(proxy)[-1] == CLIENT
    for count, start in enumerate((REQUEST, b"PROXY TCP9 x\r\n", b"\r\n\r\n\x00\r\nQUIX\n"), 1):
        with connected(proxy) as client:
            client.send(start)
            assert client.closed()
        assert proxy.count("kproxy_connections_closed_total", "proxy_protocol") == count, proxy.metrics()


def test_brokers_behind_a_socks_proxy(require: Require, begin: Callable[..., Proxy]) -> None:
    require("proxies", shutil.which("microsocks"), "microsocks is not installed")
    port = free_ports()
    with program(port, "microsocks", "-i", "127.0.0.1", "-p", str(port), "-u", "alice", "-P", "s3cr3t"):
        proxy = begin(host="localhost", through=f"socks5://alice:s3cr3t@127.0.0.1:{port}")
        with connected(proxy) as client:
            assert ask_through(client) == RESPONSE
    assert "s3cr3t" not in proxy.log.read_text(encoding="utf-8")


def client_context(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificates().client.certificate, certificates().client.key)
    return context


def test_tls_on_both_legs_each_with_its_own_identity(begin: Callable[..., Proxy]) -> None:
    files = certificates()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca)
    context.load_cert_chain(files.server.certificate, files.server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    subjects: list[Any] = []

    def over_tls(peer: Peer) -> None:
        wrapped = context.wrap_socket(peer.socket, server_side=True)
        with Peer(wrapped) as talking:
            subjects.append(wrapped.getpeercert())
            answering(talking)

    listener = {"certificate": files.server.certificate, "key": files.server.key}
    proxy = begin(
        over_tls,
        listener_tls={**listener, "client_ca": files.ca, "client_auth": "required"},
        broker_tls={"ca": files.ca, "certificate": files.client.certificate, "key": files.client.key},
    )
    with (
        connected(proxy) as plain,
        Peer(client_context(files.ca).wrap_socket(plain.socket, server_hostname="broker.test")) as client,
    ):
        assert ask_through(client) == RESPONSE
        assert ((("commonName", "alice"),)) in subjects[-1]["subject"]
    with connected(proxy) as plain:
        plain.send(REQUEST)  # no TLS
        assert RESPONSE not in plain.rest()
    assert proxy.count("kproxy_connections_closed_total", "tls_client") == 1, proxy.metrics()
