"""Views of a running proxy: which minutes they show, how they update, and what they say about missing exchanges."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kproxy.page.left_out import Analyzed
from kproxy.page.live.store import Live
from kproxy.page.server import page_app
from kproxy.proxy.page_records import Begun, Record, Shown, Side, Tally
from tests.page.browser.driving import Page
from tests.page.feeding import live
from tests.page.live.test_feed import Analyzer
from tests.proxy.supervisor.test_admin import Served
from tests.support.kafka.processes import eventually

pytestmark = [pytest.mark.xdist_group("page-browser"), pytest.mark.long]
TOKEN = "token-of-the-test"
BEGAN = 1_795_262_400_000_000_000  # 2026-11-21 12:00:00 UTC
MINUTE = 60_000_000_000


class Traffic:
    """Sends what an analyzer reports about one client that asks for versions."""

    def __init__(self, folder: Path, store: Live) -> None:
        self.store = store
        self.analyzer = Analyzer(folder)
        self.seen = self.dropped = 0
        self.analyzer.send(Begun(1, BEGAN, "127.0.0.1:1", "127.0.0.1:2", "orders"))

    def ask(self, minutes: float, count: int, *, dropped: int = 0) -> None:
        """Report some exchanges, that many minutes after the beginning, and some that were dropped."""
        at = BEGAN + int(minutes * MINUTE)
        sent: list[Record] = [
            Shown(1, at + number, 18, 0, number, "asker", *sides(number, at), False, True, None, None)
            for number in range(count)
        ]
        self.seen += count + dropped
        self.dropped += dropped
        self.analyzer.send(*sent, Tally(self.seen, self.dropped, 0, 1.0, at))


def sides(number: int, at: int) -> tuple[Side, Side]:
    request = Side(pack(">hhi7sb", 18, 0, number, b"\0\5asker", 0)[:15], at, at + 1, 0, 15, 0)
    return request, Side(pack(">ihi", number, 0, 0), at + 2, at + 1_000_000, 0, 4, 0)


@contextmanager
def served(driver: Any, store: Live) -> Iterator[Page]:
    """Open the page of a store."""
    with Served(page_app(store, TOKEN)) as server:
        try:
            page = Page(driver, f"http://127.0.0.1:{server.port}/?token={TOKEN}")
            page.settled()
            page.complaints()  # drop those of an earlier test's page, whose server has ended
            yield page
        finally:
            driver.get("about:blank")


@pytest.fixture
def watched(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Traffic]]:
    folder = tmp_path_factory.mktemp("live")
    with live(folder) as store:
        traffic = Traffic(folder, store)
        traffic.ask(0, 10)
        traffic.ask(4, 5)
        traffic.ask(4.9, 3)
        with served(driver, store) as page:
            page.until(lambda: page.texts(".total") == ["18 exchanges"], "all of it")
            yield page, traffic
        traffic.analyzer.socket.close()


def exchanges(page: Page) -> list[str]:
    """Return the counts in the legend of Time: of ApiVersions, and of missing exchanges."""
    return page.texts(".legend tbody tr td:nth-of-type(2)")


def choose(page: Page, minutes: str) -> None:
    page.run(
        "const select = document.querySelector('.live-span select'); select.value = arguments[0];"
        " select.dispatchEvent(new Event('change'))",
        minutes,
    )


def test_a_view_is_of_the_last_minutes_that_its_address_names(watched: tuple[Page, Traffic]) -> None:
    page, _ = watched
    page.show("time")
    assert exchanges(page) == ["18"]
    assert "12:00:00 to 12:04:54 UTC" in page.texts(".live-span .note")[0]
    choose(page, "1")
    page.until(lambda: exchanges(page) == ["8"], "the last minute")
    assert "last=1" in page.driver.current_url
    assert page.texts(".live-span .note") == ["12:03:54 to 12:04:54 UTC"]
    page.show("time", last="1")
    assert exchanges(page) == ["8"]
    for expected in ("18", "18", "18", "8"):  # 5 minutes, 15, all, 1: the key goes around
        page.press("l")
        page.until(lambda: exchanges(page) == [expected], expected)  # noqa: B023 - at once
    page.show("clients", last="1")
    inventory = page.texts("[aria-label=Clients] tbody td")
    assert "asker" in inventory and "8" in inventory
    assert page.complaints() == []


def test_no_view_says_that_there_is_no_exchange_while_it_asks(watched: tuple[Page, Traffic]) -> None:
    page, _ = watched
    page.run(
        "window.said = []; const note = () => said.push(document.querySelector('.live-span .note')?.textContent);"
        " new MutationObserver(note).observe(document.body, {childList: true, subtree: true, characterData: true});"
        " location.hash = 'findings'"
    )
    page.until(lambda: page.texts(".live-span .note") == ["12:00:00 to 12:04:54 UTC"], "the answers")
    assert "no exchange yet" not in page.run("return window.said")


def test_a_view_goes_on_by_itself_and_keeps_what_a_person_chose(watched: tuple[Page, Traffic]) -> None:
    page, traffic = watched
    page.show("clients", client="asker")
    chosen = "[aria-label=Clients] tr.chosen td"
    assert "18" in page.texts(chosen)
    page.run("document.querySelector('[aria-label=Clients] th button').focus()")
    traffic.ask(4.95, 4)
    page.until(lambda: "22" in page.texts(chosen), "the new ones, of the client that is chosen")
    assert page.run("return document.activeElement.closest('[aria-label=Clients]') !== null"), "the focus stays"
    page.press("p")
    assert "paused" in page.texts(".live-span .note")[0]
    traffic.ask(4.96, 7)
    page.until(lambda: "29 exchanges" in page.texts(".source")[0], "the bar counts on")
    assert "22" in page.texts(chosen)
    page.press("p")
    page.until(lambda: "29" in page.texts(chosen), "it goes on")
    for view in ("map", "groups", "findings", "time"):
        page.show(view)
        before = page.texts(".live-span .note")
        traffic.ask(traffic.seen, 1)
        page.until(lambda: page.texts(".live-span .note") != before, view)  # noqa: B023 - at once
    assert page.complaints() == []


def test_an_empty_page_says_where_clients_connect(driver: Any, tmp_path: Path) -> None:
    with live(tmp_path, 1 << 26) as store:
        store.client_addresses = ["127.0.0.1:9192"]
        with served(driver, store) as page:
            page.until(lambda: "bootstrap.servers=127.0.0.1:9192" in page.one("[role=grid]").text, "the address")
            assert "67.1 MB" in page.one("[role=grid]").text, "how much is kept"


def test_what_the_configuration_narrows_is_said(watched: tuple[Page, Traffic]) -> None:
    page, traffic = watched
    traffic.store.narrowed.use(Analyzed(["ApiVersions"]))
    said = "The configuration analyzes only ApiVersions (analysis.api_name)."
    page.until(lambda: "analyzed in part" in page.texts(".source")[0], "the bar")
    assert page.run("return document.querySelector('.source .warning').title") == said
    for view in ("time", "map", "clients", "groups", "findings"):
        page.show(view)
        page.until(lambda: page.texts(".left-out .warning")[:1] == [said], view)
    assert page.complaints() == []


def test_what_is_missing_is_said_and_drawn(watched: tuple[Page, Traffic]) -> None:
    page, traffic = watched
    for view in ("time", "map", "clients", "groups", "findings"):
        page.show(view)
        assert page.texts(".left-out") == [], view
    traffic.ask(4.95, 2, dropped=30)
    page.until(lambda: "30 exchanges not shown" in page.texts(".source")[0], "told")
    said = "Of the 32 exchanges between 12:04:57 UTC and 12:04:58 UTC 2 are here (about 1 in 16): counts and sums are of those."
    for view in ("time", "map", "clients", "groups", "findings"):
        page.show(view)
        page.until(lambda: page.texts(".left-out") and page.texts(".left-out .warning")[0].startswith("Of the "), view)
        assert "analysis.api_name" in page.texts(".left-out")[0]
    assert page.texts(".finding .severity") == []
    page.show("time")
    assert exchanges(page) == ["20", "30"]
    assert len(page.all("path[data-series='not here']")) == 1
    page.show("time", filter="correlationId >= 0")
    assert page.all("rect.missing") and not page.all("path[data-series='not here']")
    assert page.texts(".left-out .warning") == [said]
    page.show("time", last="1")
    assert page.overflow() <= 0


# Runs before the page's scripts: while window.held is a list, events of the server wait in it
HOLDING = """
const real = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, listener) {
  return real.call(this, name, (event) => (window.held ? window.held.push(() => listener(event)) : listener(event)));
};
"""


def test_the_number_of_all_is_the_one_of_the_news_though_the_rows_are_as_new(watched: tuple[Page, Traffic]) -> None:
    page, traffic = watched
    with page.before_scripts(HOLDING):
        page.show(filter="correlationId == 0")
        assert page.texts(".total") == ["3 exchanges of 18"]
        page.run("window.held = []")
        traffic.ask(4.95, 2)
        eventually(lambda: traffic.store.exchanges == 20, what="it has come")
        page.write_filter("correlationId == 1")
        page.until(lambda: page.texts(".total") == ["4 exchanges of 18"], "the rows are new, the news has not come")
        page.until(lambda: page.run("return window.held.length"), "the news has arrived")
        page.run("window.held.at(-1)()")
        page.until(lambda: page.texts(".total") == ["4 exchanges of 20"], "the news")
