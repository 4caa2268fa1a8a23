"""The store that most tests of the page ask; and live stores in the process of the tests, which may not wait for an idle core."""

from collections.abc import Iterator

import pytest

from kproxy.page.recorded import Recorded
from tests.page.asking import CAPTURE, opened


@pytest.fixture(scope="session", autouse=True)
def feeds_are_taken_at_once() -> Iterator[None]:
    """In a proxy traffic comes first: with SCHED_IDLE the thread gets a hundredth of a core that others keep busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kproxy.page.live.store.take_what_is_left", lambda: None)
        yield


@pytest.fixture(scope="session")
def store() -> Iterator[Recorded]:
    """A capture with rebalances, all read."""
    with opened(CAPTURE) as recorded:
        yield recorded
