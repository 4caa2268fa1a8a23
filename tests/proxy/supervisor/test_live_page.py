"""LivePage: who starts the process, that it ends when nobody asks, and that a killed one is followed by another."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import h11
import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kproxy.config.structs import Analysis, Cluster, Config, Page
from kproxy.page.live.process import SAYS
from kproxy.proxy.messages import FeedPage
from kproxy.proxy.network.http_server import MOST_REQUESTS, PageServer
from kproxy.proxy.network.listening import listen_for_pages
from kproxy.proxy.supervisor.admin import admin_app
from kproxy.proxy.supervisor.browser_guard import BrowserGuard
from kproxy.proxy.supervisor.live_page import NICE, OWN_PREFIX, TAIL_SIZE, Ending, LivePage, forward
from tests.proxy.supervisor.test_admin import Proxy
from tests.support.foreign_sites import ORIGINS, REBOUND
from tests.support.kafka.processes import children

LOOP = "asyncio"  # as the supervisor has
TOKEN = "of-the-test"
HERE = "http://127.0.0.1:9644"


class Fleet:
    """What a LivePage needs of it."""

    def __init__(self, analysis: bool = True) -> None:
        cluster = Cluster(listen="127.0.0.1:1", bootstrap=["b:1"], name="orders")
        self.config = Config(clusters=[cluster], analysis=Analysis(enabled=analysis))
        self.fed: list[str] = []

    async def feed(self, message: FeedPage) -> None:
        self.fed.append(message.path)


class Bench:
    """An admin application with a page."""

    def __init__(self, idle_s: float = 600, analysis: bool = True) -> None:
        self.fleet = Fleet(analysis)
        guard = BrowserGuard(token=TOKEN)
        self.page = LivePage(self.fleet, guard, [], idle_s)  # type: ignore[arg-type]
        app = admin_app(Proxy(), guard=guard, page=self.page)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE, timeout=90)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(path, headers=named)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Bench"]:
        try:
            async with asyncio.timeout(120):
                yield self
        finally:
            await self.page.stop()
            await self.client.aclose()


def pages() -> int:
    """How many processes this one has started."""
    return len(list(children(os.getpid())))


async def test_only_who_has_the_token_starts_the_page_and_gets_its_answers() -> None:
    async with Bench().running() as bench:
        before = pages()
        assert (await bench.get("/")).text.startswith("kproxy\n")
        assert (await bench.get("/?token=wrong")).text.startswith("kproxy\n")
        assert (await bench.get(f"/?token={TOKEN}", host="evil.example")).status_code == 421
        assert (await bench.get("/page/api/source")).status_code == 403
        assert (await bench.get("/page/static/main.js", cookie="kproxy_token_9644=wrong")).status_code == 403
        assert pages() == before
        assert bench.fleet.fed == []
        let_in = await bench.get(f"/?token={TOKEN}")
        assert (let_in.status_code, let_in.headers["location"]) == (303, "/")
        cookie = let_in.headers["set-cookie"].partition(";")[0]
        page = await bench.get("/", cookie=cookie)
        assert "<html" in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        source = (await bench.get("/page/api/source", cookie=cookie)).json()
        assert (source["live"], source["name"], source["exchanges"]) == (True, "orders", 0)
        for origin in ORIGINS:
            answer = await bench.get("/page/api/source", cookie=cookie, origin=origin)
            assert answer.status_code == 403 and "orders" not in answer.text
        for host in filter(None, REBOUND):
            answer = await bench.get("/page/api/source", cookie=cookie, host=host)
            assert answer.status_code == 421 and "orders" not in answer.text
        assert (source["editable"], source["narrowed"]) == (False, "")
        bench.fleet.config = msgspec.structs.replace(bench.fleet.config, page=Page(edits=True))
        while not (await bench.get("/page/api/source", cookie=cookie)).json()["editable"]:
            await asyncio.sleep(0.02)  # the process reads that beside the request
        narrow = Analysis(apis=["Produce", "Fetch"])
        bench.fleet.config = msgspec.structs.replace(bench.fleet.config, analysis=narrow)
        bench.page.configure()
        while not (said := (await bench.get("/page/api/source", cookie=cookie)).json()["narrowed"]):
            await asyncio.sleep(0.02)
        assert said.endswith(" the configuration analyzes only Fetch and Produce (analysis.api_name).")
        process = bench.page._process
        assert process is not None
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= NICE
        threads = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]
        assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER, "it answers where workers fill its core"
        assert os.SCHED_IDLE in map(os.sched_getscheduler, threads), "what is no answer takes what is left"
        (fed,) = bench.fleet.fed
        assert Path(fed).name == "feed"
        assert Path(fed).parent.stat().st_mode & 0o077 == 0, "other users of the machine cannot enter"
        assert list(Path(fed).parent.glob("kproxy-tables-*")), "what it keeps on disk goes with its folder"
    assert not Path(fed).parent.exists()


@pytest.mark.long
async def test_a_killed_page_is_logged_and_followed_by_another(caplog: pytest.LogCaptureFixture) -> None:
    async with Bench().running() as bench:
        cookie = f"kproxy_token_9644={TOKEN}"
        first = (await bench.get("/page/api/source", cookie=cookie)).json()["instance"]
        process = bench.page._process
        assert process is not None
        # A condition that SQL cannot answer starts processes, which hold the pipes of the page
        filtered = "exchanges?limit=1&filter=request.matches(%22a%22)"
        await bench.get(f"/page/api/{filtered}", cookie=cookie)
        os.kill(process.pid, signal.SIGKILL)
        while not process.has_ended:
            await asyncio.sleep(0.02)
        assert (await bench.get("/page/api/source", cookie=cookie)).json()["instance"] != first
        assert not Path(process.http).parent.exists()
        (record,) = [record for record in caplog.records if record.getMessage() == "the page has ended by itself"]
        keys = record.keys  # type: ignore[attr-defined]
        assert (keys["pid"], keys["exit_code"]) == (process.pid, -signal.SIGKILL)
        assert "SIGKILL" in keys["reason"]


@pytest.mark.long
async def test_the_page_ends_when_nobody_has_asked_for_a_while_and_comes_again() -> None:
    async with Bench(idle_s=1.0).running() as bench:
        cookie = f"kproxy_token_9644={TOKEN}"
        assert (await bench.get("/page/api/source", cookie=cookie)).status_code == 200
        while bench.fleet.fed[-1]:
            await asyncio.sleep(0.02)
        assert len(bench.fleet.fed) == 2
        assert (await bench.get("/page/api/source", cookie=cookie)).status_code == 200
        assert len(bench.fleet.fed) == 3


async def test_without_the_analysis_there_is_no_page_and_it_says_why() -> None:
    async with Bench(analysis=False).running() as bench:
        answer = await bench.get("/page/api/source", x_kproxy_token=TOKEN)
        assert answer.status_code == 503
        assert "analysis.enabled" in answer.json()["error"]
        assert "analysis.enabled" in (await bench.get(f"/?token={TOKEN}")).text


async def test_browsers_leave_room_for_probes_and_scrapers() -> None:
    """An open page holds a request for its events; the admin port takes MOST_REQUESTS in all."""
    async with Bench(analysis=False).running() as bench:
        bench.page._asking = MOST_REQUESTS - 16
        answer = await bench.get("/page/api/source", x_kproxy_token=TOKEN)
        assert (answer.status_code, "too many browsers" in answer.json()["error"]) == (503, True)
        assert bench.page._asking == MOST_REQUESTS - 16
        assert (await bench.get("/metrics")).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/config", "/page/api/stops"])
async def test_the_other_pages_are_answered_without_it(path: str) -> None:
    async with Bench(analysis=False).running() as bench:
        assert (await bench.get(path, x_kproxy_token=TOKEN)).status_code in (200, 404)


def test_the_page_says_it_as_it_is_read() -> None:
    assert SAYS == OWN_PREFIX


def reason(code: str) -> str:
    """Of a process that runs this."""

    async def work() -> str:
        words = [sys.executable, "-S", "-c", code]
        process = await asyncio.create_subprocess_exec(*words, stderr=subprocess.PIPE)
        assert process.stderr is not None
        ending = Ending(process.stderr)
        try:
            return await ending.reason(await process.wait())
        finally:
            ending.close()

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise ValueError('secret')", "ValueError"),
        ("import no_such_module", "ModuleNotFoundError"),
        (f"import sys; sys.exit('{OWN_PREFIX}KeyError in feed.py, line 7')", "KeyError in feed.py, line 7"),
        ("import sys; sys.exit('secret')", "it ended with exit code 1"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by SIGKILL, as the kernel does where memory is short"),
        ("import os; os.abort()", "it was ended by SIGABRT"),
        (f"import sys; sys.stderr.write('secret\\n' * {TAIL_SIZE}); raise MemoryError", "MemoryError"),
    ],
)
def test_it_is_one_line_without_secrets(code: str, told: str) -> None:
    assert reason(code) == told


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
    async with serving(listener, Starlette(routes=routes)):
        yield


@contextlib.asynccontextmanager
async def serving(listener: socket.socket, app: ASGIApp) -> AsyncIterator[None]:
    """An HTTP server in this event loop."""
    listener.listen()
    server = PageServer(app, listener)
    await server.start()
    try:
        yield
    finally:
        await server.stop()
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
    async with page(path), serving(listener, app), asyncio.timeout(120):
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
        async with page, serving(listener, app), asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(*address[:2])
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    _, _, body = asyncio.run(work()).partition(b"\r\n\r\n")
    is_of_events = kind.startswith("text/event-stream")
    assert body == b"9\r\ndata: x\n\n\r\n" + (b"0\r\n\r\n" if is_of_events else b""), "no download looks whole"
    logged = [record for record in caplog.records if record.name == "asyncio"]
    assert not (is_of_events and logged)
