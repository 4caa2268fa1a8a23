"""Reaching brokers: every address in turn, in bounded time, straight or through a proxy; what a failure says and costs."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.config.structs import Cluster
from kproxy.errors import UpstreamError, UsageError
from kproxy.proxy.network.outbound_proxy import OutboundProxy
from kproxy.proxy.network.proxy_protocol import Header, read_header
from kproxy.proxy.network.upstream import CACHED_S, FAILED_S, FAILURE_CACHED_S, MOST_NAMES, Address, Resolver, Upstream
from tests.conftest import Require
from tests.support.backend import echo, said_back, scripted
from tests.support.loops import LOOPS, run
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


LINK_LOCAL = ("169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254")


@pytest.mark.parametrize("address", [*LINK_LOCAL, "0.0.0.0", "::", "224.0.0.1"])
async def test_a_broker_is_not_where_no_broker_can_be_by_number_or_by_name(address: str) -> None:
    reason = "link-local" if address in LINK_LOCAL else "no address of a broker"
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
    more: dict[str, Any] = {"through": "socks5://proxy", "send_proxy_protocol": "v2"}
    upstream = Upstream.of(Cluster(listen=":0", bootstrap=["127.0.0.1:1"], **more), 1.0)
    assert upstream.resolved("127.0.0.1", 1) is None  # it goes through the proxy
    header = upstream.proxy_header("10.0.0.1:5", "10.0.0.2:6")
    assert read_header(header) == Header(2, len(header), "10.0.0.1:5", "10.0.0.2:6")
    assert Upstream(send_proxy_protocol="v1").proxy_header("10.0.0.1:5", "10.0.0.2:6").startswith(b"PROXY TCP4 ")
    assert Upstream().own_proxy_header() == b""
    assert Upstream(send_proxy_protocol="v1").own_proxy_header() == b"PROXY UNKNOWN\r\n"
    assert Upstream().proxy_header("10.0.0.1:5", "10.0.0.2:6") == b""
    with pytest.raises(UsageError, match="host:port"):
        Upstream(["broker"])


ONE: Address = (socket.AF_INET, ("192.0.2.1", 9092))
TWO: Address = (socket.AF_INET, ("192.0.2.2", 9092))


class Names:
    """A name service of the test's own, with a clock."""

    def __init__(self, *addresses: Address) -> None:
        self.addresses = list(addresses)
        self.error: Exception | None = None
        self.asked: list[str] = []
        self.clock = 1_000.0

    async def question(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return self.addresses

    def resolver(self) -> Resolver:
        return Resolver(self.question, lambda: self.clock)


@pytest.mark.parametrize("loop", LOOPS)
async def test_the_system_knows_this_host_and_not_that_one(loop: str) -> None:
    resolver = Resolver()
    assert resolver.known("localhost", 9092) == []
    expected = {(int(found[0]), found[4]) for found in socket.getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)}
    assert set(await resolver.addresses("localhost", 9092)) == expected
    assert set(resolver.known("localhost", 9092)) == expected
    for host in ("no-such-host.invalid", "a" * 70 + ".example", "nul\x00.example", ""):
        with pytest.raises(UpstreamError, match=r"^[^\n]*: [^\n]+$"):
            await resolver.addresses(host, 9092)


def test_numbers_are_never_asked_for() -> None:
    names = Names()
    resolver = names.resolver()
    assert resolver.known("192.0.2.1", 9092) == [ONE]
    assert run("uvloop", resolver.addresses("::1", 9092)) == [(socket.AF_INET6, ("::1", 9092, 0, 0))]
    assert names.asked == []


async def test_a_burst_is_one_question_and_its_answer_is_remembered_for_30_seconds() -> None:
    names = Names(ONE, TWO, ONE)
    resolver = names.resolver()
    answers = await asyncio.gather(*(resolver.addresses("broker", 9092) for _ in range(1_000)))
    assert answers == [[ONE, TWO]] * 1_000
    names.clock += CACHED_S - 0.1
    assert await resolver.addresses("broker", 9092) == [ONE, TWO]
    assert names.asked == ["broker"]
    names.clock += 0.2
    assert resolver.known("broker", 9092) == []
    names.addresses = [TWO]
    assert await resolver.addresses("broker", 9092) == [TWO]


async def test_who_gives_up_waiting_does_not_take_the_answer_from_the_others() -> None:
    names = Names(ONE)
    resolver = names.resolver()
    first = asyncio.ensure_future(resolver.addresses("broker", 9092))
    second = asyncio.ensure_future(resolver.addresses("broker", 9092))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == [ONE]


async def test_a_name_that_is_not_known_is_asked_for_once_a_second() -> None:
    names = Names()
    names.error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    resolver = names.resolver()
    for _ in range(10):
        with pytest.raises(UpstreamError, match="broker: Name or service not known"):
            await resolver.addresses("broker", 9092)
    assert len(names.asked) == 1
    names.clock += FAILURE_CACHED_S + 0.1
    names.error, names.addresses = None, [ONE]
    assert await resolver.addresses("broker", 9092) == [ONE]


async def test_an_old_answer_is_better_than_none() -> None:
    names = Names(ONE)
    resolver = names.resolver()
    await resolver.addresses("broker", 9092)
    names.error = OSError(5, "Input/output error")
    names.clock += CACHED_S + 1
    assert await resolver.addresses("broker", 9092) == [ONE]
    names.error, names.addresses = None, [TWO]
    names.clock += FAILURE_CACHED_S + 0.1
    assert await resolver.addresses("broker", 9092) == [TWO]


async def test_what_failed_lately_comes_last_until_it_is_reached_or_forgiven() -> None:
    names = Names(ONE, TWO)
    resolver = names.resolver()
    await resolver.addresses("broker", 9092)
    resolver.failed(ONE)
    assert resolver.known("broker", 9092) == [TWO, ONE]
    assert not resolver.failed_lately("broker", 9092)
    resolver.failed(TWO)
    assert resolver.failed_lately("broker", 9092)
    assert not resolver.failed_lately("not-asked", 9092)
    resolver.reached(ONE)
    assert resolver.known("broker", 9092) == [ONE, TWO]
    names.clock += FAILED_S + 0.1
    assert not resolver.failed_lately("192.0.2.2", 9092)


async def test_what_is_remembered_has_bounds() -> None:
    names = Names(*((socket.AF_INET, (f"192.0.2.{last}", 9092)) for last in range(100)))
    resolver = names.resolver()
    for number in range(MOST_NAMES + 1):
        assert len(await resolver.addresses(f"broker-{number}", 9092)) == 16
    assert resolver.known("broker-0", 9092) == []
    assert resolver.known("broker-1", 9092) != []


TINYPROXY = """Port {port}
Listen 127.0.0.1
BasicAuth alice s3cr3t
"""


@contextlib.contextmanager
def program(port: int, *words: str) -> Iterator[None]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.01)
        yield
    finally:
        process.kill()  # tinyproxy misses a SIGTERM that arrives just before its poll
        process.wait()


def own_address(port: int) -> Address:
    return socket.AF_INET, ("127.0.0.1", port)


def connect_and_talk(loop: str, url: str, host: str) -> bytes:
    async def main() -> bytes:
        async with echo() as (port, _):
            through = OutboundProxy.from_url(url)
            connected = await through.connect(own_address(through.port), host, port)
            assert connected.getblocking() is False
            return await said_back(connected, b"hello broker")

    return run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_microsocks_connects_those_who_know_the_password(require: Require, loop: str, host: str) -> None:
    require("proxies", shutil.which("microsocks"), "microsocks is not installed")
    port = free_ports()
    with program(port, "microsocks", "-i", "127.0.0.1", "-p", str(port), "-u", "alice", "-P", "s3cr3t:@"):
        url = f"socks5://alice:s3cr3t%3A%40@127.0.0.1:{port}"
        assert connect_and_talk(loop, url, host) == b"hello broker"
        for wrong in (f"socks5://alice:guess@127.0.0.1:{port}", f"socks5://127.0.0.1:{port}"):
            with pytest.raises(UpstreamError, match=r"^socks5://127.0.0.1:.* does not connect to") as caught:
                connect_and_talk(loop, wrong, host)
            assert "guess" not in str(caught.value)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_tinyproxy_connects_those_who_know_the_password(require: Require, tmp_path: Path, loop: str, host: str) -> None:
    require("proxies", shutil.which("tinyproxy"), "tinyproxy is not installed")
    port = free_ports()
    (tmp_path / "tinyproxy.conf").write_text(TINYPROXY.format(port=port), encoding="utf-8")
    with program(port, "tinyproxy", "-d", "-c", str(tmp_path / "tinyproxy.conf")):
        assert connect_and_talk(loop, f"http://alice:s3cr3t@127.0.0.1:{port}", host) == b"hello broker"
        with pytest.raises(UpstreamError, match=r"does not connect to .*: 40[17] "):
            connect_and_talk(loop, f"http://alice:guess@127.0.0.1:{port}", host)


def dialogue(
    loop: str, url: str, script: list[tuple[int, list[bytes]]], host: str = "kafka"
) -> tuple[list[bytes], bytes]:
    """What the scripted proxy read, and what the client then reads of the broker's."""

    async def main() -> tuple[list[bytes], bytes]:
        async with scripted(script) as (port, read):
            connected = await OutboundProxy.from_url(url.format(port)).connect(own_address(port), host, 9092)
            with connected:
                received = b""
                while piece := await asyncio.get_running_loop().sock_recv(connected, 1):
                    received += piece
            return read, received

    return run(loop, main())


CONNECT = b"CONNECT kafka:9092 HTTP/1.1\r\nHost: kafka:9092\r\n\r\n"
OK = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("pieces", [[OK], [OK[:20], OK[20:]], [OK[i : i + 7] for i in range(0, len(OK), 7)]], ids=len)
def test_an_http_answer_may_come_in_pieces(loop: str, pieces: list[bytes]) -> None:
    read, received = dialogue(loop, "http://127.0.0.1:{}", [(len(CONNECT), pieces), (0, [b"broker"])])
    assert read[0].lower() == CONNECT.lower()  # RFC 9110, section 9.3.6
    assert received == b"broker"


def test_an_http_proxy_may_say_any_of_2xx_and_100_before() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 204 fine\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert dialogue("uvloop", "http://127.0.0.1:{}", [(len(CONNECT), [answer]), (0, [b"broker"])])[1] == b"broker"


@pytest.mark.parametrize("kind", ["IPv4", "IPv6", "name"])
def test_socks5_is_spoken_as_in_rfc_1928_and_1929(kind: str) -> None:
    bound = {"IPv4": b"\x01" + bytes(4), "IPv6": b"\x04" + bytes(16), "name": b"\x03\x05proxy"}[kind]
    target = {"IPv4": b"\x01\x0a\x00\x00\x01", "IPv6": b"\x04" + bytes(15) + b"\x01", "name": b"\x03\x05kafka"}[kind]
    host = {"IPv4": "10.0.0.1", "IPv6": "::1", "name": "kafka"}[kind]
    login = b"\x01\x05alice\x06s3cr3t"
    script = [
        (4, [b"\x05", b"\x02"]),
        (len(login), [b"\x01\x00"]),
        (5 + len(target), [b"\x05\x00\x00", bound[:2], bound[2:] + b"\x04", b"\x38", b"broker"]),
    ]
    read, received = dialogue("uvloop", "socks5://alice:s3cr3t@127.0.0.1:{}", script, host)
    assert sorted(read[0][2:]) == [0, 2]  # no authentication and user/password
    assert read[1:] == [login, b"\x05\x01\x00" + target + (9092).to_bytes(2)]
    assert received == b"broker"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("url", "script"),
    [
        ("http", [(1, [b"HTTP/1.1 403 Forbidden\r\n\r\n"])]),
        ("http", [(1, [b"HTTP/1.1 200 OK\r\n\r\n\x00\x00"])]),  # a broker does not speak first
        ("http", [(1, [b"\x05\x00"])]),
        ("http", [(1, [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000])]),
        ("http", [(1, [b"HTTP/1.1 200 OK\r\n"])]),
        ("http", [(1, [])]),
        ("socks5", [(3, [])]),
        ("socks5", [(3, [b"\x05\xff"])]),
        ("socks5", [(3, [b"\x05\x02"])]),  # wants a password; there is none
        ("socks5", [(3, [b"HTTP/1.1 400 Bad Request\r\n\r\n"])]),
        ("socks5", [(3, [b"\x05\x00"]), (12, [b"\x05\x05\x00\x01" + bytes(6)])]),  # connection refused
        ("socks5", [(3, [b"\x05\x00"]), (12, [b"\x05\x00\x00\x09" + bytes(6)])]),
        ("socks5", [(3, [b"\x05\x00"]), (12, [b"\x05\x00\x00\x03\x02\xff\xff\x00\x00"])]),
        ("socks5", [(3, [b"\x05\x00"]), (12, [b"\x05\x00\x00\x01"])]),
    ],
)
def test_a_proxy_that_refuses_or_answers_badly_is_one_sentence(
    loop: str, url: str, script: list[tuple[int, list[bytes]]]
) -> None:
    with pytest.raises(UpstreamError, match=r"^(http|socks5)://127.0.0.1:\d+ [^\n]*kafka:9092[^\n]*$"):
        dialogue(loop, url + "://127.0.0.1:{}", script)


def test_a_broker_s_name_cannot_add_a_header() -> None:
    with pytest.raises(UpstreamError, match="does not connect"):
        dialogue("uvloop", "http://127.0.0.1:{}", [], "kafka\r\nX: y")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("socks5://proxy", OutboundProxy("socks5", "proxy", 1080)),
        ("http://10.0.0.1", OutboundProxy("http", "10.0.0.1", 3128)),
        ("http://al%40ice:p%3Aw@[::1]:8080/", OutboundProxy("http", "::1", 8080, "al@ice", "p:w")),
    ],
)
def test_urls(url: str, expected: OutboundProxy) -> None:
    assert OutboundProxy.from_url(url) == expected
    assert "p:w" not in f"{expected} {expected!r}"


NO_URLS = (
    *("", "proxy:1080", "http://", "http://:80", "http://u:s3cr3t@[::1", "https://u:s3cr3t@proxy"),
    *(f"http://u:s3cr3t@{rest}" for rest in ("h:99999", "h:x", "h/path")),
    *("socks4://u:s3cr3t@proxy", "socks5://u:s3cr3t@h?x=1"),
)


@pytest.mark.parametrize("url", NO_URLS)
def test_what_is_no_such_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        OutboundProxy.from_url(url)
    assert "s3cr3t" not in str(caught.value)
