"""Requests forwarded over a Unix socket, between two real HTTP servers' implementations: h11 here, uvicorn behind."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kproxy.proxy.network.http_server import listen_for_pages, server_settings
from kproxy.proxy.supervisor.forwarding_page import forward

LOOP = "asyncio"  # as the supervisor has
BIG = bytes(range(256)) * 4_096


async def echo(request: Request) -> Response:
    body = await request.body()
    shown = {
        "method": request.method,
        "path": request.url.path,
        "query": request.url.query,
        "host": request.headers.get("host"),
        "cookie": request.headers.get("cookie"),
        "connection": request.headers.get("connection"),
        "size": len(body),
        "framing": sorted(set(request.headers) & {"content-length", "transfer-encoding", "expect", "te", "upgrade"}),
    }
    return JSONResponse(shown, 203, {"set-cookie": "a=b; HttpOnly", "content-security-policy": "default-src 'none'"})


async def big(_request: Request) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(BIG), 10_000):
            yield BIG[at : at + 10_000]

    return StreamingResponse(parts())


class Endless:
    """A stream that ends when its reader has gone."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def answer(self, _request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"data: x\n\n"
                    await asyncio.sleep(0.01)
            finally:
                self.ended.set()

        return StreamingResponse(parts())


class Huge:
    """A download, and how much of it was asked for."""

    size = 128 << 20  # bytes: more than sockets and servers hold on the way
    sent = 0

    @classmethod
    async def answer(cls, _request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            cls.sent = 0
            while cls.sent < cls.size:
                cls.sent += len(BIG)
                yield BIG

        return StreamingResponse(parts())


@contextlib.asynccontextmanager
async def page(path: Path, endless: Endless | None = None) -> AsyncIterator[None]:
    routes = [
        Route("/big", big),
        Route("/huge", Huge.answer),
        Route("/endless", big if endless is None else endless.answer),
        Route("/{rest:path}", echo, methods=["GET", "POST", "PUT"]),
    ]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    settings = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off", ws="none", http="h11")
    async with serving(listener, settings):
        yield


@contextlib.asynccontextmanager
async def serving(listener: socket.socket, settings: uvicorn.Config) -> AsyncIterator[None]:
    """An HTTP server in this event loop."""
    listener.listen()
    server = uvicorn.Server(settings)
    settings.load()
    server.lifespan = settings.lifespan_class(settings)
    await server.startup(sockets=[listener])
    try:
        yield
    finally:
        await server.shutdown(sockets=[listener])
        listener.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "http"


def client(path: Path) -> httpx.AsyncClient:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await forward(str(path), scope, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9644")


async def test_requests_and_answers_pass_as_they_are(path: Path) -> None:
    async with page(path), client(path) as asked:
        answer = await asked.get("/page/%41?filter=a%20b", headers={"cookie": "k=v", "connection": "keep-alive"})
        assert answer.status_code == 203
        assert answer.headers["set-cookie"] == "a=b; HttpOnly"
        assert answer.headers["content-security-policy"] == "default-src 'none'"
        found: dict[str, Any] = answer.json()
        assert (found["path"], found["query"], found["host"]) == ("/page/A", "filter=a%20b", "127.0.0.1:9644")
        assert (found["method"], found["cookie"], found["size"]) == ("GET", "k=v", 0)
        assert (await asked.get("/big")).content == BIG


SMUGGLED = b"GET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-length": "4"},
        {"content-length": "0", "transfer-encoding": "chunked"},
        {"transfer-encoding": "chunked"},
        {"content-length": "7", "expect": "100-continue", "te": "trailers", "upgrade": "h2c"},
    ],
)
async def test_what_a_request_carries_is_not_passed_on_so_that_it_cannot_be_another_request(
    path: Path, headers: dict[str, str]
) -> None:
    async with page(path), client(path) as asked:
        answer = await asked.request("GET", "/x", content=SMUGGLED, headers=headers)
        found = answer.json()
        assert (found["path"], found["size"], found["framing"]) == ("/x", 0, [])


async def test_a_browser_that_leaves_ends_the_stream(path: Path) -> None:
    endless = Endless()
    gone = asyncio.Event()
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if len(parts) < 2:
            await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            parts.append(message["body"])
            if len(parts) == 2:
                gone.set()

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/endless",
        "raw_path": b"/endless",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
    }
    async with page(path, endless):
        async with asyncio.timeout(60):
            await forward(str(path), scope, receive, send)
            await endless.ended.wait()
    assert parts[0].startswith(b"data: x\n\n")


async def test_a_download_waits_for_a_browser_that_does_not_read_and_others_are_answered(path: Path) -> None:
    """As at the admin port: nothing of the download is collected here; what was on its way arrives when it is read."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await forward(str(path), scope, receive, send)

    listener = listen_for_pages("127.0.0.1", 0)
    listener.setblocking(False)
    address = listener.getsockname()
    async with page(path), serving(listener, server_settings(app)), asyncio.timeout(120):
        reader, writer = await asyncio.open_connection(*address[:2], limit=1 << 16)
        writer.write(b"GET /huge HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        base = f"http://127.0.0.1:{address[1]}"
        async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False) as others:
            for _ in range(50):
                assert (await others.get("/something")).status_code == 203
        assert 0 < Huge.sent < Huge.size / 2
        got = 0
        while data := await reader.read(1 << 20):
            got += len(data)
        writer.close()
        assert got > Huge.size  # and the sizes of its parts
        assert Huge.sent == Huge.size


def test_a_page_that_is_gone_is_an_error(path: Path) -> None:
    async def work() -> None:
        async with client(path) as asked:
            await asked.get("/")

    with pytest.raises(OSError, match="No such file"):
        asyncio.run(work())


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "application/octet-stream"])
def test_a_stream_of_events_ends_where_the_page_is_killed_and_a_download_is_cut(
    path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def killed(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode() + b"9\r\ndata: x\n\n\r\n")
        await writer.drain()
        writer.close()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(h11.ProtocolError):  # as LivePage, which logs it
            await forward(str(path), scope, receive, send)

    async def work() -> bytes:
        listener = listen_for_pages("127.0.0.1", 0)
        listener.setblocking(False)
        address = listener.getsockname()
        page = await asyncio.start_unix_server(killed, path)
        async with page, serving(listener, server_settings(app)), asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(*address[:2])
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    _, _, body = asyncio.run(work()).partition(b"\r\n\r\n")
    is_of_events = kind.startswith("text/event-stream")
    assert body == b"9\r\ndata: x\n\n\r\n" + (b"0\r\n\r\n" if is_of_events else b""), "no download looks whole"
    logged = [record for record in caplog.records if record.name.startswith("uvicorn")]
    assert not (is_of_events and logged)
