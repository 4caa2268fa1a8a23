"""The page's server on a directory of tables with many exchanges: how long a browser waits, and how much memory it takes.

    python -m tests.bench.page [--exchanges 1000000] [--rounds 3] [--tables DIRECTORY] [--jumps 200]

It starts ``kproxy open`` on generated tables and asks it over HTTP as the page does. Printed are the median and the longest wall
clock (which mean something on an idle machine only), the CPU time that the server and its process for CEL took for each, and
their resident memory at the end. What is wanted: first rows within 1 s of the start, each filter within 1 s, each request of a
scroll within 100 ms, 600 MB.

Measured on two cores of an idle machine: first rows 0.66 s; rows anywhere 13 to 44 ms, the longest 64; filters that are SQL 36 to
143 ms; 242 MB resident, at most 415 MB. At a load of 20, where only CPU says something: rows anywhere of a sort 2 ms, once the
columns are kept in memory, which takes 70 MB (before: 23 to 170 ms); macros over lists that are written out 50 to 150 ms, over
texts of times 0.9 s, spread over both cores; what is left to CEL 1.5 s where it names one value that all rows differ in.

With --jumps, what Chromium adds to it: the scroll bar is moved to so many random places, with and without a filter and a sort.
Printed are for each: milliseconds until the rows are in the document (median, 95 of 100, longest), questions to the server for
each movement, and the CPU time of the browser's main thread and of the server. What is wanted: rows within 100 ms.
"""

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.bench.measuring import cpu_of, options_of
from tests.support.exchange_tables import write_tables
from tests.support.kafka.processes import children, kib

if TYPE_CHECKING:
    from tests.page.browser.driving import Page

FILTERS = [
    'apiName == "Fetch" && latencyMs > 500.0',
    'clientId.startsWith("client-1")',
    'clientId.matches("9$") || size(errors) > 0',
    "errors.exists(e, e.code == 16)",
    'requestAt >= "2025-11-21T10" && requestAt < "2025-11-21T10:05"',
    'client.startsWith("10.0.3.")',
    "requestSize + responseSize > 90000",
    "correlationId % 1000 == 7",
    '!(apiKey in [0, 1]) && unanswered == null',
    "string(correlationId).endsWith('77')",
    '"topic-7" in topics',
    'groups.exists(g, g.startsWith("group-1")) && !("topic-7" in topics)',
    'topics.exists(t, t.endsWith("9"))',
    "principal == null && size(topics) == 0",
    "latencyMs * 2.0 > double(requestSize)",
    "requestSize + correlationId > 5",
    "correlationId % requestSize == 7",
    "string(requestAt).contains('7')",
    "client + clientId == 'a'",
    "client.matches('^10[.].*7$') && clientId.contains('7')",
    "latencyMs > 1.0 ? requestSize > 200 : correlationId < 2",
    "timestamp(responseAt) - timestamp(requestAt) > duration('10ms')",
    "string(latencyMs).contains('7')",
    "uint(correlationId) % 100u == 7u",
    "[requestSize, correlationId].exists(n, n % 100 == 7)",
    "[requestSize, responseSize, correlationId].exists(n, [2, 3].exists(m, n % m == 0))",
    "[requestAt, responseAt].exists(t, t.contains('T10:05'))",
    "timestamp(requestAt).getSeconds() == 7",
    "timestamp(requestAt) + duration('1s') < timestamp(responseAt)",
    "(responseSize == null ? 0 : responseSize) + requestSize > 500",
    "{'a': correlationId}.a % 100 == 7",
]  # fmt: skip


QUESTIONS: dict[str, dict[str, str]] = {
    "in their order": {},
    "sorted": {"sort": "-latencyMs"},
    "filtered": {"filter": 'clientId.startsWith("client-1")'},
    "filtered and sorted": {"filter": 'clientId.startsWith("client-1")', "sort": "latencyMs"},
}
JUMP = """
const [share, done] = arguments;
const scroller = document.querySelector(".table.scroller");
const pane = scroller.querySelector(".pane");
const first = () => pane.querySelector("[data-at]")?.dataset.at;
const before = first();
performance.clearResourceTimings();
const began = performance.now();
const observer = new MutationObserver(() => {
  if (first() === before || pane.querySelector(".waiting")) return;
  observer.disconnect();
  const took = performance.now() - began;
  const asked = performance.getEntriesByType("resource").filter((one) => one.name.includes("/exchanges?")).length;
  requestAnimationFrame(() => setTimeout(() => done({ took, asked })));
});
observer.observe(pane, { childList: true, subtree: true, attributes: true, characterData: true });
scroller.scrollTop = share * (scroller.scrollHeight - scroller.clientHeight);
"""
AT_REST = ".table .pane [data-number]"


class Server:
    """``kproxy open`` on a source."""

    def __init__(self, source: Path) -> None:
        self.began = time.monotonic()
        command = [sys.executable, "-m", "kproxy", "open", "--no-browser", str(source)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split(" is at ")[1].strip()
        place, _, query = self.address.removeprefix("http://").partition("/")
        self._connection = http.client.HTTPConnection(place, timeout=120)
        self._connection.request("GET", f"/{query}")
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]

    def get(self, path: str, **asked: Any) -> Any:
        """An answer of the page's API."""
        self._connection.request("GET", f"/page/api/{path}?{urlencode(asked)}", headers={"Cookie": self._cookie})
        return json.loads(self._connection.getresponse().read())

    def cpu_ms(self) -> float:
        """CPU time of the server and its children so far."""
        return cpu_of([*children(self.process.pid)]) * 1000

    def memory_mb(self, what: str) -> float:
        """VmRSS or VmHWM of all of them."""
        return sum(kib(f"/proc/{pid}/status", what) for pid in children(self.process.pid)) / 1024**2

    def stop(self) -> None:
        """End it."""
        self._connection.close()
        self.process.terminate()
        self.process.wait(60)


def measured(server: Server, asks: list[Callable[[], Any]]) -> tuple[float, float, float]:
    """Median and largest wall clock, and CPU of each, in milliseconds."""
    times, before = [], server.cpu_ms()
    for ask in asks:
        start = time.monotonic()
        ask()
        times.append((time.monotonic() - start) * 1000)
    return statistics.median(times), max(times), (server.cpu_ms() - before) / len(asks)


def main() -> None:
    """Measure, and print a line a question."""
    given = options_of(__doc__, exchanges=1_000_000, rounds=3, tables=None, jumps=0)
    with tables_of(Path(given.tables) if given.tables else None, given.exchanges) as tables:
        if not given.jumps:
            report(tables, given.rounds)
            return
        from tests.page.browser.driving import Page, driven  # noqa: PLC0415 - it needs a browser

        server = Server(tables)
        try:
            with driven() as driver:
                scroll(Page(driver, server.address), server, given.jumps)
        finally:
            server.stop()


@contextmanager
def tables_of(directory: Path | None, exchanges: int) -> Iterator[Path]:
    """The directory, with generated tables where it is not there yet; None: a temporary one."""
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as folder:
        tables = directory or Path(folder) / "tables"
        if not tables.exists():
            write_tables(tables, exchanges)
        yield tables


def report(tables: Path, rounds: int) -> None:
    """The figures of one source."""
    starts = []
    for _ in range(rounds):
        server = Server(tables)
        server.get("exchanges", limit=100)
        starts.append((time.monotonic() - server.began) * 1000)
        cpu = server.cpu_ms()
        server.stop()
    print(f"first rows after the start of the process   {statistics.median(starts):8.0f} ms   cpu {cpu:6.0f} ms")
    server, source = Server(tables), Random(7)
    total = server.get("source")["exchanges"]
    print(f"{total:,} exchanges; median, longest, CPU of each")
    show(
        "rows anywhere, in their order",
        server,
        [lambda: server.get("exchanges", limit=100, offset=source.randrange(total))] * 30,
    )
    for sort in ("latencyMs", "-requestAt", "clientId"):
        show(f"first rows by {sort}", server, [lambda s=sort: server.get("exchanges", limit=100, sort=s)])
        show(
            f"rows anywhere by {sort}",
            server,
            [lambda s=sort: server.get("exchanges", limit=100, sort=s, offset=source.randrange(total))] * 30,
        )
    for condition in FILTERS:
        found = server.get("exchanges", limit=1, filter=condition)["total"]
        spaced = [condition + " " * (1 + one) for one in range(rounds)]  # not the one that is remembered
        show(
            f"{condition}  ({found:,})",
            server,
            [lambda c=c: server.get("exchanges", limit=100, filter=c) for c in spaced],
        )
        if found:
            show(
                "  rows anywhere in it",
                server,
                [lambda c=condition, n=found: server.get("exchanges", limit=100, filter=c, offset=source.randrange(n))]
                * 20,
            )
    for by in ("api", "client", "topic", "error"):
        show(f"activity by {by}", server, [lambda b=by: server.get("activity", by=b, buckets=120)] * rounds)
    show("heat map", server, [lambda: server.get("heatmap", buckets=120)] * rounds)
    for name in ("map", "inventory", "latency"):
        show(f"analysis {name}", server, [lambda n=name: server.get(f"analyses/{n}")])
    print(
        f"resident memory, server and CEL: {server.memory_mb('VmRSS:'):.0f} MB, at most {server.memory_mb('VmHWM:'):.0f} MB"
    )
    server.stop()


def scroll(page: "Page", server: Server, jumps: int) -> None:
    """The figures of all questions."""
    source = Random(7)
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    for name, parameters in QUESTIONS.items():
        page.show(**parameters)
        page.one(AT_REST)
        before = browser_ms(page), server.cpu_ms()
        seen = [page.driver.execute_async_script(JUMP, source.random()) for _ in range(jumps)]
        browser, cpu = browser_ms(page) - before[0], server.cpu_ms() - before[1]
        took = sorted(one["took"] for one in seen)
        print(
            f"{name:20} first {seen[0]['took']:4.0f}, median {statistics.median(took):4.0f}, 95 % {took[int(jumps * 0.95)]:4.0f},"
            f" longest {took[-1]:4.0f} ms; questions {sum(one['asked'] for one in seen) / jumps:.2f};"
            f" cpu browser {browser / jumps:5.1f}, server {cpu / jumps:5.1f} ms"
        )


def browser_ms(page: "Page") -> float:
    """CPU time of the page's main thread so far."""
    metrics: list[dict[str, Any]] = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return 1000 * next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def show(what: str, server: Server, asks: list[Callable[[], Any]]) -> None:
    """Measure and print one line."""
    median, longest, cpu = measured(server, asks)
    print(f"{what[:70]:70} {median:8.0f} {longest:8.0f} ms   cpu {cpu:6.0f} ms")


if __name__ == "__main__":
    main()
