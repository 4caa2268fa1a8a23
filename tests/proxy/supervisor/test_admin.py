"""The admin port: answers, and who gets none (attack 26), by Starlette's client and over a real socket."""

import asyncio
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kproxy.config.structs import Cluster, Config, Page
from kproxy.filters.contract import ClientMetric
from kproxy.output.client_metrics import ClientSeries
from kproxy.proxy.messages import AnalyzerCounts, ClusterState, Connection
from kproxy.proxy.network.http_server import ASGIApp, PageServer
from kproxy.proxy.shared_state import FilterCount
from kproxy.proxy.supervisor.admin import OFF, PageEntry, admin_app
from kproxy.proxy.supervisor.browser_guard import BrowserGuard, cookie_name, host_name
from kproxy.proxy.supervisor.stop_pages import StopPages
from kproxy.proxy.tap.counted import CloseCause, Phase, Total
from kproxy.proxy.tap.counters import Counters
from tests.conftest import Require
from tests.proxy.supervisor.test_stopped import Fleet
from tests.support.foreign_sites import ORIGINS, REBOUND, SITES
from tests.support.ports import free_ports
from tests.support.stand_in_worker import connection


class Proxy:
    """An AdminSource."""

    def __init__(self) -> None:
        self.workers = [Counters.create(), Counters.create()]
        self.counts: AnalyzerCounts | None = None
        self.state = (True, "")
        self.clients: list[tuple[tuple[str, ...], list[int]]] = [(("orders", "c"), [1, 2, 3, 4])]
        self.on_scrape: Callable[[], None] = lambda: None

    def counters(self) -> list[Counters]:
        return self.workers

    def analysis(self) -> AnalyzerCounts | None:
        return self.counts

    def series(self) -> dict[str, list[tuple[tuple[str, ...], list[int]]]]:
        self.on_scrape()
        return {"clients": self.clients}

    def config(self) -> dict[str, Any]:
        return {"clusters": [], "admin": None}

    def hung(self) -> dict[str, int]:
        return {"worker": 0, "analyzer": 2}

    def filter_counts(self) -> list[FilterCount]:
        return [FilterCount("orders", "faults", "fired", 'a "name"\n', 3)]

    def filter_times(self) -> list[tuple[str, str, int, int]]:
        return [("orders", "audit", 2_500_000_000, 7)]

    def filter_faults(self) -> list[tuple[str, str, str, str, int]]:
        return [("orders", "deny", "on_request", "timed_out", 4)]

    def client_series(self) -> ClientSeries:
        series = ClientSeries()
        metrics = [ClientMetric("org.apache.kafka.producer.record.send.total", True, False, (("topic", 'a"b'),), 7.0)]
        series.add(0.0, ("orders", "app", "AAECAwQFBgcICQoLDA0ODw"), metrics, 60.0)
        series.dropped["too many series"] = 3
        return series

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
    assert found["kproxy_latency_seconds_bucket", (*produce, ("le", "0.00048828125"))] == 0
    assert found["kproxy_latency_seconds_bucket", (*produce, ("le", "0.001953125"))] == 2
    assert found["kproxy_requests_total", (("api", "other"), ("api_version", "other"))] == 1
    assert found["kproxy_connections_open", ()] == 4
    assert found["kproxy_connections_closed_total", (("cause", "frame_timeout"),)] == 2
    assert found["kproxy_analysis_up", ()] == 0


def test_the_configuration(client: Client) -> None:
    answer = client.get("/config")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"clusters": [], "admin": None}
    assert "/config" in client.get("/").text


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


def test_what_filters_have_counted(client: Client) -> None:
    count = {"cluster": "orders", "filter": "faults", "event": "fired", "name": 'a "name"\n', "count": 3}
    assert client.get("/filters").json() == {"counts": [count]}
    sample = r'kproxy_filter_events_total{cluster="orders",event="fired",filter="faults",name="a \"name\"\n"} 3.0'
    lines = client.get("/metrics").text.splitlines()
    assert sample in lines
    assert 'kproxy_filter_seconds_total{cluster="orders",filter="audit"} 2.5' in lines
    assert 'kproxy_filter_calls_total{cluster="orders",filter="audit"} 7.0' in lines
    fault = 'cluster="orders",filter="deny",hook="on_request",kind="timed_out"'
    assert f"kproxy_filter_faults_total{{{fault}}} 4.0" in lines


def test_what_clients_have_measured(client: Client) -> None:
    lines = client.get("/metrics").text.splitlines()
    labels = r'client_id="app",client_instance_id="AAECAwQFBgcICQoLDA0ODw",cluster="orders",topic="a\"b"'
    assert f"kafka_client_producer_record_send_total{{{labels}}} 7.0" in lines
    assert 'kproxy_client_metrics_dropped_total{reason="too many series"} 3.0' in lines


def test_the_index_names_what_is_there(client: Client) -> None:
    text = client.get("/").text
    for line in text.splitlines()[1:]:
        assert client.get(line.split()[0]).status_code == 200


def test_attack_26_nothing_can_be_changed(client: Client) -> None:
    paths = ("/", "/metrics", "/healthz", "/readyz", "/connections", "/other")
    for path, method in itertools.product(paths, ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")):
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), (method, path)


NAMES_OF_OURS = (
    *("127.0.0.1:9644", "127.0.0.1", "localhost:9644", "LOCALHOST", "localhost.:9644", "localhost:1", "[::1]:9644"),
    *("10.1.2.3", "10.1.2.3:9644", "kproxy.example:9644", "KPROXY.example:80", "kproxy.example."),
)
FOREIGN_NAMES = (
    *("evil.example:9644", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evilkproxy.example"),
    *("localhost:80@evil.example", "[::1].evil.example", "[evil.example]", ""),
)


def test_attack_26_foreign_names_are_refused(client: Client) -> None:
    for host, path in itertools.product(NAMES_OF_OURS + FOREIGN_NAMES, ("/metrics", "/connections")):
        expected = 200 if host in NAMES_OF_OURS else 421
        assert client.get(path, headers={"host": host}).status_code == expected, host


def test_attack_26_two_names_are_none(client: Client) -> None:
    both = [("Host", "127.0.0.1:9644"), ("Host", "evil.example")]
    assert client.get("/metrics", headers=both).status_code == 421
    assert client.get("/metrics", headers=both[::-1]).status_code == 421


def test_browsers_are_told_to_keep_out(client: Client) -> None:
    for path in ("/metrics", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy) and "unsafe" not in " ".join(policy)
        assert "access-control-allow-origin" not in headers


def test_host_names() -> None:
    names = {"a:80": "a", "[::1]": "::1", "A.": "a", "[::1": "", "a:b": ""}
    assert {header: host_name(header) for header in names} == names


class Served:
    """The real server, in a thread with a loop of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server = PageServer(app, self._listener)
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
    with Served(admin_app(proxy)) as served:
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
        assert (answer.status, answer.read()) == (421, b"this is not a name of kproxy; ask for it by its address\n")
        connection.request("POST", "/readyz", body=b"x")
        assert connection.getresponse().status == 405
        connection.close()


def test_attack_26_a_websocket_is_closed(proxy: Proxy) -> None:
    with Served(admin_app(proxy)) as served:
        connection = HTTPConnection("127.0.0.1", served.port, timeout=10)
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
        connection.request("GET", "/metrics", headers=upgrade | {"Origin": "http://evil.example"})
        assert connection.getresponse().status != 101
        connection.close()


def test_an_endless_header_is_not_kept(proxy: Proxy) -> None:
    with Served(admin_app(proxy)) as served, socket.create_connection(("127.0.0.1", served.port), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
        assert b" 400 " in client.recv(100)


CONFIGURATION = """
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: kproxy
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


QUANTILES = (0.01, 0.25, 0.5, 0.9, 0.99)


@contextmanager
def scraped(proxy: Proxy, folder: Path, require: Require) -> Iterator[tuple[int, Semaphore]]:
    """A real Prometheus that scrapes *proxy*: its port, and a semaphore that every scrape releases as it begins."""
    prometheus = shutil.which("prometheus")
    require("prometheus", prometheus, "there is no prometheus")
    assert prometheus is not None
    scraping = Semaphore(0)  # each scrape begins when the one before is stored
    proxy.on_scrape = scraping.release
    with Served(admin_app(proxy)) as served:
        (folder / "prometheus.yml").write_text(CONFIGURATION.format(port=served.port), encoding="utf-8")
        port = free_ports()
        command = [prometheus, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=native-histograms"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                assert scraping.acquire(timeout=60)
                yield port, scraping
            finally:
                process.terminate()


@pytest.mark.slow
def test_prometheus_stores_what_it_scrapes(proxy: Proxy, tmp_path: Path, require: Require) -> None:
    """A real Prometheus: a thousand series of names, hostile ones among them, come back as they were; a quantile of a native
    histogram is in the bucket of the quantile of what was counted.
    """
    hostile = ['"', "\\", "\n", "\u202e", "{}", "# HELP x", "\U0001f9ea"]
    names = [*hostile, *(f"client-{number}" for number in range(992)), "__other__"]
    proxy.clients = [(("orders", name), [number, 2, 3, 4]) for number, name in enumerate(names)]
    rng = random.Random(2)
    durations = sorted(int(10 ** rng.uniform(3.5, 9)) for _ in range(4_000))  # 3 us to 1 s
    for number, duration in enumerate(durations):
        proxy.workers[number % 2].count_phase(1, Phase.BROKER, duration)
    for worker in proxy.workers:
        worker.count_request(1, 12, 100)
    with scraped(proxy, tmp_path, require) as (port, scraping):
        found: list[Any] = [[]]
        while not all(found):  # until a scrape took less than a second, and all that was asked saw it
            assert scraping.acquire(timeout=60)
            asked = (f"histogram_quantile({share}, kproxy_phase_seconds)" for share in QUANTILES)
            series = ('kproxy_phase_seconds{api="Fetch",phase="broker"}', "kproxy_request_size_bytes")
            found = [query(port, expression) for expression in ("kproxy_client_requests_total", *series, *asked)]
    # A native histogram has its buckets in the answer; the series of a classic one are named ..._bucket
    clients, (phase,), (sizes,), *quantiles = found
    assert {one["metric"]["client_id"]: int(one["value"][1]) for one in clients} == {
        name: number for number, name in enumerate(names)
    }
    assert (int(phase["histogram"][1]["count"]), phase["metric"]["phase"]) == (4_000, "broker")
    assert float(phase["histogram"][1]["sum"]) == pytest.approx(sum(durations) / 1e9)
    assert int(sizes["histogram"][1]["count"]) == 2
    for share, (quantile,) in zip(QUANTILES, quantiles, strict=True):
        exact = durations[int(share * len(durations))] / 1e9
        assert exact / 1.19 <= float(quantile["value"][1]) <= exact * 1.19


def query(port: int, expression: str) -> Any:
    answer = httpx.get(
        f"http://127.0.0.1:{port}/api/v1/query", params={"query": expression}, timeout=60, trust_env=False
    )
    return answer.json()["data"]["result"]


TOKEN_HEADERS = {"x-kproxy-token": "t"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")


def test_it_is_there_while_the_configuration_allows_edits() -> None:
    fleet: Any = Fleet(Page())
    entry = PageEntry(fleet)
    client = Client(admin_app(Proxy(), guard=BrowserGuard(token="t"), edits=entry))
    assert (client.get("/page/api/stops", headers=TOKEN_HEADERS).status_code, fleet.listeners) == (404, [])
    assert client.get("/page/api/stops", headers=TOKEN_HEADERS).json() == {"error": OFF}
    fleet.config = msgspec.structs.replace(fleet.config, page=Page(edits=True))
    assert client.get("/page/api/stops", headers=TOKEN_HEADERS).json().items() >= {"generation": 0, "stops": []}.items()
    assert len(fleet.listeners) == 1
    fleet.config = Config(clusters=[Cluster(listen="127.0.0.1:1", bootstrap=["b:1"])])
    assert client.get("/page/api/stops", headers=TOKEN_HEADERS).status_code == 404


@pytest.mark.parametrize("method", METHODS)
def test_without_page_edits_no_method_changes_anything(method: str) -> None:
    fleet: Any = Fleet(Page())
    entry = PageEntry(fleet)
    client = Client(admin_app(Proxy(), guard=BrowserGuard(token="t"), edits=entry))
    stops: Any = None  # of which only the routes are asked
    paths = {f"/page/api{route.path.replace('{id}', '0-1-1')}" for route in StopPages(stops).routes()}
    for path in {*paths, "/page/api/source", "/page/api/export"}:
        answer = client.request(
            method, path, headers=TOKEN_HEADERS, json=[{"condition": "true", "direction": "request"}]
        )
        assert (answer.status_code, answer.text if method == "HEAD" else answer.json()) in (
            (404, ""),
            (404, {"error": OFF}),
        )
    assert fleet.children[0].sent == []
    for path in ("/", "/metrics", "/config", "/filters", "/connections", "/healthz", "/readyz"):
        assert client.request(method, path, headers=TOKEN_HEADERS).status_code == (
            200 if method in ("GET", "HEAD") else 405
        )


HOST = "127.0.0.1:9644"
TOKEN = "a-token-of-the-test"


def refused(method: str, host: str | None = HOST, **headers: str) -> int | None:
    """The status with which a request is refused; None: it is not. Underscores stand for hyphens."""
    named = [] if host is None else [(b"host", host.encode())]
    others = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    found = BrowserGuard(["kproxy.example"], TOKEN).refusal(method, [*named, *others])
    return None if found is None else found[0]


def test_the_page_itself_may_read_and_change() -> None:
    cookie = f"theme=dark; kproxy_token_9644={TOKEN}"
    assert refused("GET", cookie=cookie) is None
    assert refused("GET", x_kproxy_token=TOKEN) is None
    sent_by_browser = {"origin": f"http://{HOST}", "sec_fetch_site": "same-origin", "cookie": cookie}
    assert refused("POST", x_kproxy_token=TOKEN, **sent_by_browser) is None
    assert refused("PUT", x_kproxy_token=TOKEN) is None, "curl sends no Origin"


def test_a_name_that_is_not_ours_gets_nothing() -> None:
    for host, method in itertools.product(REBOUND, ("GET", "HEAD", "POST", "PUT", "DELETE")):
        assert refused(method, host, x_kproxy_token=TOKEN) == 421, (method, host)


def test_a_request_names_one_host() -> None:
    guard = BrowserGuard(token=TOKEN)
    token = (b"x-kproxy-token", TOKEN.encode())
    assert guard.refusal("GET", [token]) is not None
    assert guard.refusal("GET", [token, (b"host", b"127.0.0.1"), (b"host", b"evil.example")]) is not None
    assert guard.refusal("GET", [token, (b"host", b"127.0.0.1")]) is None


def test_without_the_token_nothing_is_read_or_changed() -> None:
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x", "é", TOKEN.upper()):
        for method in ("GET", "POST", "PUT"):
            assert refused(method, x_kproxy_token=token) == 403
        assert refused("GET", cookie=f"kproxy_token_9644={token}") == 403
    assert refused("GET") == 403


def test_cookies_of_others_on_this_machine_do_not_lock_the_page() -> None:
    """Cookies are of a host with all its ports: whatever is served there sets some, and not all keep to RFC 6265."""
    ours = f"kproxy_token_9644={TOKEN}"
    for others in ('theme={"dark": 1}', "a", "@=1", "ä=é", "a=b c", '"', "=", "kproxy_token_9644=of another one"):
        assert refused("GET", cookie=f"{others}; {ours}") is None, others
        assert refused("GET", cookie=f"{ours};{others}") is None, others


def test_another_port_of_this_host_gets_nothing_though_the_browser_sends_it_the_cookie() -> None:
    has = {"cookie": f"kproxy_token_9644={TOKEN}", "x_kproxy_token": TOKEN}
    for method in ("GET", "HEAD", "POST"):
        assert refused(method, **has) is None
        assert refused(method, **has, sec_fetch_site="same-site") == 403
        assert refused(method, **has, origin="http://127.0.0.1:9645") == 403


def test_a_change_needs_more_than_the_cookie_that_browsers_add_by_themselves() -> None:
    assert refused("POST", cookie=f"kproxy_token_9644={TOKEN}") == 403


def test_pages_of_other_sites_change_nothing() -> None:
    """They are known by their Origin, and by what the browser says of them."""
    for origin in (*ORIGINS, "http://127.0.0.1:9645"):
        assert refused("POST", x_kproxy_token=TOKEN, origin=origin) == 403, origin
    for site in SITES:
        assert refused("POST", x_kproxy_token=TOKEN, sec_fetch_site=site) == 403, site


def test_the_cookie_is_of_one_port_and_out_of_reach_of_scripts() -> None:
    assert refused("GET", cookie=f"kproxy_token_9645={TOKEN}") == 403, "of another kproxy on this machine"
    value = BrowserGuard(token=TOKEN).set_cookie(HOST)
    assert value == f"kproxy_token_9644={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert cookie_name("[::1]:80") == "kproxy_token_80"
    assert cookie_name("localhost") == "kproxy_token"


def test_malformed_cookies_are_no_token() -> None:
    for cookie in ("=;=;", '"', "a" * 100_000, "kproxy_token_9644", "\xff=\xff"):
        assert refused("GET", cookie=cookie) == 403


def test_each_guard_has_a_token_of_its_own() -> None:
    first, second = BrowserGuard().token, BrowserGuard().token
    assert first != second
    assert len(first) >= 43  # 32 bytes in base64
