"""The admin port over HTTP: who may ask, by which name, and what becomes of it when we end."""

import asyncio
import http.client
import socket
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kproxy.config import Cluster, Config, Page
from kproxy.proxy.supervisor.admin import admin_app
from kproxy.proxy.supervisor.admin_server import OFF, AdminServer, PageEntry, listen_admin
from kproxy.proxy.supervisor.browser_guard import BrowserGuard
from kproxy.proxy.supervisor.stop_pages import StopPages
from kproxy.proxy.tap.counters import Counters
from tests.proxy.supervisor.test_admin import Client, Proxy
from tests.proxy.supervisor.test_stopped import Fleet
from tests.support.ports import free_ports


class Source:
    """Of nothing."""

    def counters(self) -> list[Counters]:
        return []

    def analysis(self) -> dict[str, Any]:
        return {}

    def ready(self) -> tuple[bool, str]:
        return False, "not ready: worker 0"

    def clusters(self) -> list[Any]:
        return []

    async def connections(self) -> list[dict[str, Any]]:
        return []


def get(port: int, path: str, host: str = "localhost") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def served(ask: Callable[[int], Any]) -> Any:
    async def main() -> Any:
        listener = listen_admin(f"127.0.0.1:{free_ports()}")
        port = listener.getsockname()[1]
        server = AdminServer(listener, Source(), ["kproxy.example"])
        await server.start()
        try:
            return await asyncio.to_thread(ask, port)
        finally:
            await server.stop()

    return asyncio.run(main())


def test_it_answers() -> None:
    assert served(lambda port: get(port, "/healthz")) == (200, "ok\n")
    assert served(lambda port: get(port, "/readyz")) == (503, "not ready: worker 0\n")


@pytest.mark.parametrize(("host", "status"), [("kproxy.example", 200), ("127.0.0.1", 200), ("evil.example", 421)])
def test_only_by_names_that_are_ours(host: str, status: int) -> None:
    assert served(lambda port: get(port, "/healthz", host))[0] // 100 == status // 100


def test_an_endless_header_is_not_kept() -> None:
    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
            return client.recv(100)

    assert b" 400 " in served(ask)


TOKEN = {"x-kproxy-token": "t"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")


def test_it_is_there_while_the_configuration_allows_edits() -> None:
    fleet: Any = Fleet(Page())
    told: list[Any] = []
    entry = PageEntry(fleet, told.append)
    client = Client(admin_app(Proxy(), guard=BrowserGuard(token="t"), more=[entry.mount()]))
    assert (client.get("/page/api/stops", headers=TOKEN).status_code, told) == (404, [])
    assert client.get("/page/api/stops", headers=TOKEN).json() == {"error": OFF}
    fleet.config = msgspec.structs.replace(fleet.config, page=Page(edits=True))
    assert client.get("/page/api/stops", headers=TOKEN).json().items() >= {"generation": 0, "stops": []}.items()
    assert len(told) == 1, "asked once to tell of workers that end"
    fleet.config = Config(clusters=[Cluster(listen="127.0.0.1:1", bootstrap=["b:1"])])
    assert client.get("/page/api/stops", headers=TOKEN).status_code == 404


@pytest.mark.parametrize("method", METHODS)
def test_without_page_edits_no_method_changes_anything(method: str) -> None:
    fleet: Any = Fleet(Page())
    entry = PageEntry(fleet, lambda told: None)
    client = Client(admin_app(Proxy(), guard=BrowserGuard(token="t"), more=[entry.mount()]))
    stops: Any = None  # of which only the routes are asked
    paths = {f"/page/api{route.path.replace('{id}', '0-1-1')}" for route in StopPages(stops).routes()}
    for path in {*paths, "/page/api/source", "/page/api/export"}:
        answer = client.request(method, path, headers=TOKEN, json=[{"condition": "true", "direction": "request"}])
        assert (answer.status_code, answer.text if method == "HEAD" else answer.json()) in (
            (404, ""),
            (404, {"error": OFF}),
        )
    assert fleet.children[0].sent == []
    for path in ("/", "/metrics", "/config", "/filters", "/connections", "/healthz", "/readyz"):
        assert client.request(method, path, headers=TOKEN).status_code == (200 if method in ("GET", "HEAD") else 405)
