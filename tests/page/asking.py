"""Requests to the page's application as a browser sends them, without a socket."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from kproxy.page.recorded import Recorded
from kproxy.page.server import page_app
from tests.support.corpus import CAPTURES

TOKEN = "a-token-for-tests"
HERE = "http://127.0.0.1:8000"
ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
CAPTURE = CAPTURES / "03-classic-rebalance-range.pcap"


class Browser:
    """Asks an ASGI application, and keeps its cookies."""

    def __init__(self, app: Any, *, raises: bool = True) -> None:
        self._app = app
        self._raises = raises  # exceptions that the application lets through
        self._cookies = httpx.Cookies()

    def get(self, path: str, **more: Any) -> httpx.Response:
        """See httpx."""
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        """See httpx."""
        return self.ask("POST", path, **more)

    def put(self, path: str, **more: Any) -> httpx.Response:
        """See httpx."""
        return self.ask("PUT", path, **more)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request; its whole answer."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=self._raises)
            async with httpx.AsyncClient(transport=transport, base_url=HERE, cookies=self._cookies) as client:
                answer = await client.request(method, path, **more)
                self._cookies = client.cookies
                return answer

        return asyncio.run(send())


def opened(*sources: Path, **more: Any) -> Recorded:
    """A store of captures and logs, all read. The caller closes it."""
    store = Recorded(sources, **more)
    store.start()
    assert store.wait(60)
    return store


def let_in(store: Recorded) -> Browser:
    """A browser that was let in to the page of a store."""
    browser = Browser(page_app(store, TOKEN))
    browser.get("/", params={"token": TOKEN})
    return browser


@contextmanager
def browsed(*sources: Path, **more: Any) -> Iterator[Browser]:
    """A browser that was let in to the page of captures and logs."""
    with opened(*sources, **more) as store:
        yield let_in(store)


def decoded(*sources: Path) -> list[dict[str, Any]]:
    """The exchanges of captures, those of ORDERS if none is named, as kproxy decode has them."""
    words = [sys.executable, "-m", "kproxy", "decode", "-q", "--format", "jsonl", *map(str, sources or [ORDERS])]
    lines = [msgspec.json.decode(line) for line in subprocess.check_output(words).splitlines()]
    return [line for line in lines if line["event"] == "exchange"]
