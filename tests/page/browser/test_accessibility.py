"""What axe-core, which knows the rules of WCAG, finds in each view: nothing serious, light and dark, wide and on a phone."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kproxy.page.modules import fetched
from tests.page.browser.driving import NARROW, WIDE, Page, opened
from tests.page.browser.pictures import SCENES, SOURCES, draw

pytestmark = pytest.mark.xdist_group("page-browser")
VERSION, SHA256 = "4.14.1", "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
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
    (script,) = fetched("axe-core", VERSION, ["axe.min.js"]).values()
    assert hashlib.sha256(script).hexdigest() == SHA256
    return script.decode()


def violations(page: Page, axe: str) -> list[tuple[Any, ...]]:
    page.run(axe)
    found = page.driver.execute_async_script(RUN)
    return [
        (one["id"], one["impact"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
    ]


def looks_right(page: Page, axe: str) -> list[Any]:
    """What is wrong with what is shown, light and wide, and dark on a phone: by axe-core, too wide, said by the browser."""
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
    """Each that is drawn for people to look at, wide and on a phone, light and dark."""
    wrong = []
    for width in (WIDE, NARROW):
        for dark in (False, True):
            draw(pictured, scene, width, dark)
            wrong += violations(pictured, axe)
            wrong += [f"{pictured.overflow()} pixels too wide"] if pictured.overflow() else []
            wrong += pictured.complaints()
    assert wrong == []


def test_axe_would_find_something(orders: Page, axe: str) -> None:
    orders.show()
    orders.run("const made = document.createElement('button'); document.querySelector('.controls').append(made)")
    assert "button-name" in [rule for rule, _, _ in violations(orders, axe)]
