"""OutboundProxy another proxy: microsocks and tinyproxy as referees, the RFCs' bytes, and proxies that answer badly."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.errors import UpstreamError, UsageError
from kproxy.proxy.network.outbound_proxy import OutboundProxy
from kproxy.proxy.network.resolver import Address
from tests.conftest import Require
from tests.support.backend import echo, said_back, scripted
from tests.support.loops import LOOPS, run
from tests.support.ports import free_ports

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
        process.terminate()
        process.wait(10)


def at(port: int) -> Address:
    return socket.AF_INET, ("127.0.0.1", port)


def connect_and_talk(loop: str, url: str, host: str) -> bytes:
    async def main() -> bytes:
        async with echo() as (port, _):
            through = OutboundProxy.from_url(url)
            connected = await through.connect(at(through.port), host, port)
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
            connected = await OutboundProxy.from_url(url.format(port)).connect(at(port), host, 9092)
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


@pytest.mark.parametrize(
    "url",
    [
        "",
        "proxy:1080",
        "socks4://u:s3cr3t@proxy",
        "https://u:s3cr3t@proxy",
        "http://",
        "http://:80",
        "http://u:s3cr3t@h:99999",
        "http://u:s3cr3t@h:x",
        "http://u:s3cr3t@h/path",
        "socks5://u:s3cr3t@h?x=1",
        "http://u:s3cr3t@[::1",
    ],
)
def test_what_is_no_such_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        OutboundProxy.from_url(url)
    assert "s3cr3t" not in str(caught.value)
