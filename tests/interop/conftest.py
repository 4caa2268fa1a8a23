"""Check after every test here that no client bypassed the proxy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka.fixtures import DIRECT, Entrance, Entrances


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the clients warn of is not ours to mend."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("default"))


def _none_went_round(ways: Entrances) -> Iterator[None]:
    ways.strangers()
    yield
    strangers = ways.strangers()
    assert DIRECT or not strangers, f"connected to a broker past the proxy: {strangers}"


@pytest.fixture
def entrance(ways: Entrances, request: pytest.FixtureRequest) -> Iterator[Entrance]:
    """The plain way into one broker; after the test, who came to the broker is looked at."""
    found = ways()
    for _ in _none_went_round(ways):
        yield found
    if found.proxy is not None:
        assert found.proxy.running, found.proxy.said()


@pytest.fixture
def guarded(ways: Entrances) -> Iterator[Entrances]:
    """All ways into one broker, looked at in the same manner."""
    for _ in _none_went_round(ways):
        yield ways


@pytest.fixture
def entrance_to_three(ways_to_three: Entrances) -> Iterator[Entrance]:
    """The plain way into three brokers, looked at in the same manner."""
    found = ways_to_three()
    for _ in _none_went_round(ways_to_three):
        yield found
