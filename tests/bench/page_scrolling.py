"""Scrolling anywhere among many exchanges, in Chromium: from a movement of the scroll bar to its rows.

    python -m tests.bench.page_scrolling [--exchanges 1000000] [--jumps 200] [--tables DIRECTORY]

It starts ``kproxy open`` on generated tables and moves the scroll bar to random places, with and without a filter and a sort.
Printed are for each: milliseconds until the rows are in the document (median, 95 of 100, longest: of an idle machine only),
questions to the server for each movement, and the CPU time that the browser's main thread and the server took for it, which
mean something on a busy machine too. What is wanted: rows within 100 ms.
"""

import argparse
import statistics
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.page import Server, tables_of
from tests.page.browser.driving import Page, driven

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


def main() -> None:
    """Measure, and print a line a question."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--exchanges", type=int, default=1_000_000)
    parser.add_argument("--jumps", type=int, default=200)
    parser.add_argument("--tables", type=Path, help="a directory of tables made before")
    options = parser.parse_args()
    with tables_of(options.tables, options.exchanges) as tables:
        server = Server(tables)
        try:
            with driven() as driver:
                report(Page(driver, server.address), server, options.jumps)
        finally:
            server.stop()


def report(page: Page, server: Server, jumps: int) -> None:
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


def browser_ms(page: Page) -> float:
    """CPU time of the page's main thread so far."""
    metrics: list[dict[str, Any]] = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return 1000 * next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


if __name__ == "__main__":
    main()
