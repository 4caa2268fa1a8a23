"""Replay from the page in Chromium, before a broker that answers with the recorded bytes."""

import asyncio
from typing import Any

import pytest

from kproxy.protocol import ApiKey
from tests.page.browser.driving import Page, opened
from tests.page.browser.test_accessibility import axe, looks_right
from tests.page.browser.test_exchanges import ROWS
from tests.support.replayed import RecordedBroker, before, capture, recorded

__all__ = ["axe"]

pytestmark = pytest.mark.xdist_group("page-browser")


def show_plan(page: Page, to: str) -> None:
    page.show()
    page.one(f"{ROWS}[data-number]")
    page.press("r")
    page.one(".replay input").send_keys(to)
    page.run("document.querySelector('.replay select').value = 'max'")
    page.run("document.querySelector('.replay select').dispatchEvent(new Event('change'))")
    page.run("document.querySelector('.replay form button').click()")


@pytest.mark.slow
def test_the_plan_is_shown_then_sent_and_the_answers_are_compared(driver: Any, axe: str) -> None:
    async def work() -> None:
        broker = RecordedBroker(recorded(1))
        async with before(broker) as cluster:
            broker.asked.clear()
            await asyncio.to_thread(replayed, f"127.0.0.1:{cluster.bootstrap.port}", broker)

    def replayed(to: str, broker: RecordedBroker) -> None:
        with opened(capture(1)) as address:
            page = Page(driver, address)
            show_plan(page, "127.0.0.1:1")
            page.until(lambda: "refused" in "".join(page.texts(".replay [role=alert]")).lower(), "no broker is there")
            show_plan(page, to)
            page.until(lambda: "Nothing was sent" in "".join(page.texts(".replay pre")), "the plan")
            assert {api for api, _ in broker.asked} == {ApiKey.API_VERSIONS, ApiKey.METADATA}
            assert looks_right(page, axe) == []
            page.run(
                "[...document.querySelectorAll('.replay button')].find((one) => one.textContent === 'Send it').click()"
            )
            page.until(lambda: page.texts(".replay h3") == ["Sent; the answers are the same"], "the comparison")
            assert ApiKey.PRODUCE in {api for api, _ in broker.asked}

    asyncio.run(work())
