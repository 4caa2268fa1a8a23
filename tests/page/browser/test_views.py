"""Map, time, groups, clients and findings in Chromium show the numbers of kproxy report and kproxy decode."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from kproxy.output.times import render_instant
from tests.page.asking import decoded
from tests.page.browser.driving import WIDE, Page, opened
from tests.page.browser.test_accessibility import axe, looks_right
from tests.support.command import report_json
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled

pytestmark = pytest.mark.xdist_group("page-browser")
TRANSACTIONS = CAPTURES / "04-transactions.pcap"
ASKED = ("map", "inventory", "explain", "rebalances", "lag", "producer_fenced")
VIEWS = ("map", "time", "groups", "clients", "findings")

__all__ = ["axe"]


def reported(source: Path, *options: str) -> dict[str, Any]:
    """Return the analyses of kproxy report, by id."""
    answer = report_json(*options, source)
    return {one["id"]: one for one in answer["verdicts"]} | answer["analyses"]


@pytest.fixture(scope="module")
def page(driver: Any) -> Iterator[Page]:
    with opened(TRANSACTIONS) as address:
        yield Page(driver, address)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return reported(TRANSACTIONS, *(f"--only={name}" for name in ASKED))


def cells(page: Page, label: str) -> list[dict[str, str]]:
    """Return the rows of a table, as dictionaries by column."""
    script = (
        "return arguments[0].map((one) => [...document.querySelectorAll(one)].map((cell) => cell.textContent.trim()))"
    )
    table = f"[aria-label='{label}']"
    names, texts = page.run(script, [f"{table} th", f"{table} td:not(.links)"])  # all at one moment
    heads = [text.rstrip(" ▴▾") for text in names]
    return [dict(zip(heads, texts[at : at + len(heads)], strict=True)) for at in range(0, len(texts), len(heads) or 1)]


MOVED = """
const pressed = () => new KeyboardEvent("keydown", { key: "ArrowRight", shiftKey: arguments[0], bubbles: true });
for (let at = 0; at < arguments[1]; at += 1) document.activeElement.dispatchEvent(pressed());
"""  # move in a chart, by keys


@pytest.mark.slow
def test_the_map_has_who_writes_and_who_reads(page: Page, report: dict[str, Any]) -> None:
    page.size(WIDE)
    page.show("map")
    rows = report["map"]["rows"]
    writers = {row["client_id"] for row in rows if row["direction"] == "produce"}
    readers = {group for row in rows if row["direction"] == "fetch" for group in row["groups"] or [row["client_id"]]}
    topics = {row["topic"] for row in rows if row["direction"] in ("produce", "fetch")}
    named = [str(one.get_attribute("aria-label")) for one in page.all("svg.map .node")]
    expected = {"writes": writers, "topic": topics, "reads": readers}
    assert sorted(named) == sorted(f"{kind}: {name}" for kind, names in expected.items() for name in names)
    written = {(row["client_id"], row["topic"]) for row in rows if row["direction"] == "produce"}
    assert len(page.all("svg .edge.writes")) == len(written)
    said = [(row["client_id"], row["records"].replace(",", "")) for row in cells(page, "Map")]
    assert said == [(row["client_id"], str(row["records"]) if row["records"] is not None else "") for row in rows]
    assert page.texts(".verdict")[0] == report["map"]["verdict"]


def test_time_counts_what_decode_shows(page: Page) -> None:
    page.size(WIDE)
    page.show("time")
    lines = decoded(TRANSACTIONS)
    apis = Counter(line["apiName"] for line in lines)
    shown = {row["api"]: int(row["exchanges"].replace(",", "")) for row in cells(page, "Sums")}
    assert sum(shown.values()) == len(lines)
    assert {name: shown[name] for name in shown if name != "others"} == {
        name: apis[name] for name in shown if name != "others"
    }
    assert len(shown) >= min(len(apis), 12)
    counts = [int(str(one.get_attribute("data-count"))) for one in page.all("rect.heat")]
    assert sum(counts) == sum(line["latencyMs"] is not None for line in lines)


@pytest.mark.slow
def test_a_span_that_is_brushed_is_a_filter(page: Page) -> None:
    page.show("time")
    chart = page.one("svg.chart")
    page.run("arguments[0].focus()", chart)
    page.press(*[Keys.SHIFT + Keys.ARROW_RIGHT] * 12, Keys.ENTER)
    line = page.one("[role=combobox]")
    page.until(lambda: line.get_property("value"), "the filter")
    first, last = re.findall(r'"(\S+?)"', str(line.get_property("value")))
    expected = sum(first <= one["requestAt"] < last for one in decoded(TRANSACTIONS) if one["requestAt"])
    assert expected > 0
    page.until(lambda: "".join(page.texts(".total")).startswith(f"{expected} exchange"), "its exchanges")


@pytest.mark.slow
def test_a_selected_span_is_in_the_address(page: Page) -> None:
    page.show("time")
    page.run("document.querySelector('svg.chart').focus()")
    page.run(MOVED, True, 12)
    band = "return document.querySelector('.brush')?.getBoundingClientRect().width ?? 0"
    width = page.until(lambda: page.run(band), "selected")
    assert re.search(r"selected=\d+-\d+", page.driver.current_url)
    link = page.driver.current_url
    page.driver.back()
    page.until(lambda: not page.run(band), "nothing is selected, as before")
    page.driver.get("about:blank")
    page.driver.get(link)
    page.until(lambda: page.run(band) == width, "the same span")


@pytest.mark.slow
def test_an_api_has_its_colour_in_every_view_and_source(page: Page, rebalances: Page) -> None:
    colours = (
        "return Object.fromEntries([...document.querySelectorAll(arguments[0])].map((one) => [one.textContent.trim(), "
    )
    swatch = f"{colours} getComputedStyle(one.querySelector('.swatch')).backgroundColor]))"
    cell = f"{colours} getComputedStyle(one, '::before').backgroundColor]))"
    seen: list[dict[str, str]] = []
    for source in (page, rebalances):
        source.size(WIDE)
        source.show("time")
        seen.append(source.run(swatch, ".legend tbody td:first-child"))
        source.show("exchanges")
        source.one(".pane .api")
        seen.append(source.run(cell, ".pane [data-number] .api"))
    known = {name: colour for one in seen for name, colour in one.items()}
    assert len(known) > 12
    for one in seen:
        assert {name: known[name] for name in one} == one
    common = {name: known[name] for name in ("Fetch", "Produce", "Metadata", "ApiVersions", "JoinGroup", "Heartbeat")}
    assert len(set(common.values())) == len(common)


@pytest.mark.slow
def test_what_is_drawn_stays_between_the_ends_of_its_axis(page: Page) -> None:
    """Also for a selection that begins and ends outside of the axis."""
    beyond = """return [...document.querySelectorAll("svg.chart")].flatMap((chart) => {
        const axis = chart.querySelector(".sheet").getBoundingClientRect();
        const drawn = [...chart.querySelectorAll(".k, .line, .heat, .brush, .cursor")].map((one) => one.getBoundingClientRect());
        const across = (one) => one.left < axis.left - 1 || one.right > axis.right + 3;
        return drawn.filter((one) => across(one) || one.top < axis.top - 1 || one.bottom > axis.bottom + 1)
            .map(({ left, right }) => [left - axis.left, right - axis.right]); })"""
    for view in ("time", "groups"):
        page.show(view, selected="1-1900000000000000000")
        page.until(lambda: page.all(".brush"), "selected")
        assert page.run(beyond) == []


@pytest.mark.slow
def test_a_span_to_the_end_has_the_last_exchange_and_series_are_of_the_span(page: Page) -> None:
    page.show("time")
    lines = [line for line in decoded(TRANSACTIONS) if line["requestAt"]]
    page.run("document.querySelector('svg.chart').focus()")
    for shift, count in ((False, 30), (True, 31)):
        page.run(MOVED, shift, count)
    page.press("z")
    page.until(lambda: "fromNs" in page.driver.current_url, "zoomed")
    begin = render_instant(int(re.findall(r"fromNs=(\d+)", page.driver.current_url)[0]))
    late = Counter(line["apiName"] for line in lines if line["requestAt"] >= begin)
    assert 0 < late["Fetch"] < sum(line["apiName"] == "Fetch" for line in lines)
    page.until(lambda: {row["api"]: row["exchanges"] for row in cells(page, "Sums")} == _texts(late), "the sums of it")
    page.run("document.querySelector('svg.chart').focus()")
    page.run(MOVED, True, 61)
    page.press(Keys.ENTER)
    page.until(lambda: "".join(page.texts(".total")).startswith(f"{late.total()} exchange"), "all of the span")
    page.driver.back()
    page.until(lambda: {row["api"]: row["exchanges"] for row in cells(page, "Sums")} == _texts(late), "the sums again")
    page.driver.find_element(By.XPATH, "//*[@aria-label='Sums']//a[.='Fetch']").click()
    page.until(lambda: "".join(page.texts(".total")).startswith(f"{late['Fetch']} exchange"), "those of the sum")


def _texts(counts: Counter[str]) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


@pytest.mark.slow
def test_few_exchanges_have_whole_numbers_on_the_axis(page: Page) -> None:
    page.show("time", filter='apiName == "LeaveGroup"')
    assert [text for text in page.texts("figure:nth-of-type(2) .axis text") if text.isdigit()] == ["0", "1"]


@pytest.mark.parametrize("at", [1_795_235_518_377_334_000, 1_795_235_518_377_334_001])
def test_a_span_that_ends_within_a_microsecond_has_the_exchange_before_its_end(page: Page, at: int) -> None:
    """The last exchange of a chart can be a request without a response."""
    script = "import('/page/static/conditions.js').then((m) => arguments[2](m.within(arguments[0], arguments[1])))"
    condition = page.driver.execute_async_script(script, str(at), str(at + 1))
    first, last = re.findall(r'"(\S+?)"', condition)
    assert first <= render_instant(at) < last


def test_groups_show_each_rebalance_with_its_cause(page: Page, report: dict[str, Any]) -> None:
    page.size(WIDE)
    page.show("groups")
    rows = report["rebalances"]["rows"]
    assert [(row["began_at"], row["cause"], row["client_id"]) for row in cells(page, "Rebalances")] == [
        (row["began_at"], row["cause"], row["client_id"]) for row in rows
    ]
    bars = page.texts("rect[data-group] title")
    # Names are isolated: U+2068 and U+2069
    assert bars == [f"{row['cause']}: \u2068{row['evidence']}\u2069" for row in rows]
    last = [row for row in report["lag"]["rows"] if row["is_last"]]
    whens = [datetime.fromtimestamp(row["at_ms"] / 1000, UTC) for row in last]
    assert {datetime.fromisoformat(row["at"]) for row in cells(page, "Lag")} == set(whens)
    assert {(row["partition"], row["lag"]) for row in cells(page, "Lag")} == {
        (str(row["partition"]), "" if row["lag"] is None else f"{row['lag']:,}") for row in last
    }


def test_clients_show_the_inventory_and_one_its_settings(page: Page, report: dict[str, Any]) -> None:
    page.size(WIDE)
    page.show("clients")
    rows = report["inventory"]["rows"]
    assert [(row["client_id"], row["requests"]) for row in cells(page, "Clients")] == [
        (row["client_id"], f"{row['requests']:,}") for row in rows
    ]
    client = rows[0]["client_id"]
    page.one("[aria-label=Clients] td button").click()
    page.until(lambda: cells(page, "Settings"), "settings")
    assert {(row["setting"], row["value"]) for row in cells(page, "Settings")} == {
        (row["setting"], row["value"] or "") for row in report["explain"]["rows"] if row["client_id"] == client
    }
    assert f"client={client}" in page.driver.current_url


@pytest.mark.slow
def test_all_columns_of_clients_are_at_hand_and_numbers_sort_the_largest_first(
    page: Page, report: dict[str, Any]
) -> None:
    page.size(WIDE)
    page.show("clients")
    rows = report["inventory"]["rows"]
    table = "[aria-label=Clients]"
    page.one(f"{table} ~ button").click()
    filled = {name for row in rows for name, value in row.items() if value not in (None, "", [])}
    shown = {name.replace("_micros", "_at") for name in filled}  # shown as a time instead of microseconds
    page.until(lambda: set(cells(page, "Clients")[0]) == shown, "all columns")
    head = (
        f"[...document.querySelectorAll('{table} th button')].find((b) => b.textContent.startsWith('response_bytes'))"
    )
    page.run(f"{head}.click()")
    sizes = sorted((row["response_bytes"] for row in rows), reverse=True)
    assert [row["response_bytes"] for row in cells(page, "Clients")] == [f"{size:,}" for size in sizes]
    page.run(f"{head}.click()")
    assert [row["response_bytes"] for row in cells(page, "Clients")] == [f"{size:,}" for size in sizes[::-1]]


def test_findings_are_those_of_the_report(page: Page, report: dict[str, Any]) -> None:
    page.size(WIDE)
    page.show("findings")
    fenced = report["producer_fenced"]
    shown = dict(zip(page.texts(".finding .verdict"), page.texts(".finding .severity"), strict=True))
    assert shown[fenced["verdict"]] == fenced["severity"]
    next(one for one in page.all(".finding summary") if fenced["verdict"] in one.text).click()
    page.until(lambda: cells(page, "Rows of producer_fenced"), "its rows")
    rows = [row["client_id"] for row in cells(page, "Rows of producer_fenced")]
    assert rows == [row["client_id"] for row in fenced["rows"]]


@pytest.mark.slow
@pytest.mark.parametrize("view", sampled(VIEWS, VIEWS[:1]))
def test_a_view_fits_and_axe_finds_nothing_serious(page: Page, axe: str, view: str) -> None:
    page.size(WIDE)
    page.show(view)
    assert looks_right(page, axe) == []


@pytest.mark.slow
def test_each_view_has_its_key(page: Page) -> None:
    page.show()
    for key, view in zip("23456", VIEWS, strict=True):
        page.press(key)
        page.until(lambda at=view: f"#{at}" in page.driver.current_url, view)  # type: ignore[misc]
        page.until(lambda at=view: page.texts("nav [aria-current=page]") == [at.capitalize()], view)  # type: ignore[misc]
        page.settled()


@pytest.mark.long
def test_a_file_that_is_still_written_is_said(driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "written.pcap"
    whole = TRANSACTIONS.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with opened(path) as address:
        path.write_bytes(whole)
        page = Page(driver, address)
        page.until(lambda: "not read to its end" in page.texts(".source")[0], "the bar")
        page.until(
            lambda: "written.pcap has grown since it was read" in "".join(page.texts("#messages p")), "a message"
        )
        assert page.complaints() == []
