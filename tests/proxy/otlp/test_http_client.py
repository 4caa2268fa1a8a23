"""HttpClient before collectors that answer, refuse, hang, stop in the middle, or are no collectors at all."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable

import pytest

from kproxy.proxy.otlp.http_client import HttpClient
from kproxy.proxy.otlp.transport import Delivered, Outcome, Refused, Unavailable
from tests.support.certificates import certificates
from tests.support.loops import LOOPS, run
from tests.support.otlp import Answer, Collector, http_collector
from tests.support.ports import free_ports

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def client(
    port: int, *, host: str = "127.0.0.1", timeout: float = 30, context: ssl.SSLContext | None = None
) -> HttpClient:
    return HttpClient(host, port, "/v1/traces", {}, timeout=timeout, context=context)


async def sent(to: HttpClient, count: int = 1) -> list[Outcome]:
    try:
        return [await to.send(b"") for _ in range(count)]
    finally:
        to.close()


def port_of(collector: Collector) -> int:
    return int(collector.address.rpartition(":")[2])


async def scripted(serve: Serve, count: int = 1, timeout: float = 30) -> list[Outcome]:
    """What becomes of requests to a server that does with each connection what *serve* does."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        return await sent(client(server.sockets[0].getsockname()[1], timeout=timeout), count)


def answering(data: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()

    return serve


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((200, {}, b""), Delivered()),
        ((202, {}, b""), Delivered()),
        ((200, {}, b"<html>"), Refused("the answer is not that of a collector of OTLP")),
        ((200, {}, bytes(70_000)), Refused("the answer has more than 65,536 bytes")),
        ((400, {}, b"secret"), Refused("HTTP 400")),
        ((401, {}, b""), Refused("HTTP 401")),
        ((307, {"Location": "http://elsewhere/"}, b""), Refused("HTTP 307")),
        ((500, {}, b""), Refused("HTTP 500")),
        ((429, {"Retry-After": "7"}, b""), Unavailable("HTTP 429", 7.0)),
        ((503, {"Retry-After": "99999"}, b""), Unavailable("HTTP 503", 60.0)),
        ((503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, b""), Unavailable("HTTP 503")),
        ((502, {}, b""), Unavailable("HTTP 502")),
        ((504, {}, b""), Unavailable("HTTP 504")),
    ],
)
def test_answers(answer: Answer, outcome: Outcome) -> None:
    with http_collector() as collector:
        collector.answer = lambda number: answer
        assert run("asyncio", sent(client(port_of(collector)), 2)) == [outcome, outcome]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_is_kept_and_made_anew_when_it_was_closed(loop: str) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(2):  # then it is closed without a word, as servers do with idle connections
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    assert run(loop, scripted(serve, 6)) == [Delivered()] * 6
    assert connections == 3


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        bytes(100_000),
    ],
)
def test_what_is_no_http_is_refused(data: bytes) -> None:
    [outcome] = run("asyncio", scripted(answering(data)))
    assert isinstance(outcome, Refused)
    assert "not HTTP" in outcome.reason


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
def test_an_answer_that_ends_early_may_come_later(data: bytes) -> None:
    [outcome] = run("asyncio", scripted(answering(data)))
    assert isinstance(outcome, Unavailable | Refused)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_hangs_or_drips_is_given_up(loop: str) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    for serve in (drip, hang):
        assert run(loop, scripted(serve, timeout=0.3)) == [Unavailable("no answer within 0.3 s")]


def test_no_one_there_and_no_such_name() -> None:
    assert run("asyncio", sent(client(free_ports()))) == [Unavailable("Connection refused")]
    [outcome] = run("asyncio", sent(client(1, host="no-such-host.invalid")))
    assert isinstance(outcome, Unavailable)
    assert "no-such-host.invalid" in outcome.reason


def test_a_name_that_hangs_holds_up_neither_the_request_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [over.wait()][1:])
    to = HttpClient("c", 1, "/", {}, timeout=0.2)
    assert run("asyncio", sent(to)) == [Unavailable("no answer within 0.2 s")]
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "export")
    over.set()


def test_tls_is_verified() -> None:
    made = certificates()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.server.certificate, made.server.key)
    with http_collector(server) as collector:
        trusted = ssl.create_default_context(cafile=made.ca)
        other = ssl.create_default_context(cafile=made.other_ca)
        assert run("uvloop", sent(client(port_of(collector), context=trusted))) == [Delivered()]
        [outcome] = run("uvloop", sent(client(port_of(collector), context=other)))
    assert isinstance(outcome, Unavailable)
    assert outcome.reason.startswith("TLS: ")
