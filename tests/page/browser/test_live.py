"""The live page of `kproxy run` in Chromium: rows come, can be followed, paused and filtered; a restart is noticed."""

import os
import signal
import socket
import socketserver
import threading
from collections.abc import Iterator
from struct import pack, unpack
from typing import Any, Self

import pytest
from selenium.webdriver.common.keys import Keys

from tests.page.browser.driving import Page, measured
from tests.support.kafka.proxies import Proxy, cluster

pytestmark = [pytest.mark.xdist_group("page-browser"), pytest.mark.long]
ROWS = ".table .pane [role=row][data-number]"
API_VERSIONS = 18


class Broker(socketserver.StreamRequestHandler):
    """Answer ApiVersions 0 with an empty list; close the connection for other requests."""

    def handle(self) -> None:
        while len(size := self.rfile.read(4)) == 4:
            request = self.rfile.read(unpack(">i", size)[0])
            if unpack(">hh", request[:4]) != (API_VERSIONS, 0):
                return
            self.wfile.write(pack(">i", 10) + request[4:8] + pack(">hi", 0, 0))


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Client:
    """Sends ApiVersions requests on one connection."""

    def __init__(self, proxy: Proxy) -> None:
        host, _, port = proxy.bootstrap().rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 90)
        self.stream = self.socket.makefile("rb")
        self.asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self.socket.close()

    def ask(self, count: int) -> None:
        ids = range(self.asked, self.asked + count)
        self.asked += count
        self.socket.sendall(b"".join(pack(">ihhih7s", 17, API_VERSIONS, 0, number, 7, b"watched") for number in ids))
        for number in ids:
            assert unpack(">i", self.stream.read(14)[4:8]) == (number,)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Server(("127.0.0.1", 0), Broker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        running = Proxy(tmp_path_factory.mktemp("proxy"), [cluster([address])])
        try:
            yield running.start(reaches_brokers=False)
        finally:
            running.close()
            server.shutdown()


def test_rows_come_are_followed_paused_and_filtered(driver: Any, proxy: Proxy) -> None:
    page = Page(driver, proxy.page_url())
    with Client(proxy) as client:
        watch(page, client, proxy)


def fed(page: Page) -> bool:
    """Whether the analyzer is connected to the page."""
    asked = "fetch('page/api/source').then((answer) => answer.json()).then((source) => source.fed, () => false)"
    return bool(page.driver.execute_async_script(f"{asked}.then(arguments[0])"))


def watch(page: Page, client: Client, proxy: Proxy) -> None:
    page.until(lambda: fed(page), "the analyzer")
    page.one(".total")
    client.ask(300)
    page.until(lambda: page.texts(".total") == ["300 exchanges"], "all that was asked")
    follow, pause = (page.run(f"return [...document.querySelectorAll('button')].find((b) => b.textContent == '{name}')")
                     for name in ("Follow", "Pause"))  # fmt: skip
    last = "return [...document.querySelectorAll(arguments[0])].at(-1)?.dataset.number"
    page.until(lambda: page.run(last, ROWS) == "300", "the last row is in sight: a live page follows")
    page.one(".table.scroller").send_keys(Keys.HOME)
    page.until(
        lambda: follow.get_attribute("aria-pressed") == "false", "a person looks at the first: it follows no more"
    )
    client.ask(100)
    page.until(lambda: page.texts(".total") == ["400 exchanges"], "all that was asked")
    assert page.run(last, ROWS) != "400"
    follow.click()
    client.ask(100)
    page.until(lambda: page.run(last, ROWS) == "500", "the last row is in sight")
    pause.click()
    client.ask(100)
    page.until(lambda: "600 exchanges" in page.texts(".source")[0], "told")
    assert page.texts(".total") == ["500 exchanges"], "paused: the rows stay"
    page.run("[...document.querySelectorAll('button')].find((b) => b.textContent == 'Resume').click()")
    page.until(lambda: page.texts(".total") == ["600 exchanges"], "goes on")
    page.write_filter("correlationId >= 590")
    page.until(lambda: page.texts(".total") == ["10 exchanges of 600"], "filtered")
    client.ask(5)
    page.until(lambda: page.texts(".total") == ["15 exchanges of 605"], "new rows that meet the filter")
    page.run("[...document.querySelectorAll('button')].find((b) => b.textContent == 'Export').click()")
    page.until(lambda: page.texts("#dialog .command") != [], "a command that gives the same of an export")
    assert page.texts("#dialog li a") == ["pcapng", "pcapng, anonymized", "JSON lines", "Parquet"]
    assert "exchanges.pcapng" in page.texts("#dialog .command")[0] and any(
        "export all" in note for note in page.texts("#dialog .note")
    )
    page.press(Keys.ESCAPE)
    for view in ("clients", "time", "map"):
        page.show(view)
        assert page.texts("#view")[0]
    page.show()
    (process,) = proxy.named("kproxy: page")
    os.kill(process, signal.SIGKILL)
    page.until(lambda: any("started again" in text for text in page.texts("#messages p")), "it says so")
    page.until(lambda: fed(page), "the analyzer, again")
    client.ask(7)
    page.until(lambda: page.texts(".total") == ["7 exchanges"], "what comes from here on")


SCENES: dict[str, tuple[str, dict[str, str]]] = {  # name -> view, parameters
    "following": ("exchanges", {}),
    "an exchange is open": ("exchanges", {"at": "1"}),
    "filtered": ("exchanges", {"filter": "correlationId % 1000 == 7"}),
    "sorted": ("exchanges", {"sort": "-latencyMs"}),
    **{view: (view, {}) for view in ("map", "time", "clients", "findings")},
}
BEFORE, WHILE = 20_000, 110_000  # exchanges before the first and before the second measurement of a scene
AT_ONCE = 2_000  # requests that a client sends before it reads answers
MOST_HEAP, MOST_MORE = 40 << 20, 15 << 20  # bytes: heap of the page, and its growth between measurements
MOST_MORE_NODES, MOST_MORE_LISTENERS = 500, 50
TASKS = """
window.longest = 0;
const seen = (list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); };
new PerformanceObserver(seen).observe({ type: "longtask" });
"""


def counted(page: Page) -> tuple[int, int]:
    """Return how many exchanges the page's server has seen, and the number of the last one."""
    both = "(source) => [source.seen, source.exchanges + source.left], () => [0, 0]"
    asked = f"fetch('page/api/source').then((answer) => answer.json()).then({both})"
    seen, last = page.driver.execute_async_script(f"{asked}.then(arguments[0])")
    return int(seen), int(last)


@pytest.mark.timeout(1200)
def test_a_million_exchanges_leave_nothing_behind_in_the_page(driver: Any, proxy: Proxy) -> None:
    page = Page(driver, proxy.page_url())
    with Client(proxy) as client:
        page.until(lambda: fed(page), "the analyzer")
        client.ask(10)
        page.until(lambda: page.texts(".total") not in (["…"], ["0 exchanges"]), "the first")
        before = counted(page)[0] - 10
        for name, (view, parameters) in SCENES.items():
            at = str(counted(page)[1]) if "at" in parameters else ""
            page.show(view, **(parameters | ({"at": at} if at else {})))
            if at:
                page.until(lambda: page.all(".tree .field"), "open")
            page.run(TASKS)
            looks = []
            for more in (BEFORE, WHILE):
                for _ in range(more // AT_ONCE):
                    client.ask(AT_ONCE)
                page.until(lambda: counted(page)[0] - before >= client.asked, "all of them")
                page.drawn()
                looks.append(measured(page))
            first, last = looks
            grown = {what: last[what] - first[what] for what in ("JSHeapUsedSize", "Nodes", "JSEventListeners")}
            print(
                f"{name}: heap {last['JSHeapUsedSize'] / 1e6:.1f} MB, longest task {page.run('return window.longest'):.0f} ms",
                grown,
            )
            assert last["JSHeapUsedSize"] < MOST_HEAP, name
            assert grown["JSHeapUsedSize"] < MOST_MORE, name
            assert grown["Nodes"] < MOST_MORE_NODES, name
            assert grown["JSEventListeners"] < MOST_MORE_LISTENERS, name
        assert client.asked > 1_000_000
        assert [
            one for one in page.complaints() if "503" not in one
        ] == []  # an analysis may take too long and be given up
