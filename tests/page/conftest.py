"""The live store of these tests runs in their own process, where what it takes from feeds may not wait for an idle core."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def feeds_are_taken_at_once() -> Iterator[None]:
    """In a proxy traffic comes first: with SCHED_IDLE the thread gets a hundredth of a core that others keep busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kproxy.page.live.store.take_what_is_left", lambda: None)
        yield
