"""One Chromium for these tests, which run in one process. Tests with a broker run in the process of that broker."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.page.browser.driving import Page, driven, missing, opened
from tests.support.corpus import CAPTURES


@pytest.fixture(scope="session")
def driver(require: Callable[[str, object, str], None]) -> Iterator[Any]:
    require("chromium", not missing(), missing())
    with driven() as driver:
        yield driver


@pytest.fixture(scope="session")
def orders(driver: Any) -> Iterator[Page]:
    """The page of a capture of a producer and a consumer of a group."""
    with opened(CAPTURES / "01-java-produce-consume-group.pcap", options=["--records"]) as address:
        yield Page(driver, address)


@pytest.fixture(scope="session")
def rebalances(driver: Any) -> Iterator[Page]:
    """The page of a capture of a group that rebalances."""
    with opened(CAPTURES / "03-classic-rebalance-range.pcap") as address:
        yield Page(driver, address)
