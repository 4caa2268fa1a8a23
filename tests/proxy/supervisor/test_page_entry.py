"""PageEntry: nothing is there without page.edits, and a reload opens and closes it."""

from typing import Any

import msgspec
import pytest

from kproxy.config import Cluster, Config, Page
from kproxy.proxy.supervisor.admin import admin_app
from kproxy.proxy.supervisor.browser_guard import BrowserGuard
from kproxy.proxy.supervisor.page_entry import OFF, PageEntry
from kproxy.proxy.supervisor.stop_pages import StopPages
from tests.proxy.supervisor.test_admin import Client, Proxy
from tests.proxy.supervisor.test_stopped import Fleet

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
