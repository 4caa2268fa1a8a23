"""axe-core, which checks the rules of WCAG, finds nothing serious in any view, light or dark, wide or narrow."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.page.browser.driving import FIREFOX, HEIGHT, NARROW, WIDE, Page, opened
from tests.page.browser.pictures import SCENES, SOURCES, draw
from tests.page.test_modules import fetched

pytestmark = pytest.mark.xdist_group("page-browser")
ROWS = ".table .pane [role=row][data-number]"
OTHERS = ("map", "time", "groups", "clients", "findings")
AXE, SHA256 = "axe-core@4.14.1", "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
RUN = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((found) => done(found.violations))"
SHOWN = {
    "exchanges": ("exchanges", {}, ""),
    "one exchange": ("exchanges", {"at": "3"}, ""),
    "keys": ("exchanges", {}, "?"),
    "columns": ("exchanges", {}, "v"),
}


@pytest.fixture(scope="module")
def axe(require: Callable[[str, object, str], None]) -> str:
    require("npm", shutil.which("npm"), "no npm")
    (script,) = fetched(AXE, ["axe.min.js"]).values()
    assert hashlib.sha256(script).hexdigest() == SHA256
    return script.decode()


def violations(page: Page, axe: str) -> list[tuple[Any, ...]]:
    page.run(axe)
    found = page.driver.execute_async_script(RUN)
    return [
        (one["id"], one["impact"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
    ]


def looks_right(page: Page, axe: str) -> list[Any]:
    """Return what is wrong, in a light wide window and a dark narrow one: by axe-core, by its width, by the browser's log."""
    wrong: list[Any] = []
    for dark, width in ((False, WIDE), (True, NARROW)):
        page.dark(dark)
        page.size(width)
        page.drawn()
        wrong += violations(page, axe)
        wrong += [f"{page.overflow()} pixels too wide"] if page.overflow() else []
        wrong += page.complaints()
    page.dark(False)
    page.size(WIDE)
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN)
def test_axe_finds_nothing_serious(orders: Page, axe: str, shown: str) -> None:
    view, parameters, key = SHOWN[shown]
    orders.size(WIDE)
    orders.show(view, **parameters)
    if key:
        orders.press(key)
        orders.until(lambda: orders.one("dialog").is_displayed(), "the dialog")
    if parameters:
        orders.until(lambda: orders.texts(".tree .field"), "fields")
    assert looks_right(orders, axe) == []


@pytest.fixture(scope="module")
def pictured(driver: Any) -> Iterator[Page]:
    with opened(*SOURCES, options=["--records"]) as address:
        yield Page(driver, address)


@pytest.mark.long
@pytest.mark.parametrize("scene", SCENES)
def test_every_picture(pictured: Page, axe: str, scene: str) -> None:
    """Each scene of pictures.py, wide and narrow, light and dark."""
    wrong = []
    for width in (WIDE, NARROW):
        for dark in (False, True):
            draw(pictured, scene, width, dark)
            wrong += violations(pictured, axe)
            wrong += [f"{pictured.overflow()} pixels too wide"] if pictured.overflow() else []
            wrong += pictured.complaints()
    assert wrong == []


def marked(page: Page) -> None:
    page.show()
    page.one(ROWS)
    page.one(".table.scroller").send_keys("jjc")


def compared(page: Page) -> None:
    marked(page)
    page.one(".table.scroller").send_keys("jjc")
    page.until(lambda: page.all("dialog[open] .differ td"), "differences")


def exported(page: Page) -> None:
    page.show()
    page.one(ROWS)
    page.one(".table.scroller").send_keys("e")
    page.until(lambda: page.texts("dialog pre.command"), "the command")


def completed(page: Page) -> None:
    page.show()
    line = page.one("[role=combobox]")
    line.send_keys("clientId ==")
    line.send_keys(Keys.CONTROL + " ")
    page.until(lambda: page.all(".choices:not([hidden]) li"), "choices")


def menu(page: Page) -> None:
    page.show()
    page.one(ROWS)
    page.run("arguments[0].dispatchEvent(new MouseEvent('contextmenu', {bubbles: true}))", page.one(f"{ROWS} span"))
    page.one(".menu button")


STATES = {"a mark": marked, "two compared": compared, "export": exported, "choices": completed, "menu": menu}


@pytest.mark.slow
@pytest.mark.parametrize(
    "state",
    ["two compared", *(pytest.param(each, marks=pytest.mark.long) for each in STATES if each != "two compared")],
)
def test_axe_finds_nothing_serious_in_what_keys_and_clicks_open(orders: Page, axe: str, state: str) -> None:
    orders.size(WIDE)
    STATES[state](orders)
    assert looks_right(orders, axe) == []
    orders.press(Keys.ESCAPE)


def seen(page: Page, selector: str) -> set[str]:
    """Return the distinct looks of the elements: colours, borders, outlines."""
    names = ["backgroundColor", "color", "outlineStyle", "outlineColor", "boxShadow"]
    look = "arguments[1].map((name) => getComputedStyle(one)[name]).join()"
    return set(page.run(f"return [...document.querySelectorAll(arguments[0])].map((one) => {look})", selector, names))


@pytest.mark.slow
@pytest.mark.skipif(FIREFOX, reason="it has no command for what the system prefers")
def test_what_is_chosen_is_seen_in_the_colours_that_a_person_forces(orders: Page, axe: str) -> None:
    """Backgrounds are not drawn then, yet what is chosen, marked or pressed must look different from its neighbours."""
    orders.size(WIDE)
    marked(orders)
    orders.one(".table.scroller").send_keys("j")
    orders.prefers(**{"forced-colors": "active", "prefers-reduced-motion": "reduce"})
    try:
        assert orders.run("return matchMedia('(forced-colors: active) and (prefers-reduced-motion: reduce)').matches")
        others = seen(orders, f"{ROWS}[aria-selected=false]:not(.marked)")
        assert len(others) == 1
        for selector, neighbours in (
            (f"{ROWS}[aria-selected=true]", others),
            (f"{ROWS}.marked", others),
            ("#bar nav a[aria-current]", seen(orders, "#bar nav a:not([aria-current])")),
        ):
            (chosen,) = seen(orders, selector)
            assert chosen not in neighbours, selector
        moving = "return document.getAnimations().filter((one) => one.playState === 'running').length"
        assert orders.run(moving) == 0
        assert violations(orders, axe) == []
    finally:
        orders.prefers()


@pytest.mark.slow
@pytest.mark.parametrize("view", ["exchanges", *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)])
def test_at_twice_the_size_all_can_be_reached(orders: Page, axe: str, view: str) -> None:
    """200 % zoom is half of the window in CSS pixels (WCAG 1.4.4): nothing is wider, and no control is covered or cut off."""
    orders.size(WIDE // 2, HEIGHT // 2)
    orders.show(view)
    assert orders.overflow() == 0
    assert violations(orders, axe) == []
    assert orders.complaints() == []
    orders.size(WIDE)


@pytest.mark.slow
def test_axe_would_find_something(orders: Page, axe: str) -> None:
    orders.show()
    orders.run("const made = document.createElement('button'); document.querySelector('.controls').append(made)")
    assert "button-name" in [rule for rule, _, _ in violations(orders, axe)]
