"""One exchange in Chromium: fields highlight their bytes and bytes choose their field; records, errors, nested fields."""

import base64
from collections.abc import Iterator
from struct import pack
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from kproxy.protocol.error_codes import error_code
from kproxy.protocol.facts import facts
from tests.page.asking import CAPTURE as REBALANCE
from tests.page.asking import ORDERS, decoded
from tests.page.browser.driving import HEIGHT, WIDE, Page, measured
from tests.page.browser.driving import opened as browsed
from tests.page.browser.test_exchanges import title
from tests.support.canaries import Scene, capture
from tests.support.corpus import CAPTURES
from tests.support.frames import array, batch, record, string
from tests.support.hostile_names import answered, asked

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
    """Return the highlighted bytes of the chosen field."""
    return bytes.fromhex("".join(page.texts(".hex .digits .pinned")))


def chosen(page: Page) -> str:
    return "".join(page.texts(".tree [aria-selected=true] .field"))


def test_a_field_lights_its_bytes_and_a_byte_chooses_its_field(orders: Page, lines: list[dict[str, Any]]) -> None:
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
    letters = "".join(orders.texts(".hex .letters"))
    for name, value in {"clientId": lines[at - 1]["clientId"], "groupId": request["groupId"]}.items():
        offset = letters.index(value) + 2
        orders.run(f"document.querySelector('.hex .digits [data-at=\"{offset}\"]').click()")
        orders.until(lambda name=name: chosen(orders) == name, name)  # type: ignore[misc]
        assert value.encode() in lit(orders)
    inside = letters.index("range") + 12
    orders.run(f"document.querySelector('.hex .digits [data-at=\"{inside}\"]').click()")
    orders.until(lambda: chosen(orders) == "metadata", "the bytes field")
    orders.run("document.querySelector('.tree.scroller').focus()")
    orders.press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    orders.until(lambda: chosen(orders) == "consumer-subscription", "what is inside")
    orders.until(lambda: base64.b64decode(request["protocols"][0]["metadata"]) in lit(orders), "its bytes")


@pytest.mark.slow
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


@pytest.mark.long
def test_batches_of_one_record_leave_the_records_in_sight(driver: Any) -> None:
    """Messages of format 0 have no batches: each counts as one."""
    source = CAPTURES / "08-old-broker-0.9-format0.pcap"
    lines = decoded(source)
    at = next(number for number, line in enumerate(lines, 1) if line["apiName"] == "Fetch" and line["embedded"])
    first = next(one["json"] for one in lines[at - 1]["embedded"] if one["kind"] == "records")
    with browsed(source, options=["--records"]) as address:
        page = Page(driver, address)
        page.show(at=str(at))
        page.one("#tab-records").click()
        page.until(lambda: page.all("#part tbody tr"), "records")
        assert page.texts("#part summary")[0] == f"{len(first['batches']) - 3} more batches"
        assert page.one("#part tbody tr").rect["y"] < HEIGHT
        assert page.texts("#part p button")[0] == f"{first['count'] - 100} more"


@pytest.mark.slow
def test_what_shows_records_that_are_left_out_is_said(rebalances: Page) -> None:
    lines = decoded(REBALANCE)
    at = next(number for number, line in enumerate(lines, 1) if line["apiName"] == "Fetch" and line["embedded"])
    opened(rebalances, at)
    rebalances.one("#tab-records").click()
    rebalances.until(lambda: "what Export saves as pcapng" in " ".join(rebalances.texts("#part .note")), "what to do")


@pytest.mark.slow
def test_an_error_says_what_it_means(rebalances: Page) -> None:
    lines = decoded(REBALANCE)
    codes = {error["code"]: number for number, line in enumerate(lines, 1) for error in line["errors"]}
    assert 79 in codes  # MEMBER_ID_REQUIRED
    for code, number in codes.items():
        opened(rebalances, number)
        (known,) = (error for error in facts().errors if error.code == code)  # as Kafka's class Errors has them
        said = rebalances.until(lambda page=rebalances: page.one(".errors").text, "said")  # type: ignore[misc]
        assert f"{known.name} ({code})" in said
        assert (f"Clients retry it: {error_code(code).then}." in said) == known.retriable
        assert (f"Clients do not retry it: {error_code(code).then}." in said) == (not known.retriable)
        assert error_code(code).meaning in said


@pytest.mark.slow
def test_the_keyboard_finds_the_field_of_a_byte(orders: Page, lines: list[dict[str, Any]]) -> None:
    at = place(lines, "JoinGroup")
    opened(orders, at)
    group = "".join(orders.texts(".hex .letters")).index(lines[at - 1]["request"]["groupId"])
    orders.run("document.querySelector('.hex .scroller').focus()")
    orders.press(Keys.HOME, *[Keys.ARROW_DOWN] * (group // 16), *[Keys.ARROW_RIGHT] * (group % 16))
    orders.until(lambda: orders.texts(".tree .row.lit .field") == ["groupId"], "its field is lit")
    assert chosen(orders) == ""
    orders.press(Keys.ENTER)
    orders.until(lambda: chosen(orders) == "groupId", "its field")
    assert lines[at - 1]["request"]["groupId"].encode() in lit(orders)


RECORDS, TOPICS = 10_000, 100_000
MOST_HEAP = 60 << 20  # bytes
MOST_NODES = 20_000


@pytest.fixture(scope="module")
def large(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a Produce with 10 MB of records, and of a Metadata response with a long array."""
    records = batch(
        b"".join(record(b"key %d" % at, b"%04d" % (at % 10_000) * 250, at) for at in range(RECORDS)), RECORDS
    )
    partition = array(pack(">i", 0) + pack(">i", len(records)) + records)
    accepted = array(pack(">ihqqq", 0, 0, 0, -1, 0) + array() + string(None))
    topics = [pack(">h", 0) + string(f"topic {at}") + b"\0" + array() for at in range(TOPICS)]
    broker = array(pack(">i", 1) + string("h") + pack(">ih", 9092, -1))
    producing = pack(">hhi", -1, 1, 1_000) + array(string("t") + partition)
    scenes = [
        Scene("records", [asked(0, 8, b"a", producing), answered(array(string("t") + accepted) + pack(">i", 0))]),
        Scene("topics", [asked(3, 1, b"a", array(string("t"))), answered(broker + pack(">i", 1) + array(*topics))]),
    ]
    file = tmp_path_factory.mktemp("large") / "large.pcap"
    file.write_bytes(capture(scenes))
    with browsed(file, options=["--records"]) as address:
        yield Page(driver, address)


LONG_TASKS = """
window.tasks = [];
const seen = (list) => window.tasks.push(...list.getEntries().map((one) => Math.round(one.duration)));
new PerformanceObserver(seen).observe({ type: "longtask" });
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_large_exchange_is_shown_in_parts(large: Page) -> None:
    large.show()
    large.run(LONG_TASKS)
    large.press(Keys.ENTER)
    large.until(lambda: title(large).startswith("#1 "), "open")
    large.until(lambda: large.texts(".hex .digits"), "bytes")
    large.run("document.querySelector('.hex .scroller').focus()")
    large.press(Keys.END)
    last = "9999" * 250  # the value of the last record, before the number of its headers
    large.until(lambda: "".join(large.texts(".hex .letters")).endswith(last[-30:] + "·"), "the last bytes")
    large.one("#tab-records").click()
    large.until(lambda: len(large.texts("#part tbody tr")) == 100, "some records")
    assert large.texts("#part h3") == [f"t, partition 0: {RECORDS:,} records"]
    large.one("#part p button").click()
    large.until(lambda: len(large.texts("#part tbody tr")) == 200, "more of them")
    large.run("document.querySelector('.table.scroller').focus()")
    large.press("j")
    large.until(lambda: title(large).startswith("#2 "), "the array")
    large.one("#tab-response").click()
    large.until(lambda: f"{TOPICS:,} elements" in large.texts(".tree .value .none"), "counted")
    metrics = measured(large)
    assert metrics["JSHeapUsedSize"] < MOST_HEAP
    assert metrics["Nodes"] < MOST_NODES
    print(
        "tasks longer than 50 ms:", large.run("return window.tasks"), f"heap: {metrics['JSHeapUsedSize'] / 1e6:.0f} MB"
    )
