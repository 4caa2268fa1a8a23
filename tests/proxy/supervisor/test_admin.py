"""The admin port: answers, and who gets none (attack 26), by Starlette's client and over a real socket."""

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from threading import Thread
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kproxy.proxy.messages import AnalyzerCounts, ClusterState, Connection
from kproxy.proxy.supervisor.admin import admin_app, host_name
from kproxy.proxy.supervisor.admin_server import AdminServer
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.counters import Counters
from tests.support.stand_in_worker import connection


class Proxy:
    """An AdminSource."""

    def __init__(self) -> None:
        self.workers = [Counters.create(), Counters.create()]
        self.counts: AnalyzerCounts | None = None
        self.state = (True, "")

    def counters(self) -> list[Counters]:
        return self.workers

    def analysis(self) -> AnalyzerCounts | None:
        return self.counts

    def hung(self) -> dict[str, int]:
        return {"worker": 0, "analyzer": 2}

    def ready(self) -> tuple[bool, str]:
        return self.state

    def clusters(self) -> list[ClusterState]:
        return [ClusterState("orders", False, "b:1: Connection refused")]

    async def connections(self) -> list[Connection]:
        return [connection(number % 2, number) for number in range(1500)]


class Client:
    """Asks an ASGI application without a socket."""

    def __init__(self, app: Any) -> None:
        self._transport = httpx.ASGITransport(app)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://127.0.0.1:9644") as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    for worker in made.workers:
        os.close(worker.fd)


@pytest.fixture
def client(proxy: Proxy) -> Client:
    return Client(admin_app(proxy, ["Kproxy.example"]))


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_the_sums_of_all_workers(proxy: Proxy, client: Client) -> None:
    for worker in proxy.workers:
        worker.count_request(0, 9, 100)
        worker.count_response(0, 9, 40, 1_000_000)
        worker.add(Total.CONNECTIONS_OPEN, 2)
        worker.count_close(CloseCause.FRAME_TIMEOUT)
    proxy.workers[1].count_request(500, 1, 7)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = samples(answer.text)
    produce = (("api", "Produce"), ("api_version", "9"))
    assert found["kproxy_requests_total", produce] == 2
    assert found["kproxy_request_bytes_total", produce] == 200
    assert found["kproxy_latency_seconds_sum", produce] == 0.002
    assert found["kproxy_latency_seconds_count", produce] == 2
    assert found["kproxy_latency_seconds_bucket", (*produce, ("le", "0.000524288"))] == 0
    assert found["kproxy_latency_seconds_bucket", (*produce, ("le", "0.001048576"))] == 2
    assert found["kproxy_requests_total", (("api", "other"), ("api_version", "other"))] == 1
    assert found["kproxy_connections_open", ()] == 4
    assert found["kproxy_connections_closed_total", (("cause", "frame_timeout"),)] == 2
    assert found["kproxy_analysis_up", ()] == 0


def test_analysis_is_up_while_it_speaks(proxy: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.supervisor.admin.time_ns", lambda: 100 * 10**9)
    proxy.counts = AnalyzerCounts(at=96 * 10**9)
    assert samples(client.get("/metrics").text)["kproxy_analysis_up", ()] == 1
    proxy.counts = AnalyzerCounts(at=94 * 10**9)
    assert samples(client.get("/metrics").text)["kproxy_analysis_up", ()] == 0


def test_readiness_says_why_not(proxy: Proxy, client: Client) -> None:
    assert client.get("/readyz").status_code == 200
    proxy.state = (False, "draining")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "draining\n")
    clusters = [{"name": "orders", "broker_reached": False, "reason": "b:1: Connection refused"}]
    for answer in (client.get("/readyz?format=json"), client.get("/readyz", headers={"accept": "application/json"})):
        assert answer.json() == {"ready": False, "reason": "draining", "clusters": clusters}
        assert answer.status_code == 503
    assert client.get("/healthz").status_code == 200


def test_connections_are_limited(client: Client) -> None:
    assert len(client.get("/connections").json()["connections"]) == 1000
    answer = client.get("/connections?limit=2").json()
    assert answer == {
        "count": 1500,
        "connections": [msgspec.to_builtins(connection(worker, worker)) for worker in (0, 1)],
    }
    for bad in ("-1", "x", "100001", ""):
        assert client.get(f"/connections?limit={bad}").status_code == 400


def test_the_index_names_what_is_there(client: Client) -> None:
    text = client.get("/").text
    for line in text.splitlines()[1:]:
        assert client.get(line.split()[0]).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_attack_26_nothing_can_be_changed(client: Client, method: str) -> None:
    for path in ("/", "/metrics", "/healthz", "/readyz", "/connections", "/other"):
        answer = client.request(method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9644", 200),
        ("127.0.0.1", 200),
        ("localhost:9644", 200),
        ("LOCALHOST", 200),
        ("localhost.:9644", 200),
        ("[::1]:9644", 200),
        ("10.1.2.3:9644", 200),
        ("kproxy.example:9644", 200),
        ("evil.example:9644", 421),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost:80@evil.example", 421),
        ("[::1].evil.example", 421),
        ("[evil.example]", 421),
        ("evilkproxy.example", 421),
        ("", 421),
    ],
)
def test_attack_26_foreign_names_are_refused(client: Client, host: str, status: int) -> None:
    for path in ("/metrics", "/connections"):
        assert client.get(path, headers={"host": host}).status_code == status


def test_attack_26_two_names_are_none(client: Client) -> None:
    both = [("Host", "127.0.0.1:9644"), ("Host", "evil.example")]
    assert client.get("/metrics", headers=both).status_code == 421
    assert client.get("/metrics", headers=both[::-1]).status_code == 421


def test_browsers_are_told_to_keep_out(client: Client) -> None:
    for path in ("/metrics", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(("header", "name"), [("a:80", "a"), ("[::1]", "::1"), ("A.", "a"), ("[::1", ""), ("a:b", "")])
def test_host_names(header: str, name: str) -> None:
    assert host_name(header) == name


class Served:
    """The real server, in a thread with a loop of its own."""

    def __init__(self, proxy: Proxy) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server = AdminServer(self._listener, proxy, [])
        self._thread = Thread(target=self._loop.run_forever)

    def __enter__(self) -> "Served":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(10)
        return self

    def __exit__(self, *_exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def test_over_a_real_socket(proxy: Proxy) -> None:
    with Served(proxy) as served:
        connection = HTTPConnection("127.0.0.1", served.port, timeout=10)
        connection.request("GET", "/connections?limit=1")
        assert json.loads(connection.getresponse().read())["count"] == 1500
        connection.request("HEAD", "/metrics")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        answer = connection.getresponse()
        assert answer.getheader("content-type", "").startswith("application/openmetrics-text")
        assert answer.read().endswith(b"# EOF\n")
        connection.request("GET", "/metrics", headers={"Host": "evil.example"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (
            421,
            b"this is not a name of the admin server; ask it by its address\n",
        )
        connection.request("POST", "/readyz", body=b"x")
        assert connection.getresponse().status == 405
        connection.close()


def test_attack_26_a_websocket_is_closed(proxy: Proxy) -> None:
    with Served(proxy) as served:
        connection = HTTPConnection("127.0.0.1", served.port, timeout=10)
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
        connection.request("GET", "/metrics", headers=upgrade | {"Origin": "http://evil.example"})
        assert connection.getresponse().status != 101
        connection.close()
