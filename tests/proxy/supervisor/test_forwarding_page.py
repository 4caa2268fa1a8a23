"""Requests forwarded over a Unix socket, between two real HTTP servers' implementations: h11 here, uvicorn behind."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kproxy.proxy.supervisor.forwarding_page import forward

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


@contextlib.asynccontextmanager
async def page(path: Path, endless: Endless | None = None) -> AsyncIterator[None]:
    routes = [
        Route("/big", big),
        Route("/endless", big if endless is None else endless.answer),
        Route("/{rest:path}", echo, methods=["GET", "POST", "PUT"]),
    ]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    settings = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off", ws="none", http="h11")
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


def test_requests_and_answers_pass_as_they_are(path: Path) -> None:
    async def work() -> None:
        async with page(path), client(path) as asked:
            answer = await asked.get("/page/%41?filter=a%20b", headers={"cookie": "k=v", "connection": "keep-alive"})
            assert answer.status_code == 203
            assert answer.headers["set-cookie"] == "a=b; HttpOnly"
            assert answer.headers["content-security-policy"] == "default-src 'none'"
            found: dict[str, Any] = answer.json()
            assert (found["path"], found["query"], found["host"]) == ("/page/A", "filter=a%20b", "127.0.0.1:9644")
            assert (found["method"], found["cookie"], found["size"]) == ("GET", "k=v", 0)
            assert (await asked.get("/big")).content == BIG

    asyncio.run(work())


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
def test_what_a_request_carries_is_not_passed_on_so_that_it_cannot_be_another_request(
    path: Path, headers: dict[str, str]
) -> None:
    async def work() -> None:
        async with page(path), client(path) as asked:
            answer = await asked.request("GET", "/x", content=SMUGGLED, headers=headers)
            found = answer.json()
            assert (found["path"], found["size"], found["framing"]) == ("/x", 0, [])

    asyncio.run(work())


def test_a_browser_that_leaves_ends_the_stream(path: Path) -> None:
    async def work() -> None:
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

    asyncio.run(work())


def test_a_page_that_is_gone_is_an_error(path: Path) -> None:
    async def work() -> None:
        async with client(path) as asked:
            await asked.get("/")

    with pytest.raises(OSError, match="No such file"):
        asyncio.run(work())
