"""The page at its view Breakpoints, with what a user does there."""

from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.page.browser.driving import Page
from tests.support.stopping import Stopping

ROWS = ".stops li:not(.ended)"
EDITOR = "section.stop"
SAID = "#edit-said"
PUT = """const area = document.querySelector("section.stop textarea");
area.value = arguments[0]; area.dispatchEvent(new Event("input", {bubbles: true}))"""


class BreakpointsPage(Page):
    """The page of a proxy that allows edits, at its breakpoints."""

    def __init__(self, driver: Any, scene: Stopping) -> None:
        super().__init__(driver, f"http://{urlsplit(scene.person.address).netloc}/?token={scene.person.token}")
        self.complaints()  # drop those of the page before
        self.show("breakpoints")

    def condition(self) -> WebElement:
        return self.one(".controls.breakpoint [role=combobox]")

    def add(self, condition: str, direction: str = "request") -> None:
        """Add a breakpoint, by keys alone."""
        before = len(self.all(".breakpoints .kind"))
        self.run("document.querySelector('.direction select').focus()")
        self.press("Req" if direction == "request" else "Resp")
        line = self.condition()
        line.clear()
        line.send_keys(condition, Keys.ENTER)
        self.until(lambda: len(self.all(".breakpoints .kind")) == before + 1, "one more breakpoint")

    def rows(self, count: int = 1) -> list[str]:
        """Wait until this many messages are stopped, and return their titles."""

        def titles() -> list[str] | None:
            found = self.texts(f"{ROWS} .name")
            return found if len(found) == count else None

        return self.until(titles, f"{count} stopped") or []

    def open(self, title: str) -> None:
        """Open the stopped message with this title, and wait for its text."""

        def entered() -> bool:
            row = next((one for one in self.all(f"{ROWS} .name") if one.text == title), None)
            if row is not None:
                row.send_keys(Keys.ENTER)
            return row is not None

        self.until(entered, f"the row of {title}")
        self.until(lambda: self.all(f"{EDITOR} textarea"), "the text of the stop")

    @property
    def text(self) -> str:
        return str(self.run("return document.querySelector('section.stop textarea').value"))

    def edit(self, text: str) -> None:
        """Replace the text, as pasting does."""
        self.run(PUT, text)

    def said(self, words: str) -> str:
        """Wait until the check of the edit has these words, and return it."""
        return self.until(lambda: next((one for one in self.texts(SAID) if words in one), ""), f"{words} is said")

    def click(self, label: str, within: str = "main") -> None:
        """Click a button, once it can be clicked."""

        def enabled() -> WebElement | None:
            place = self.one(within)
            found = place.find_elements(By.XPATH, f".//button[normalize-space()='{label}']")
            return next((one for one in found if one.is_enabled()), None)

        button = self.until(enabled, f"the button {label}")
        assert button is not None
        self.run("arguments[0].click()", button)

    def done(self, words: str) -> str:
        """Wait for an entry with these words in the list of decisions, and return it."""
        return self.until(lambda: next((one for one in self.texts(".done > *") if words in one), ""), words)
