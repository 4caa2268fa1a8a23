"""The filter in Chromium selects what the decoded log says, shows mistakes at their column, and is written by clicks too."""

from typing import Any
from urllib.parse import urlencode

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.page.asking import decoded
from tests.page.browser.driving import WIDE, Page
from tests.page.browser.test_exchanges import ROWS, column, number_of
from tests.support.corpus import CAPTURES

pytestmark = pytest.mark.xdist_group("page-browser")
REBALANCES = CAPTURES / "03-classic-rebalance-range.pcap"


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return decoded(REBALANCES)


@pytest.fixture
def table(rebalances: Page) -> Page:
    rebalances.size(WIDE)
    rebalances.show()
    rebalances.one(f"{ROWS}[data-number]")
    return rebalances


def numbers(page: Page) -> list[int]:
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => Number(one.dataset.number))"
    return [int(one) for one in page.run(script, f"{ROWS}[data-number]")]


def filter_text(page: Page) -> str:
    return str(page.one("[role=combobox]").get_property("value"))


@pytest.mark.parametrize(
    ("condition", "python"),
    [
        ("latencyMs > 500.0 && apiKey == 1", lambda line: (line["latencyMs"] or 0) > 500 and line["apiKey"] == 1),
        ('request.groupId == "g-range"', lambda line: (line["request"] or {}).get("groupId") == "g-range"),
    ],
)
def test_a_filter_lets_through_what_decode_does(
    table: Page, lines: list[dict[str, Any]], condition: str, python: Any
) -> None:
    expected = [number for number, line in enumerate(lines, 1) if python(line)]
    assert 0 < len(expected) < len(lines)
    table.write_filter(condition)
    table.until(lambda: table.texts(".total")[0].startswith(f"{len(expected)} exchange"), "counted")
    table.until(lambda: numbers(table) and numbers(table) == expected[: len(numbers(table))], "rows")
    assert "filter=" in table.driver.current_url


def test_a_mistake_is_shown_at_its_column_and_the_rows_stay(table: Page) -> None:
    before = numbers(table)
    table.write_filter('apiKey == 1 && clientld == "a"')
    table.until(lambda: table.texts(".filter mark") == ["clientld"], "marked")
    said = table.texts(".filter .said .critical")[0]
    assert said.startswith("Column 16: ")
    assert "clientId" in said  # what was meant
    assert table.one("[role=combobox]").get_attribute("aria-invalid") == "true"
    assert numbers(table)[:15] == before[:15]
    table.write_filter("apiKey == 1")
    table.until(lambda: not table.all(".filter mark"), "mended")


def test_keys_write_the_filter(table: Page, lines: list[dict[str, Any]]) -> None:
    heads = table.texts("[role=columnheader]")
    table.one(".table.scroller").send_keys(*[Keys.ARROW_RIGHT] * heads.index("clientId"), "o")
    client = lines[0]["clientId"]
    table.until(lambda: filter_text(table) == f'clientId == "{client}"', "only this client")
    table.until(lambda: set(column(table, "clientId")) == {client}, "its rows")
    table.one(".table.scroller").send_keys(
        *[Keys.ARROW_RIGHT] * (heads.index("apiName") - heads.index("clientId")), "x"
    )
    api = lines[0]["apiName"]
    table.until(lambda: filter_text(table) == f'clientId == "{client}" && apiName != "{api}"', "not this API")
    table.until(lambda: column(table, "apiName") and api not in column(table, "apiName"), "none of it")


def test_clicks_write_the_filter(table: Page, lines: list[dict[str, Any]]) -> None:
    table.driver.find_element(By.XPATH, "//button[text()='Not Heartbeat']").click()
    left = [line for line in lines if line["apiName"] != "Heartbeat"]
    assert len(left) < len(lines)
    table.until(lambda: table.texts(".total")[0].startswith(f"{len(left)} exchanges"), "fewer")
    table.driver.find_element(By.XPATH, "//button[text()='Clear filter']").click()
    table.until(lambda: table.texts(".total")[0].startswith(f"{len(lines)} exchanges"), "all")


@pytest.mark.slow
def test_clicks_write_topics_and_groups(rebalances: Page, lines: list[dict[str, Any]]) -> None:
    joins = [number for number, line in enumerate(lines, 1) if line["apiName"] == "JoinGroup"]
    rebalances.show(at=str(joins[0]))
    rebalances.until(lambda: rebalances.texts(".tree .field"), "open")
    rebalances.driver.find_element(By.XPATH, "//button[text()='Only this group']").click()
    rebalances.until(lambda: filter_text(rebalances) == '"g-range" in groups', "written")
    rebalances.write_filter('"g-range" in groups && apiName == "JoinGroup"')
    rebalances.until(lambda: numbers(rebalances) == joins, "those of the group")
    rebalances.one(".table.scroller").send_keys(Keys.ESCAPE)
    rebalances.write_filter('apiName == "OffsetCommit"')
    commit = next(number for number, line in enumerate(lines, 1) if line["apiName"] == "OffsetCommit")
    rebalances.until(lambda: numbers(rebalances)[:1] == [commit], "OffsetCommit")
    rebalances.one(".table.scroller").send_keys(
        *[Keys.ARROW_RIGHT] * rebalances.texts("[role=columnheader]").index("topics"), "x"
    )
    names = lines[commit - 1]["topicNames"]
    (topic,) = {names.get(one.get("topicId"), one.get("name")) for one in lines[commit - 1]["request"]["topics"]}
    rebalances.until(lambda: filter_text(rebalances).endswith(f'&& !("{topic}" in topics)'), "not this topic")
    rebalances.until(lambda: "".join(rebalances.texts(".total")).startswith("0 exchanges"), "no other topic")


@pytest.mark.slow
def test_an_open_exchange_stays_chosen_where_the_filter_puts_it(rebalances: Page, lines: list[dict[str, Any]]) -> None:
    at = next(number for number, line in enumerate(lines, 1) if number > 20 and line["apiName"] == "Fetch")
    rebalances.show(at=str(at))
    rebalances.write_filter("apiKey == 1")
    before = sum(line["apiKey"] == 1 for line in lines[: at - 1])
    chosen = "return document.querySelector('.pane [aria-selected=true]')?.ariaRowIndex"
    rebalances.until(lambda: rebalances.run(chosen) == str(before + 2), "where it stands now")
    rebalances.until(lambda: number_of(rebalances) == str(at), "chosen still")


@pytest.mark.slow
def test_names_are_completed(table: Page) -> None:
    line = table.one("[role=combobox]")
    line.send_keys("latencyMs > 1.0 && clie")
    table.until(lambda: table.texts("[role=option] code") == ["client", "clientId"], "the names that begin so")
    assert line.get_attribute("aria-expanded") == "true"
    line.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.TAB)
    table.until(lambda: filter_text(table) == "latencyMs > 1.0 && clientId", "completed")
    line.send_keys(Keys.ESCAPE)
    table.until(lambda: line.get_attribute("aria-expanded") == "false", "closed")


@pytest.mark.slow
def test_what_was_filtered_before_comes_back(table: Page, lines: list[dict[str, Any]]) -> None:
    table.run("localStorage.clear()")
    first, second = "apiKey == 1", "apiKey == 1 && latencyMs > 1.0"
    for text in (first, second):
        table.write_filter(text)
        table.until(lambda text=text: urlencode({"filter": text}) in table.driver.current_url, "applied")  # type: ignore[misc]
    fetches = [number for number, line in enumerate(lines, 1) if line["apiKey"] == 1]
    line = table.one("[role=combobox]")
    line.send_keys(" && apiVersion > 3")
    line.send_keys(Keys.CONTROL, "z")
    table.until(lambda: filter_text(table) != f"{second} && apiVersion > 3", "undone")
    table.press(Keys.ESCAPE)
    table.one(".table.scroller").send_keys(Keys.ESCAPE)
    table.driver.back()
    table.until(lambda: filter_text(table) == first, "the filter before")
    table.until(lambda: numbers(table) == fetches[: len(numbers(table))] and numbers(table), "its rows")
    table.driver.back()
    table.until(lambda: table.texts(".total") == [f"{len(lines)} exchanges"], "none")
    line.send_keys(Keys.ARROW_UP)
    table.until(lambda: table.texts("[role=option] code") == [second, first], "those of before")
    away_and_back = "document.activeElement.blur(); arguments[0].focus(); setTimeout(arguments[1], 300)"
    table.driver.execute_async_script(away_and_back, line)
    assert table.texts("[role=option] code") == [second, first], "the list stays open"
    line.send_keys(Keys.ARROW_DOWN, Keys.ENTER, Keys.ENTER)
    table.until(lambda: numbers(table) == fetches[: len(numbers(table))] and numbers(table), "its rows, again")
    table.one(".table.scroller").send_keys(Keys.CONTROL, "z")
    table.until(lambda: filter_text(table) == "", "undone from the table")
    table.until(lambda: table.texts(".total") == [f"{len(lines)} exchanges"], "none, again")


@pytest.mark.slow
def test_who_types_quickly_is_offered_what_fits_the_end(table: Page) -> None:
    line = table.one("[role=combobox]")
    for part in ("ap", "iN", "ame == ", '"JoinG'):
        line.send_keys(part)
    table.until(lambda: table.texts("[role=option] code") == ['"JoinGroup"'], "values that fit")
    line.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    table.until(lambda: filter_text(table) == 'apiName == "JoinGroup"', "written")


@pytest.mark.slow
def test_two_exchanges_are_compared(table: Page, lines: list[dict[str, Any]]) -> None:
    same = [number for number, line in enumerate(lines, 1) if line["apiName"] == "JoinGroup"][:2]
    scroller = table.one(".table.scroller")
    scroller.send_keys(*"j" * (same[0] - 1), "c", *"j" * (same[1] - same[0]), "c")
    table.until(lambda: table.texts("dialog h2") == [f"Exchanges {same[0]} and {same[1]}"], "compared")
    cells = table.texts("dialog td")
    found = {cells[at + 1]: (cells[at + 2], cells[at + 3]) for at in range(0, len(cells), 4)}
    differing = [
        name for name, value in lines[same[0] - 1]["request"].items() if lines[same[1] - 1]["request"][name] != value
    ]
    assert set(differing) <= {path.split(".")[0].split("[")[0] for path in found}
    table.press(Keys.ESCAPE)


@pytest.mark.slow
def test_what_is_shown_can_be_taken_out(table: Page) -> None:
    table.write_filter('apiName == "Fetch"')
    table.until(lambda: "of" in table.texts(".total")[0], "filtered")
    table.one(".table.scroller").send_keys("e")
    command = table.until(lambda: "".join(table.texts("dialog pre.command")), "the command")
    assert command.startswith("kproxy decode ") and "kproxy replay --to HOST:PORT --where" in command
    assert "--where 'apiName == \"Fetch\"'" in command
    links = table.run("return [...document.querySelectorAll('dialog a')].map((one) => one.getAttribute('href'))")
    assert [link.split("format=")[1].split("&")[0] for link in links] == [
        "pcapng",
        "pcapng-anonymized",
        "jsonl",
        "parquet",
    ]
    fetch = "return fetch(arguments[0]).then((answer) => answer.text()).then((text) => text.trim().split('\\n').length)"
    jsonl = next(link for link in links if "jsonl" in link)
    shown = table.texts(".total")[0].split()[0]
    assert table.run(fetch, jsonl) == int(shown)
    table.press(Keys.ESCAPE)
