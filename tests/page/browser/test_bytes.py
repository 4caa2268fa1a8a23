"""An exchange in Chromium: a field lights its bytes, bytes choose their field; records, errors, what was inside bytes."""

import base64
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.page.browser.driving import WIDE, Page
from tests.page.browser.test_exchanges import title
from tests.page.test_recorded import ORDERS, decoded

pytestmark = pytest.mark.xdist_group("page-browser")


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return decoded(ORDERS)


def opened(page: Page, number: int) -> None:
    """Show an exchange of the page."""
    page.size(WIDE)
    page.show(at=str(number))
    page.until(lambda: title(page).startswith(f"#{number} ") and page.texts(".tree .field"), "open")


def place(lines: list[dict[str, Any]], api_name: str) -> int:
    return next(number for number, line in enumerate(lines, 1) if line["apiName"] == api_name)


def field(page: Page, name: str) -> WebElement:
    return next(
        row for row in page.all(".tree .row") if row.text.startswith(f"{name}\n") or row.text.split()[:1] == [name]
    )


def lit(page: Page) -> bytes:
    """The bytes that are pinned."""
    return bytes.fromhex("".join(page.texts(".hex .digits .pinned")))


def chosen(page: Page) -> str:
    return "".join(page.texts(".tree [aria-selected=true] .field"))


def test_a_field_lights_its_bytes(orders: Page, lines: list[dict[str, Any]]) -> None:
    at = place(lines, "JoinGroup")
    request = lines[at - 1]["request"]
    opened(orders, at)
    group = request["groupId"].encode()
    expected = {
        "groupId": bytes([len(group) + 1]) + group,  # COMPACT_STRING
        "sessionTimeoutMs": request["sessionTimeoutMs"].to_bytes(4, "big"),
        "correlationId": lines[at - 1]["correlationId"].to_bytes(4, "big"),
    }
    for name, data in expected.items():
        field(orders, name).click()
        orders.until(lambda data=data: lit(orders) == data, name)  # type: ignore[misc]


def test_a_byte_chooses_its_field(orders: Page, lines: list[dict[str, Any]]) -> None:
    at = place(lines, "JoinGroup")
    opened(orders, at)
    letters = "".join(orders.texts(".hex .letters"))
    for name, value in {"clientId": lines[at - 1]["clientId"], "groupId": lines[at - 1]["request"]["groupId"]}.items():
        offset = letters.index(value) + 2
        orders.run(f"document.querySelector('.hex .digits [data-at=\"{offset}\"]').click()")
        orders.until(lambda name=name: chosen(orders) == name, name)  # type: ignore[misc]
        assert value.encode() in lit(orders)


def test_what_is_opened_inside_bytes_lights_these_bytes(orders: Page, lines: list[dict[str, Any]]) -> None:
    at = place(lines, "JoinGroup")
    opened(orders, at)
    inside = "".join(orders.texts(".hex .letters")).index("range") + 12
    orders.run(f"document.querySelector('.hex .digits [data-at=\"{inside}\"]').click()")
    orders.until(lambda: chosen(orders) == "metadata", "the bytes field")
    orders.run("document.querySelector('.tree.scroller').focus()")
    orders.press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    orders.until(lambda: chosen(orders) == "consumer-subscription", "what is inside")
    orders.until(
        lambda: base64.b64decode(lines[at - 1]["request"]["protocols"][0]["metadata"]) in lit(orders), "its bytes"
    )


def test_records_are_those_of_decode(orders: Page) -> None:
    lines = decoded(ORDERS)
    at = place(lines, "Produce")
    opened(orders, at)
    orders.one("#tab-records").click()
    parts = [one["json"] for one in lines[at - 1]["embedded"] if one["kind"] == "records"]
    heads = orders.until(lambda: orders.texts("#part h3"), "records")
    assert heads == [f"{part['topic']}, partition {part['partition']}: {part['count']:,} records" for part in parts]
    keys = orders.texts("#part tbody tr td:nth-child(3)")
    assert len(keys) == sum(part["count"] for part in parts)


def test_an_error_says_what_it_means(orders: Page, lines: list[dict[str, Any]]) -> None:
    at = next(number for number, line in enumerate(lines, 1) if line["errors"])
    opened(orders, at)
    assert f"{lines[at - 1]['errors'][0]['name']} ({lines[at - 1]['errors'][0]['code']})" in orders.one(".errors").text
    assert len(orders.one(".errors").text) > 60
