"""Links to what does not exist, and a server that has ended: the page in Chromium says so and offers a way back."""

import urllib.parse
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.page.asking import ORDERS, decoded
from tests.page.browser.driving import WIDE, Page, opened
from tests.page.browser.test_exchanges import ROWS
from tests.page.browser.test_views import cells

pytestmark = pytest.mark.xdist_group("page-browser")


def press(page: Page, words: str) -> None:
    """Click a button of the view."""
    page.until(lambda: words in page.texts("main button"), words)
    page.run("[...document.querySelectorAll('main button')].find((b) => b.textContent === arguments[0]).click()", words)


def total(page: Page) -> int:
    """Return how many exchanges match the filter; -1 until that is known."""
    said = page.texts(".total")[0].split()
    return int(said[0]) if said and said[0].isdigit() else -1


@pytest.mark.parametrize(
    ("view", "named", "sentence"),
    [
        pytest.param("clients", "client", "No client with the id nobody was seen.", marks=pytest.mark.slow),
        pytest.param("map", "topic", "No topic with the name nobody was seen.", marks=pytest.mark.slow),
        ("map", "reader", "No group or client that reads with the name nobody was seen."),
    ],
)
def test_a_name_that_was_not_seen(orders: Page, view: str, named: str, sentence: str) -> None:
    orders.size(WIDE)
    orders.show(view, **{named: "nobody"})
    assert orders.texts("main [role=status] .warning") == [sentence]
    assert not orders.all("svg .faded")
    press(orders, "All again")
    orders.until(lambda: "nobody" not in orders.driver.current_url, "the URL")
    assert orders.all("main tbody tr") and not orders.texts("main [role=status] .warning")


def test_a_view_that_does_not_exist(orders: Page) -> None:
    orders.show("nonsense")
    assert "There is no view with the name nonsense" in orders.texts("#messages p")[-1]
    assert orders.one(f"{ROWS}[data-number]")


@pytest.mark.slow
def test_links_into_time_that_make_no_sense_lead_back(orders: Page) -> None:
    orders.show("time", by="nonsense", filter="apiName =", fromNs="yesterday", toNs="x")
    assert orders.texts("main [role=alert]")
    press(orders, "Clear filter")
    press(orders, "All of the time")
    orders.until(lambda: {"Fetch", "Produce"} <= {row["api"] for row in cells(orders, "Sums")}, "sums")
    assert not orders.texts("main [role=alert]")


@pytest.mark.slow
def test_a_time_without_exchanges_says_so(orders: Page) -> None:
    orders.show("time", filter="apiKey == 70")
    assert "No exchange of this time matches the filter." in orders.texts("main [role=status]")
    first = int(orders.run("return fetch('page/api/source').then((answer) => answer.json())")["firstNs"])
    orders.show("time", fromNs=str(first - 2_000_000_000), toNs=str(first - 1_000_000_000))
    assert "There is no exchange in this time." in orders.texts("main [role=status]")


@pytest.mark.slow
def test_a_sort_that_does_not_exist_says_what_the_server_said(orders: Page) -> None:
    orders.show(sort="nonsense")
    orders.until(lambda: orders.texts(".row-empty") == ["there is no column 'nonsense'"], "said")


def test_a_wrong_link_in_an_open_page_shows_no_rows_and_how_times_are_written_is_said(orders: Page) -> None:
    orders.show()
    orders.one(f"{ROWS}[data-number]")
    for link, sentence, at in (
        ("sort=nonsense", "there is no column 'nonsense'", ""),
        ("filter=apiName+%3D", "The filter has a mistake.", "Column 9"),
    ):
        orders.run("window.location.hash = arguments[0]", f"#exchanges?{link}")
        shown = partial(lambda text: orders.texts(".row-empty") == [text] and not orders.all(ROWS), sentence)
        orders.until(shown, "said, in place of rows")
        orders.until(partial(lambda text: text in " ".join(orders.texts("#filter-said")), at), "where the mistake is")
        orders.driver.back()
        orders.one(f"{ROWS}[data-number]")
    orders.press(Keys.ARROW_RIGHT)

    def said() -> bool:
        orders.press("o")
        return "as in requestAt >= " in " ".join(orders.texts("#messages p"))

    orders.until(said, "how")


@pytest.mark.slow
def test_words_find_what_has_them_and_join_conditions(orders: Page) -> None:
    orders.size(WIDE)
    lines = decoded(ORDERS)
    orders.show()
    orders.write_filter("PRODUCE")
    texts = [" ".join(str(line[name]) for name in ("apiName", "clientId")).lower() for line in lines]
    expected = sum("produce" in text for text in texts)
    orders.until(lambda: total(orders) == expected, "filtered")
    assert orders.texts("#filter-said code") == ["PRODUCE"]
    press(orders, "Errors")
    orders.until(
        lambda: "PRODUCE && size(errors) > 0" in urllib.parse.unquote_plus(orders.driver.current_url), "joined"
    )
    assert not orders.texts("#filter-said .critical")
    orders.show(filter="PRODUCE")
    assert orders.texts("#filter-said code") == ["PRODUCE"], "of a link too"
    orders.show("time", filter="PRODUCE")
    orders.driver.find_element(By.XPATH, "//*[@aria-label='Sums']//a[.='Produce']").click()
    produced = sum(line["apiName"] == "Produce" for line in lines)
    orders.until(lambda: total(orders) == produced, "from the sums of a filter of words")


@pytest.mark.slow
def test_an_export_that_cannot_be_is_no_link(driver: Any, tmp_path: Path) -> None:
    source = tmp_path / "gone.pcap"
    source.write_bytes(ORDERS.read_bytes())
    with opened(source) as address:
        page = Page(driver, address)
        source.unlink()
        page.show()
        page.press("e")
        page.until(lambda: page.texts("#dialog li a") == ["JSON lines"], "what is left")
        assert all("gone.pcap is not there any more" in text for text in page.texts("#dialog li:not(:has(a)) .note"))
        page.press(Keys.ESCAPE)


@pytest.mark.slow
def test_a_script_that_does_not_come_is_asked_for_again_and_then_said(driver: Any) -> None:
    with opened(ORDERS) as address:
        page = Page(driver, address)
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/rows.js"]})
        driver.get("about:blank")
        driver.get(f"{address}#exchanges")
        page.until(lambda: "could not be loaded" in page.texts("#view")[0], "the sentence")
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
        assert page.run("return performance.getEntriesByType('navigation')[0].type") == "reload"
        page.complaints()
        page.show()
        assert page.one(f"{ROWS}[data-number]")


@pytest.mark.slow
def test_a_server_that_has_ended_is_said_in_the_bar(driver: Any) -> None:
    with opened(ORDERS) as address:
        page = Page(driver, address)
        page.show()
        page.one(f"{ROWS}[data-number]")
    page.press("5")
    page.until(lambda: page.texts(".source .warning") == ["no answer"], "the bar")
    assert "does not answer" in page.texts("main [role=alert]")[0]
    assert all("ERR_CONNECTION_REFUSED" in said for said in page.complaints())
