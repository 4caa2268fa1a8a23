"""The admin port: pages about a running proxy. Only pages below /page can change anything, if the configuration allows it.

    /metrics       Prometheus: text, OpenMetrics, or protobuf with native histograms, as the scraper asks
    /healthz       200 while the supervisor runs
    /readyz        200 while clients are served; else 503 and why (below)
    /connections   open connections as JSON; ?limit=
    /filters       what filters have counted, as JSON, such as the faults that fired
    /config        the configuration in use, as JSON, defaults included, secrets withheld (kproxy/config/showing.py)
    /              this list; with the token, the live page (live_page.py)
    /page/         what the live page loads
    /page/api/     stopped messages and breakpoints (stop_pages.py)

/readyz is for the readiness of a pod, /healthz for its liveness: a proxy whose brokers are away must not be restarted. /readyz is
503

    while a worker starts or the process drains
    while a journal cannot be written whose filter then refuses requests: a full disk under the filter audit in its mode block
    if attempts to reach a broker have failed, until a broker of every cluster has been reached: a rollout with a wrong address,
    port or certificate stops there. kproxy keeps trying by itself, as no client comes to a pod that is not ready

It is not 503 when brokers go away later: all pods would leave at once, and without endpoints clients would not even get an error
that they understand. kproxy_upstream_connect_failures_total shows that. In fixed mode the first client makes the first attempt;
in transparent mode there is no broker to look for. With ``Accept: application/json`` or ``?format=json`` the answer is

    {"ready": false, "reason": "...", "clusters": [{"name": "orders", "broker_reached": false, "reason": "..."}]}

where ``broker_reached`` is null before the first attempt.

Outside of /page only GET and HEAD are allowed. A browser that came by a foreign name (DNS rebinding) is refused: the Host header
must be an IP address, a loopback name, or one of the names given.
"""

import math
import resource
from collections.abc import Awaitable, Callable, Iterable
from time import gmtime, strftime, time_ns
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import msgspec

from kproxy.output.metrics import Metrics, Scrape
from kproxy.proxy.network.http_server import Answer, ASGIApp, Receive, Scope, Send, plain, to_json
from kproxy.proxy.supervisor.browser_guard import READING, TOKEN_PAGE_STYLE, BrowserGuard, token_page
from kproxy.proxy.supervisor.fleet import Fleet
from kproxy.proxy.supervisor.live_page import LivePage
from kproxy.proxy.supervisor.overview import Overview

STALE = 5 * 10**9  # ns without counts, which come each second, after which the analyzer counts as gone
PAGE = "/page/"  # what is below it shows traffic, and may change it
STOPS = (f"{PAGE}api/stops", f"{PAGE}api/breakpoints")  # answered in this process: workers have the messages
DEFAULT_LIMIT, MOST_LIMIT = 1_000, 100_000
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", f"default-src 'none'; style-src {TOKEN_PAGE_STYLE}; frame-ancestors 'none'".encode()),
    (b"x-content-type-options", b"nosniff"),
]
INDEX = """kproxy
/metrics       Prometheus metrics
/healthz       200 while kproxy runs
/readyz        200 while it serves clients, else 503 and why (?format=json)
/connections   open connections (JSON; ?limit=1000)
/filters       what filters have counted (JSON)
/config        the configuration in use, without secrets (JSON)
"""


class Asked:
    """A request for one of the pages."""

    def __init__(self, scope: Scope) -> None:
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        query: bytes = scope["query_string"]
        self._query = parse_qs(query.decode("latin-1"), keep_blank_values=True)

    @property
    def accept(self) -> str:
        return b",".join(value for name, value in self._headers if name == b"accept").decode("latin-1")

    def option(self, name: str, default: str) -> str:
        """Return the value of ``?name=``."""
        return self._query.get(name, [default])[-1]


Page: TypeAlias = Callable[[Asked], Awaitable[Answer]]


def admin_app(
    source: Overview,
    hosts: Iterable[str] = (),
    *,
    guard: BrowserGuard | None = None,
    edits: ASGIApp | None = None,
    page: LivePage | None = None,
) -> ASGIApp:
    """The ASGI application.

    Args:
        source: what is shown.
        hosts: names under which it may be requested, in addition to loopback names and IP addresses.
        guard: decides who may read and change what is below /page.
        edits: answers what is below /page/api.
        page: answers everything else below /page, and / for requests with the token.
    """
    shown = _Pages(source)
    pages: dict[str, Page] = {
        "/": shown.index,
        "/metrics": shown.metrics,
        "/healthz": shown.healthz,
        "/readyz": shown.readyz,
        "/connections": shown.connections,
        "/filters": shown.filters,
        "/config": shown.config,
    }

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if edits is not None and scope["path"].startswith(f"{PATH}/"):
            await edits(scope, receive, send)
            return
        wanted = pages.get(scope["path"])
        answer = plain("there is no such page\n", 404) if wanted is None else await wanted(Asked(scope))
        await answer(scope, receive, send)

    return _Guard(app, guard or BrowserGuard(hosts), page)


class _Pages:
    """The pages outside of /page."""

    def __init__(self, source: Overview) -> None:
        self._source = source
        self._metrics = Metrics(self)

    def scrape(self) -> Scrape:
        workers = self._source.counters()
        counts = self._source.analysis()
        clients = self._source.client_series()
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # the supervisor's, which its children inherit
        return Scrape(
            apis=[worker.apis() for worker in workers],
            totals=[{total.name.lower(): n for total, n in worker.totals().items()} for worker in workers],
            closes=[{cause.name.lower(): n for cause, n in worker.closes().items()} for worker in workers],
            histograms=[worker.histograms() for worker in workers],
            analysis={} if counts is None else msgspec.to_builtins(counts),
            analysis_up=counts is not None and time_ns() - counts.at < STALE,
            series=self._source.series(),
            open_files_limit=math.inf if limit == resource.RLIM_INFINITY else limit,
            hung=self._source.hung(),
            filter_counts=[
                (one.cluster, one.filter, one.event, one.name, one.count) for one in self._source.filter_counts()
            ],
            filter_times=self._source.filter_times(),
            filter_faults=self._source.filter_faults(),
            client_metrics=clients.families(),
            client_metrics_dropped=clients.dropped,
        )

    async def index(self, asked: Asked) -> Answer:
        """List the pages. A browser that comes here came without the token of the live page, and reads how to get it."""
        if "text/html" not in asked.accept:
            return plain(INDEX)
        sentence = "This is the port of kproxy's live page and of its metrics, and the token of the page is missing."
        page = token_page(sentence, f"<h2>Without a token</h2><pre>{INDEX}</pre>")
        return Answer(page.encode(), "text/html; charset=utf-8", 401)

    async def metrics(self, asked: Asked) -> Answer:
        return Answer(*self._metrics.render(asked.accept))

    async def healthz(self, _asked: Asked) -> Answer:
        """Answer while the supervisor runs."""
        return plain("ok\n")

    async def readyz(self, asked: Asked) -> Answer:
        """Answer 200 while clients are served, else 503 and why."""
        ready, why = self._source.ready()
        status = 200 if ready else 503
        if asked.option("format", "") == "json" or asked.accept.startswith("application/json"):
            return to_json({"ready": ready, "reason": why, "clusters": self._source.clusters()}, status)
        return plain("ready\n" if ready else f"{why}\n", status)

    async def filters(self, _asked: Asked) -> Answer:
        return to_json({"counts": self._source.filter_counts()})

    async def config(self, _asked: Asked) -> Answer:
        return to_json(self._source.config())

    async def connections(self, asked: Asked) -> Answer:
        """List at most ``limit`` open connections, and how many there are."""
        try:
            limit = int(asked.option("limit", str(DEFAULT_LIMIT)))
        except ValueError:
            limit = -1
        if not 0 <= limit <= MOST_LIMIT:
            return plain(f"limit is a number from 0 to {MOST_LIMIT:,}\n", 400)
        connections = await self._source.connections()
        return to_json({"count": len(connections), "connections": connections[:limit]})


class _Guard:
    """Refuses requests for foreign names; outside of /page any but GET and HEAD; below /page those without the token."""

    def __init__(self, app: ASGIApp, guard: BrowserGuard, page: LivePage | None) -> None:
        self._app = app
        self._guard = guard
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification, version 3."""
        path = scope["path"]
        is_of_page = path == "/" or (path.startswith(PAGE) and not path.startswith(STOPS))
        if self._page is not None and scope["method"] in READING and is_of_page and self._page.is_allowed(scope):
            await self._page(scope, receive, send)
            return
        refused = self._refused(scope)
        app = self._app if refused is None else refused

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                date = strftime("%a, %d %b %Y %H:%M:%S GMT", gmtime())  # kproxy doctor compares it with its clock
                message["headers"] = [*message.get("headers", []), (b"date", date.encode()), *HEADERS]
            await send(message)

        await app(scope, receive, send_guarded)

    def _refused(self, scope: Scope) -> Answer | None:
        if scope["path"].startswith(PAGE):
            refused = self._guard.refusal(scope["method"], scope["headers"])
            return None if refused is None else to_json({"error": refused[1]}, refused[0])
        if scope["method"] not in READING:
            return plain("nothing can be changed here\n", 405, ((b"allow", b"GET, HEAD"),))
        refused = self._guard.host_refusal(scope["headers"])
        return None if refused is None else plain(f"{refused[1]}\n", refused[0])


PATH = "/page/api"
OFF = "breakpoints are off: set page.edits in the configuration"


class PageEntry:
    """The ASGI application below /page/api: stopped messages and breakpoints of a fleet. Most runs never load it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._loaded: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification, version 3."""
        app: ASGIApp | Answer = to_json({"error": OFF}, 404)
        if self._fleet.config.page.edits:
            self._loaded = app = self._loaded or self._load()
        await app(scope, receive, send)

    def _load(self) -> ASGIApp:
        from starlette.routing import Mount, Router  # noqa: PLC0415 - most runs do without

        from kproxy.proxy.supervisor.stop_pages import StopPages  # noqa: PLC0415
        from kproxy.proxy.supervisor.stopped import StoppedMessages  # noqa: PLC0415

        stopped = StoppedMessages(self._fleet)
        pages = StopPages(stopped, lambda: self._fleet.config.page.records, lambda: self._fleet.config.schemas)
        return Router([Mount(PATH, routes=pages.routes())])
