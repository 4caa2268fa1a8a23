"""The page by keyboard alone in Chromium: the focus reaches everything that can be clicked, and is visible there."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.page.browser.driving import WIDE, Page, opened
from tests.page.browser.test_exchanges import ROWS, title
from tests.page.browser.test_filters import filter_text
from tests.page.browser.test_views import VIEWS
from tests.support.corpus import CAPTURES

pytestmark = pytest.mark.xdist_group("page-browser")
MOST = 150  # presses of Tab

# What can be clicked in a view, except what has keys: other tabs (arrows), column headings (s), twists of trees (arrows)
PRESSABLE = """
const found = [...document.querySelectorAll("a[href], button, input, select, summary, [role=button], [tabindex='0']")];
const hidden = (one) => one.closest("[hidden], dialog:not([open])") || !one.getClientRects().length || one.disabled;
const others = (one) => one.closest("[role=columnheader]") || one.matches("[role=tab][tabindex='-1']");
const kept = found.filter((one) => !hidden(one) && !others(one));
kept.forEach((one, at) => { one.dataset.walked = at; });
return kept.map((one) => one.getAttribute("aria-label") || one.textContent.trim() || one.tagName);
"""
WALKED = """
const one = document.activeElement, style = getComputedStyle(one);
const inner = one.querySelector("rect");
const seen = style.outlineStyle !== "none" || (inner !== null && getComputedStyle(inner).strokeWidth === "2.5px");
return [one.dataset?.walked ?? null, seen];
"""


@pytest.fixture(scope="module")
def page(driver: Any) -> Iterator[Page]:
    with opened(CAPTURES / "04-transactions.pcap") as address:
        yield Page(driver, address)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["exchanges", "findings", *VIEWS[:4]])
def test_tab_reaches_all_that_can_be_pressed(page: Page, view: str) -> None:
    page.size(WIDE)
    page.show(view, **({"at": "3"} if view == "exchanges" else {}))
    if view == "findings":
        page.until(lambda: "".join(page.texts("main [role=status]")).startswith("2 findings"), "all looked for")
    if view == "exchanges":
        page.until(lambda: title(page).startswith("#3 ") and page.texts(".tree .field"), "open")
    names = page.run(PRESSABLE)
    page.run("document.activeElement.blur(); document.querySelector('.skip').focus()")
    assert len(names) > len(page.all("nav a")) + 2
    reached, unseen = {page.run(WALKED)[0]}, set()
    for _ in range(MOST):
        page.press(Keys.TAB)
        at, seen = page.run(WALKED)
        if at is not None and not seen:
            unseen.add(names[int(at)])
        reached.add(at)
        if len(reached - {None}) == len(names):
            break
    assert [name for at, name in enumerate(names) if str(at) not in reached] == []
    assert unseen == set()  # the focus must be visible everywhere


@pytest.mark.slow
def test_a_whole_walk(page: Page) -> None:
    """Go from the filter to a field's bytes, and from a finding to its evidence."""
    page.size(WIDE)
    page.show()
    page.one(f"{ROWS}[data-number]")
    page.press("/")
    page.press("apiN", Keys.ARROW_DOWN)
    page.until(lambda: page.texts("[role=option]"), "choices")
    page.press(Keys.ARROW_DOWN, Keys.TAB)
    page.until(lambda: filter_text(page) == "apiName", "completed")
    page.press(' == "Produce"', Keys.ENTER)
    page.until(lambda: "".join(page.texts(".total")).startswith("51 exchanges"), "filtered")
    page.press(Keys.ESCAPE)
    page.until(lambda: page.run("return document.activeElement.getAttribute('role')") == "grid", "in the table")
    page.press("j", Keys.ENTER)
    page.until(lambda: " Produce v" in title(page) and page.texts(".tree .field"), "open")
    page.press(Keys.ARROW_RIGHT)
    page.until(lambda: page.texts("[role=tab][aria-selected=true]")[0].startswith("Response"), "the response")
    page.run("document.querySelector('.tree.scroller').focus()")  # Tab reaches it, as the test above shows
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    page.until(lambda: page.all(".hex i.pinned"), "its bytes are lit")
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.one(".detail").is_displayed(), "left")
    page.press("6")
    page.until(lambda: page.all("#finding-producer_fenced"), "a finding")
    page.run("document.querySelector('#finding-producer_fenced summary').focus()")
    page.press(Keys.ENTER)
    page.until(lambda: page.all("#finding-producer_fenced td a"), "its rows")
    page.run("document.querySelector('#finding-producer_fenced td a').focus()")
    page.press(Keys.ENTER)
    page.until(lambda: page.all(f"{ROWS}[data-number]") and "size(errors) > 0" in filter_text(page), "its evidence")


def test_the_table_takes_its_keys_while_nothing_has_the_focus(page: Page) -> None:
    page.size(WIDE)
    page.show()
    whole = page.texts(".total")
    page.write_filter('apiName == "Produce"')
    page.until(lambda: page.texts(".total") != whole, "the filter is applied")
    page.run("[...document.querySelectorAll('.bar button')].find((one) => one.textContent === 'Clear filter').click()")
    assert page.driver.switch_to.active_element.get_attribute("role") == "grid"  # the button is gone
    page.until(lambda: page.texts(".total") == whole, "all again")
    page.run("document.activeElement.blur()")
    page.press("j", Keys.ENTER)
    page.until(lambda: title(page).startswith("#2 "), "the second exchange")


@pytest.mark.slow
def test_after_a_link_to_another_view_the_keys_are_those_of_the_view(page: Page) -> None:
    page.size(WIDE)
    page.show("clients")
    page.one("nav a").click()
    page.one(f"{ROWS}[data-number]")
    page.press("j", Keys.ENTER)
    page.until(lambda: title(page).startswith("#2 "), "the second exchange")
    page.press(Keys.ESCAPE, "5")
    page.until(lambda: page.all("[aria-label=Clients] table"), "the clients")
    page.press(Keys.TAB)
    assert page.run("return document.activeElement.closest('main') !== null")


def test_every_key_is_listed(page: Page) -> None:
    static = files("kproxy.page").joinpath("static")
    code = "".join(static.joinpath(name).read_text("utf-8") for name in ("exchanges.js", "exchange_table.js"))
    keys = {key.strip('"') for key in re.findall(r"""[ {]("[^"]+"|\w+): \(\) =>""", code)}
    handled = {key for key in keys if len(key) == 1}
    assert {"/", "f", "h", "o", "x", "m", "s"} <= handled
    page.size(WIDE)
    page.show()
    page.press("?")
    listed = set(page.until(lambda: page.texts("dialog kbd"), "the keys"))
    assert handled - listed == set()
    assert {"t", "?", "Enter", "Esc", "Ctrl-Z"} <= listed
    page.press(Keys.ESCAPE)
