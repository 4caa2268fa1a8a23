"""Questions of a new user, answered by clicks in Chromium; each answer leads to the exchanges that show it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from kproxy.protocol import ApiKey
from tests.page.asking import decoded
from tests.page.browser.driving import WIDE, Page, opened
from tests.page.browser.test_accessibility import axe, looks_right
from tests.page.browser.test_exchanges import ROWS, column, number_of, title
from tests.page.browser.test_filters import filter_text
from tests.page.browser.test_views import cells
from tests.support.corpus import CAPTURES
from tests.support.replayed import RecordedBroker, before, capture, recorded

__all__ = ["axe"]

pytestmark = pytest.mark.xdist_group("page-browser")
TRANSACTIONS = CAPTURES / "04-transactions.pcap"


@pytest.fixture(scope="module")
def page(driver: Any) -> Iterator[Page]:
    with opened(TRANSACTIONS, options=["--records"]) as address:
        yield Page(driver, address)


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return decoded(TRANSACTIONS)


def begin(page: Page) -> None:
    page.size(WIDE)
    page.show()
    page.one(f"{ROWS}[data-number]")


def click(page: Page, words: str, within: str = "") -> None:
    """Click a link or a button with these words."""
    path = f"{within}//*[self::a or self::button][normalize-space()='{words}']"
    page.until(lambda: page.driver.find_elements(By.XPATH, path), words)[0].click()


def shown(page: Page) -> int:
    """Return how many exchanges match the filter."""
    page.until(lambda: "of" in "".join(page.texts(".total")) and page.all(f"{ROWS}[data-number]"), "filtered")
    return int("".join(page.texts(".total")).split()[0].replace(",", ""))


@pytest.mark.slow
def test_which_client_is_slow(page: Page, lines: list[dict[str, Any]]) -> None:
    begin(page)
    click(page, "Clients")
    slowest = page.until(lambda: cells(page, "Latency"), "latency")[0]
    click(page, "Exchanges", "//*[@aria-label='Latency']")
    asked = [
        line for line in lines if (line["clientId"], line["apiName"]) == (slowest["client_id"], slowest["api_name"])
    ]
    assert shown(page) == len(asked)
    assert {slowest["broker"]} == {line["broker"] for line in asked}  # each broker has a row
    longest = max(line["latencyMs"] for line in asked)
    assert float(column(page, "latencyMs")[0].replace(",", "")) == pytest.approx(longest, abs=0.001)


@pytest.mark.slow
def test_who_writes_to_this_topic(page: Page, lines: list[dict[str, Any]]) -> None:
    begin(page)
    click(page, "Map")
    page.one("svg.map .node[aria-label='topic: tx'] rect").click()
    writers = {row["client_id"] for row in cells(page, "Map") if row["direction"] == "produce"}
    assert writers == {line["clientId"] for line in lines if line["apiName"] == "Produce"} == {"producer-tx-1"}
    click(page, "Exchanges", "//main//div[@role='status']")
    page.until(lambda: filter_text(page) == '"tx" in topics', "the filter")
    page.until(lambda: "Produce" in column(page, "apiName"), "what is written")
    page.driver.back()
    page.until(lambda: "topic=tx" in page.driver.current_url and page.all("svg .node.chosen"), "back at the topic")


@pytest.mark.slow
def test_why_did_this_group_rebalance(page: Page, lines: list[dict[str, Any]]) -> None:
    begin(page)
    click(page, "Groups")
    first = page.until(lambda: cells(page, "Rebalances"), "rebalances")[0]
    assert first["cause"] == "joined" and "first" in first["evidence"]
    in_sight = "return document.querySelector(arguments[0]).getBoundingClientRect().right <= window.innerWidth"
    assert page.run(in_sight, "[aria-label=Rebalances] td:nth-child(6)")
    assert page.texts("[aria-label=Rebalances] tbody tr:first-child td:nth-child(6)") == [first["evidence"]]
    click(page, "Exchanges", "//*[@aria-label='Rebalances']")
    shown(page)
    apis = column(page, "apiName")
    assert {"JoinGroup", "SyncGroup"} <= set(apis) and "Fetch" not in apis
    of_group = [line for line in lines if (line["request"] or {}).get("groupId") == first["group_id"]]
    assert shown(page) <= len(of_group)


@pytest.mark.slow
def test_what_exactly_did_this_producer_send(page: Page, lines: list[dict[str, Any]]) -> None:
    begin(page)
    click(page, "Map")
    page.one("svg.map .node[aria-label='writes: producer-tx-1'] rect").click()
    click(page, "Exchanges", "//main//div[@role='status']")
    shown(page)
    at = next(place for place, name in enumerate(column(page, "apiName")) if name == "Produce")
    row = page.all(f"{ROWS}[data-number]")[at]
    number = int(row.get_attribute("data-number") or 0)
    row.click()
    page.until(lambda: number_of(page) == str(number), "chosen")
    page.press(Keys.ENTER)
    page.until(lambda: title(page).startswith(f"#{number} Produce"), "open")
    page.one("#tab-records").click()
    (part,) = [one["json"] for one in lines[number - 1]["embedded"] if one["kind"] == "records"]
    heads = page.until(lambda: page.texts("#part h3"), "records")
    assert heads == [f"tx, partition {part['partition']}: 1 record"]
    assert len(page.texts("#part tbody tr td:nth-child(4)")) == 1
    click(page, "producer-tx-1", "//*[@class='top']")
    page.until(lambda: {row["client_id"] for row in cells(page, "Latency")} == {"producer-tx-1"}, "the client")


@pytest.mark.slow
def test_a_finding_leads_to_its_evidence_and_back(page: Page, lines: list[dict[str, Any]]) -> None:
    begin(page)
    click(page, "Findings")
    page.until(lambda: "".join(page.texts("main [role=status]")).startswith("2 findings"), "all looked for")
    page.one("#finding-producer_fenced summary").click()
    page.until(lambda: cells(page, "Rows of producer_fenced"), "its rows")
    example = page.one("#finding-producer_fenced td a:nth-of-type(2)")
    number = int(example.text.removeprefix("#"))
    assert {error["name"] for error in lines[number - 1]["errors"]} & {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
    example.click()
    page.until(lambda: title(page).startswith(f"#{number} "), "the example is open")
    page.until(lambda: number_of(page) == str(number), "it is among the exchanges that the row is about")
    page.driver.back()
    page.until(lambda: page.all("#finding-producer_fenced[open] table"), "back, and open still")


def show_plan(page: Page, to: str) -> None:
    page.show()
    page.one(f"{ROWS}[data-number]")
    page.press("r")
    page.one(".replay input").send_keys(to)
    page.run("document.querySelector('.replay select').value = 'max'")
    page.run("document.querySelector('.replay select').dispatchEvent(new Event('change'))")
    page.run("document.querySelector('.replay form button').click()")


@pytest.mark.slow
def test_the_plan_is_shown_then_sent_and_the_answers_are_compared(driver: Any, axe: str) -> None:
    async def work() -> None:
        broker = RecordedBroker(recorded(1))
        async with before(broker) as cluster:
            broker.asked.clear()
            await asyncio.to_thread(replayed, f"127.0.0.1:{cluster.bootstrap.port}", broker)

    def replayed(to: str, broker: RecordedBroker) -> None:
        with opened(capture(1)) as address:
            page = Page(driver, address)
            show_plan(page, "127.0.0.1:1")
            page.until(lambda: "refused" in "".join(page.texts(".replay [role=alert]")).lower(), "no broker is there")
            show_plan(page, to)
            page.until(lambda: "Nothing was sent" in "".join(page.texts(".replay pre")), "the plan")
            assert {api for api, _ in broker.asked} == {ApiKey.API_VERSIONS, ApiKey.METADATA}
            assert looks_right(page, axe) == []
            page.run(
                "[...document.querySelectorAll('.replay button')].find((one) => one.textContent === 'Send it').click()"
            )
            page.until(lambda: page.texts(".replay h3") == ["Sent; the answers are the same"], "the comparison")
            assert ApiKey.PRODUCE in {api for api, _ in broker.asked}

    asyncio.run(work())
