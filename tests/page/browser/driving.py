"""``kproxy open`` in a process, and a headless Chromium that a test drives.

With KPROXY_BROWSER=firefox in the environment it is Firefox, with geckodriver; then nothing is known of what the browser logs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.support import chromium
from tests.support.kafka.processes import eventually

T = TypeVar("T")
PATIENCE = 90  # seconds, for busy machines
WIDE, NARROW = 1400, 400
HEIGHT = 900
SILENT = ("SEVERE", "WARNING")
MISTAKES = ("400 (Bad Request)", "422 (Unprocessable Entity)")  # answers to a wrong filter or a wrong edit


FIREFOX = os.environ.get("KPROXY_BROWSER") == "firefox"
LEAST_FIREFOX = 500  # pixels: its windows cannot be narrower


def missing() -> str:
    """Return what these tests lack; empty if nothing."""
    if FIREFOX:
        return "" if shutil.which("firefox") and shutil.which("geckodriver") else "no firefox with geckodriver"
    return "" if chromium.found() and shutil.which("chromedriver") else "no chromium with chromedriver"


@contextmanager
def opened(*sources: Path, options: Sequence[str] = (), patience: float = PATIENCE) -> Iterator[str]:
    """Run ``kproxy open``, wait until the sources are read, and give the address that it prints."""
    command = [sys.executable, "-m", "kproxy", "open", "--no-browser", *options, *map(str, sources)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert " is at http://" in line, line
            address = line.rsplit(" ", 1)[1].strip()
            eventually(lambda: read_whole(address), patience=patience, what="the source is read")
            yield address
        finally:
            process.terminate()


def read_whole(address: str) -> bool:
    """Whether the server has read the source to its end."""
    with httpx.Client(follow_redirects=True) as client:
        client.get(address)
        source = client.get(f"{address.split('?', 1)[0]}page/api/source").json()
    return source["loading"] is None


@contextmanager
def driven() -> Iterator[Any]:
    """Run a browser."""
    driver = _firefox() if FIREFOX else _chromium()
    driver.set_script_timeout(PATIENCE)
    driver.set_page_load_timeout(PATIENCE)
    try:
        yield driver
    finally:
        driver.quit()


def _firefox() -> webdriver.Firefox:
    options = webdriver.FirefoxOptions()
    options.add_argument("-headless")
    service = webdriver.FirefoxService(shutil.which("geckodriver"), service_args=["--allow-system-access"])
    return webdriver.Firefox(options=options, service=service)


def _chromium() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium.found() or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def measured(page: "Page") -> dict[str, float]:
    """Return Chromium's metrics of the page after a garbage collection: JSHeapUsedSize in bytes, Nodes, JSEventListeners, …"""
    page.driver.execute_cdp_cmd("Performance.enable", {})
    page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    metrics = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return {one["name"]: one["value"] for one in metrics}


class Page:
    """The page of one source in a browser."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.address = address
        driver.get(address)
        self.size(WIDE)
        self.dark(False)

    def size(self, width: int, height: int = HEIGHT) -> None:
        """Set the size of the window, in pixels."""
        if FIREFOX:
            around = self.run("return [window.outerWidth - window.innerWidth, window.outerHeight - window.innerHeight]")
            self.driver.set_window_size(max(width, LEAST_FIREFOX) + around[0], height + around[1])
            return
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, wanted: bool) -> None:
        """Set whether the system prefers dark colours."""
        if FIREFOX:
            preference = "layout.css.prefers-color-scheme.content-override"
            with self.driver.context(self.driver.CONTEXT_CHROME):
                self.run("Services.prefs.setIntPref(arguments[0], arguments[1])", preference, 0 if wanted else 1)
            return
        self.prefers(**{"prefers-color-scheme": "dark" if wanted else "light"})

    def prefers(self, **features: str) -> None:
        """Set what the system prefers, by names of media features. Only in Chromium."""
        given = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": given})

    def show(self, view: str = "exchanges", **parameters: str) -> None:
        """Reload the page at a view, and wait until it is drawn."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}#{view}{'?' + urlencode(parameters) if parameters else ''}")
        self.settled()

    def settled(self) -> None:
        """Wait until the view has drawn the server's answers."""
        self.until(lambda: self.run("return document.getElementById('view').ariaBusy") == "false", "settled")

    def drawn(self) -> None:
        """Wait until the page is redrawn, for instance after a change of its size."""
        frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))"
        self.driver.execute_async_script(frames)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page, and return its result."""
        return self.driver.execute_script(script, *arguments)

    @contextmanager
    def before_scripts(self, script: str) -> Iterator[None]:
        """Run a script in each page that is loaded, before the page's own; only in Chromium."""
        self.driver.execute_cdp_cmd("Page.enable", {})
        made = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """Wait for the first element that matches."""
        return self.until(lambda: next(iter(self.all(selector)), None), selector)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of these elements, all at one moment."""
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent.trim())", selector
        )
        return found

    def press(self, *keys: str) -> None:
        """Send keys to the focused element."""
        for key in keys:
            self.until(partial(self._send, key), "what has the focus")

    def _send(self, key: str) -> bool:
        self.driver.switch_to.active_element.send_keys(key)
        return True

    def until(self, ask: Callable[[], T], what: str) -> T:
        """Ask until the answer is true. If an element was redrawn meanwhile, or is not there yet, ask again."""

        def asked() -> T:
            try:
                return ask()
            except (StaleElementReferenceException, IndexError) as error:  # IndexError: the first of no texts
                raise AssertionError("an element was drawn anew, or is not there yet") from error

        return eventually(asked, patience=PATIENCE, what=what)

    def write_filter(self, text: str) -> None:
        """Write a filter, and press Enter."""
        line = self.one("[role=combobox]")
        line.clear()
        line.send_keys(text, Keys.ENTER)

    def complaints(self) -> list[str]:
        """Return what the browser logged since the last call: errors of scripts, of the security policy, of loading.

        What the page of another test asked its server for, which ended meanwhile, is left out.
        """
        if FIREFOX:
            return []
        own = "/".join(self.address.split("/")[:3]) + "/"
        said = [one["message"] for one in self.driver.get_log("browser") if one["level"] in SILENT]
        said = [one for one in said if not one.startswith("http://127.0.0.1:") or one.startswith(own)]
        return [one for one in said if not any(mistake in one for mistake in MISTAKES)]

    def overflow(self) -> int:
        """Return by how many pixels something is wider than the window."""
        script = "return document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
        view = "const view = document.getElementById('view'); return view.scrollWidth - view.clientWidth"
        return max(int(self.run(script)), int(self.run(view)))
