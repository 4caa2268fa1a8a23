"""Serving pages: the listening socket, and what a client sees of the server's settings."""

import asyncio
import errno
import http.client
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeVar

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kproxy.proxy.network.http_server import MOST_REQUESTS, PageServer
from kproxy.proxy.network.listening import listen_for_pages
from tests.support.ports import free_ports

PATIENCE_S = 60


T = TypeVar("T")


async def told(request: Request) -> PlainTextResponse:
    """Who asked, as the server knows it."""
    assert request.client is not None
    with suppress(ClientDisconnect):
        await request.body()
    return PlainTextResponse(request.client.host)


def while_served(ask: Callable[[int], T]) -> T:
    """What a function in a thread sees at the port of a served application."""

    async def main() -> T:
        app = Starlette(routes=[Route("/", told, methods=["GET", "POST"])])
        with listen_for_pages("127.0.0.1", 0) as listener:
            server = PageServer(app, listener)
            await server.start()
            try:
                return await asyncio.to_thread(ask, listener.getsockname()[1])
            finally:
                await server.stop()

    return asyncio.run(main())


def get(port: int, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, body, headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/", headers={name.replace("_", "-"): value for name, value in headers.items()})
    with connection.getresponse() as answer:
        body = answer.read()
        connection.close()
        return answer.status, body, {name.lower(): value for name, value in answer.getheaders()}


def test_answers_tell_nothing_of_the_server() -> None:
    assert sorted(while_served(get)[2]) == ["content-length", "content-type"]


def test_no_header_says_that_another_one_asked() -> None:
    forged = {"x_forwarded_for": "10.9.8.7", "forwarded": "for=10.9.8.7", "x_real_ip": "10.9.8.7"}
    assert while_served(lambda port: get(port, **forged))[1] == b"127.0.0.1"


def said(connection: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    found = b""
    with suppress(ConnectionError):  # it was closed before all that was sent to it was read
        while data := connection.recv(65_536):
            found += data
    return found


SLOW = {
    "nothing": b"",
    "half of a request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
    "half of a body": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nhalf",
}


@pytest.mark.parametrize("sent", list(SLOW.values())[:2], ids=list(SLOW)[:2])
def test_connections_on_which_no_request_comes_hold_no_others_up(sent: bytes) -> None:
    def ask(port: int) -> tuple[list[int], bytes]:
        with ExitStack() as open_:
            waiting = []
            for _ in range(2 * MOST_REQUESTS):
                waiting.append(open_.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S)))
                waiting[-1].sendall(sent)
            found = [get(port)[0] for _ in range(3)]
            return found, said(waiting[0])  # has waited for longest

    assert while_served(ask) == ([200] * 3, b"")


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
def test_they_are_closed_after_a_while(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.network.http_server.REQUEST_S", 0.1)

    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as waiting:
            waiting.sendall(sent)
            return said(waiting)

    assert while_served(ask) == b""


NO_HTTP = {
    "a body without its end": b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
    "Kafka": b"\0\0\0\x20\0\x12\0\x03\0\0\0\1\0\0" + bytes(18),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a large header": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000,
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_refused_without_a_line_in_the_log(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    def ask(port: int) -> int:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as one, suppress(ConnectionError):
            one.sendall(sent)
            said(one)
        return get(port)[0]

    assert while_served(ask) == 200
    assert caplog.records == []


def test_requests_that_are_answered_slowly_are_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.network.http_server.REQUEST_S", 0.5)

    async def slow(_request: Request) -> PlainTextResponse:
        await asyncio.sleep(0.7)
        return PlainTextResponse("here")

    monkeypatch.setitem(globals(), "told", slow)
    assert while_served(get)[:2] == (200, b"here")


def test_an_address_in_use_is_an_error_and_one_that_was_left_is_free() -> None:
    with listen_for_pages("127.0.0.1", free_ports()) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            listen_for_pages("127.0.0.1", port)
        assert caught.value.errno == errno.EADDRINUSE
    listen_for_pages("127.0.0.1", port).close()


def test_without_a_host_it_is_reached_over_both_families() -> None:
    port = free_ports()
    with listen_for_pages("", port):
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), 20).close()


def test_ipv6() -> None:
    try:
        listener = listen_for_pages("::1", free_ports())
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert listener.family == socket.AF_INET6
    listener.close()
