"""The table of exchanges in Chromium shows what kproxy decode does, by pointer, by keyboard alone, in a narrow window."""

import re
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.page.asking import ORDERS, decoded
from tests.page.browser.driving import NARROW, WIDE, Page, opened
from tests.support.corpus import CAPTURES
from tests.support.secrets_block import without_secrets

pytestmark = pytest.mark.xdist_group("page-browser")
ROWS = ".table .pane [role=row]"


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return decoded(ORDERS)


@pytest.fixture
def table(orders: Page) -> Page:
    orders.size(WIDE)
    orders.show()
    orders.one(f"{ROWS}[data-number]")
    return orders


def column(page: Page, name: str) -> list[str]:
    """Return the visible cells of a column."""
    heads = [text.rstrip(" ▴▾") for text in page.texts("[role=columnheader]")]
    return page.texts(f"{ROWS}[data-number] [role=gridcell]:nth-child({heads.index(name) + 1})")


def number_of(page: Page) -> str | None:
    """Return the number of the chosen exchange."""
    found: str | None = page.run("return document.querySelector('.pane [aria-selected=true]')?.dataset.number ?? null")
    return found


def numbers_seen(page: Page) -> list[str]:
    """Return the numbers of the exchanges in sight."""
    found: list[str] = page.run(
        "return [...document.querySelectorAll('.pane [data-number]')].map((one) => one.dataset.number)"
    )
    return found


def title(page: Page) -> str:
    """Return the title of the open exchange, with its number and API."""
    return "".join(page.texts(".detail h2"))


def test_rows_are_those_of_decode(table: Page, lines: list[dict[str, Any]]) -> None:
    seen = column(table, "apiName")
    assert len(seen) > 15
    assert seen == [line["apiName"] for line in lines][: len(seen)]
    assert column(table, "requestSize") == [f"{line['requestSize']:,}" for line in lines][: len(seen)]
    assert table.texts(".total") == [f"{len(lines)} exchanges"]
    assert re.search(rf" · {len(lines)} exchanges · [1-9][0-9.]* [KM]B in memory$", table.texts(".source")[0])
    assert table.one("[role=grid]").get_attribute("aria-rowcount") == str(len(lines) + 1)


def test_why_a_source_has_no_exchanges(driver: Any, tmp_path: Path) -> None:
    """One file has TLS without keys, the other one is cut."""
    (tmp_path / "cut.pcap").write_bytes(ORDERS.read_bytes()[:30])
    (tmp_path / "bare.pcapng").write_bytes(without_secrets((CAPTURES / "07-tls13-dsb.pcapng").read_bytes())[0])
    with opened(tmp_path / "cut.pcap", tmp_path / "bare.pcapng") as address:
        page = Page(driver, address)
        page.until(lambda: "No Kafka exchange was found." in page.one("[role=grid]").text, "told")
        page.until(lambda: "5 connections not shown: tls: not decrypted" in page.one("[role=grid]").text, "why")
        assert "--keylog FILE" in page.one("[role=grid]").text
        assert page.texts(".source") == ["cut.pcap, bare.pcapng · 0 exchanges · damaged"]
        (damaged,) = page.all(".source .warning")
        assert "cut.pcap: byte 24: the file ends within a packet" in str(damaged.get_attribute("title"))


def test_addresses_are_whole_and_one_click_opens(table: Page, lines: list[dict[str, Any]]) -> None:
    """At 1280 pixels, client and broker are shown with their ports, and no column is outside of the window."""
    try:
        table.size(1280, 800)
        table.drawn()
        seen = len(column(table, "client"))
        for name in ("client", "broker"):
            assert column(table, name) == [line[name] for line in lines][:seen]
        cut = """return [...document.querySelectorAll(".pane .row > :is(:nth-child(3), :nth-child(4), .api, .number)")]
            .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"""
        assert table.run(cut) == []
        assert (
            table.run("const one = document.querySelector('.table.scroller'); return one.scrollWidth - one.clientWidth")
            == 0
        )
        table.one(f"{ROWS}[data-number='2']").click()
        table.until(lambda: title(table).startswith(f"#2 {lines[1]['apiName']}"), "open")
        table.press("j")  # the table still has the focus
        table.until(lambda: title(table).startswith(f"#3 {lines[2]['apiName']}"), "the next")
    finally:
        table.press(Keys.ESCAPE)
        table.size(WIDE)


@pytest.mark.slow
def test_columns_stand_under_their_names(table: Page) -> None:
    left = (
        "return [...document.querySelectorAll(arguments[0])].map((one) => Math.round(one.getBoundingClientRect().left))"
    )
    for width in (900, WIDE):
        table.size(width)
        table.until(
            lambda: table.run(left, "[role=columnheader]") == table.run(left, f"{ROWS}:nth-child(3) > span"), "aligned"
        )


@pytest.mark.slow
def test_a_click_on_a_column_sorts(table: Page, lines: list[dict[str, Any]]) -> None:
    slowest = [f"{line['latencyMs']:,.3f}" for line in lines if line["latencyMs"] is not None]
    table.run(
        "[...document.querySelectorAll('[role=columnheader] button')].find((b) => b.textContent == 'latencyMs').click()"
    )
    fastest = sorted(slowest, key=lambda text: float(text.replace(",", "")))
    table.until(lambda: column(table, "latencyMs")[:3] == fastest[:3], "sorted")
    assert "sort=latencyMs" in table.driver.current_url
    assert "ascending" in [one.get_attribute("aria-sort") for one in table.all("[role=columnheader]")]


def test_the_keyboard_alone(table: Page, lines: list[dict[str, Any]]) -> None:
    table.one(".table.scroller").send_keys(Keys.ARROW_DOWN, "j", "j", "k")
    table.until(lambda: number_of(table) == "3", "moved by two")
    table.press(Keys.END)
    table.until(lambda: number_of(table) == str(len(lines)), "the last")
    table.press(Keys.HOME, Keys.ENTER)
    table.until(lambda: title(table).startswith(f"#1 {lines[0]['apiName']}"), "the first is open")
    assert "at=1" in table.driver.current_url
    table.press("]")
    table.until(lambda: title(table).startswith(f"#2 {lines[1]['apiName']}"), "the next")
    table.press(Keys.ESCAPE)
    table.until(lambda: not table.one(".detail").is_displayed(), "left")
    table.press("?")
    table.until(lambda: "next and previous exchange" in table.one("dialog").text, "the keys")
    assert [str(one.get_attribute("href")).endswith("/page/help/page") for one in table.all("dialog a")] == [True]
    table.press(Keys.ESCAPE, "t", "t")
    table.until(lambda: table.run("return document.documentElement.dataset.theme") == "dark", "dark")
    table.press("t")
    table.until(lambda: table.run("return document.documentElement.dataset.theme ?? ''") == "", "as the system")


@pytest.mark.slow
def test_a_url_shows_an_exchange_again(orders: Page, lines: list[dict[str, Any]]) -> None:
    orders.show(at="9", sort="-requestSize")
    orders.until(lambda: title(orders).startswith(f"#9 {lines[8]['apiName']}"), "open")
    orders.until(lambda: number_of(orders) == "9", "chosen")


def test_fields_are_those_of_decode(orders: Page, lines: list[dict[str, Any]]) -> None:
    at = next(number for number, line in enumerate(lines, 1) if line["apiName"] == "FindCoordinator")
    orders.show(at=str(at))
    names = orders.until(lambda: orders.texts(".tree .field"), "fields")
    values = dict(zip(names, orders.texts(".tree .value"), strict=True))
    line = lines[at - 1]
    assert values["correlationId"] == str(line["correlationId"])
    assert values["clientId"] == line["clientId"]
    assert [values[name] for name in ("keyType",)] == [str(line["request"]["keyType"])]


@pytest.mark.slow
def test_columns_are_chosen(table: Page, lines: list[dict[str, Any]]) -> None:
    try:
        table.press("v")
        boxes = table.until(lambda: table.all("dialog li label"), "columns")
        next(box for box in boxes if box.text.startswith("correlationId")).click()
        table.press(Keys.ESCAPE)
        table.until(lambda: "correlationId" in table.texts("[role=columnheader]"), "shown")
        seen = table.until(lambda: column(table, "correlationId"), "rows")
        assert seen == [str(line["correlationId"]) for line in lines][: len(seen)]
        table.press("v")
        table.one("dialog li label")
        table.run("document.querySelectorAll('dialog input:checked').forEach((box) => box.click())")
        left = table.texts("dialog li label:has(input:checked)")  # the last column stays
        assert [text.split()[0] for text in left] == table.texts("[role=columnheader]")
        table.press(Keys.ESCAPE)
    finally:
        table.run("localStorage.clear()")


@pytest.mark.slow
def test_in_a_window_that_becomes_narrow_the_heading_covers_no_row(orders: Page) -> None:
    names = "number,requestAt,client,broker,clientId,apiName,latencyMs,requestSize,responseSize,topics,groups"
    cells = "[...document.querySelectorAll('.table .head > *')].map((one) => one.getBoundingClientRect().bottom)"
    lowest = f"return Math.max(...{cells})"
    top = "return document.querySelector('.pane [data-number]').getBoundingClientRect().top"
    try:
        orders.size(WIDE)
        orders.show()
        orders.run("localStorage.setItem('kproxy columns', arguments[0])", names)
        orders.show()
        orders.one(f"{ROWS}[data-number]")
        orders.size(390)
        orders.until(lambda: orders.all(".table.folded"), "narrow")
        orders.drawn()
        assert orders.run(lowest) <= orders.run(top) + 1
        assert column(orders, "apiName")[0] == "ApiVersions"
    finally:
        orders.run("localStorage.clear()")
        orders.size(WIDE)


@pytest.mark.slow
def test_on_a_phone_an_exchange_is_a_sheet_that_leads_back(orders: Page, lines: list[dict[str, Any]]) -> None:
    orders.size(NARROW)
    try:
        orders.show()
        orders.until(lambda: column(orders, "apiName"), "shown")
        names = "[...document.querySelectorAll('.pane [data-number] > :nth-child(2)')]"
        cut = f"return {names}.some((one) => one.scrollWidth > one.clientWidth)"
        assert orders.texts("[role=columnheader]")[1] == "apiName"
        assert not orders.run(cut)  # names of APIs are whole
        assert orders.overflow() == 0
        for back in (orders.driver.back, lambda: orders.one(".detail .back").click()):
            orders.one(f"{ROWS}[data-number='3']").click()
            orders.until(lambda: title(orders).startswith(f"#3 {lines[2]['apiName']}"), "open")
            orders.until(
                lambda: orders.one(".detail").is_displayed(), "in sight"
            )  # its title is still the one of before
            box = orders.run(
                "const box = document.querySelector('.detail').getBoundingClientRect(); return [box.width, box.height]"
            )
            assert box == orders.run("return [window.innerWidth, window.innerHeight]")
            assert orders.texts(".tree .field") and orders.overflow() == 0
            back()
            orders.until(lambda: not orders.one(".detail").is_displayed(), "the table again")
            orders.until(lambda: "at=" not in orders.driver.current_url, "as the address says")
    finally:
        orders.size(WIDE)


def test_a_menu_says_what_may_be_done_with_a_cell(table: Page, lines: list[dict[str, Any]]) -> None:
    heads = table.texts("[role=columnheader]")
    table.one(".table.scroller").send_keys(*[Keys.ARROW_RIGHT] * heads.index("apiName"), "m")
    entries = table.until(lambda: table.texts("[role=menuitem]"), "the menu")
    name = lines[0]["apiName"]
    assert entries[:2] == [f'Only apiName == "{name}"', f'Not: apiName != "{name}"']
    table.press(Keys.ARROW_DOWN)
    table.until(lambda: table.run("return document.activeElement.textContent") == entries[1], "the next")
    table.press(Keys.ESCAPE)
    table.until(lambda: not table.all("[role=menu]"), "closed")
    assert table.run("return document.activeElement.getAttribute('role')") == "grid"


@pytest.mark.slow
def test_the_focus_stays_when_rows_come_anew(table: Page) -> None:
    table.one(".table.scroller").send_keys("jjj", "s")
    table.until(lambda: "sort=" in table.driver.current_url and numbers_seen(table), "sorted")
    assert table.run("return document.activeElement.getAttribute('role')") == "grid"
    table.press(*"jj")
    table.until(
        lambda: table.run("return document.querySelector('.pane [aria-selected=true]').ariaRowIndex") == "4", "chosen"
    )


def test_nothing_was_complained_of(table: Page) -> None:
    assert table.complaints() == []
