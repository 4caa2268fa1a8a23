"""Check after a test that no client bypassed the proxy; a proxy that all tests of a module share; the filter encrypt."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrance, Entrances
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT, Security


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the clients warn of is not ours to mend."""
    for item in items:
        if item.nodeid.startswith("tests/interop/"):
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


class Behind:
    """Puts a virtual cluster of its own before the broker for each call: all in one `kproxy run`, unless its settings differ."""

    def __init__(self, broker: Cluster, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self._calls = 0
        self._proxies: dict[str, Proxy] = {}

    def __call__(self, *filters: dict[str, Any], security: Security = PLAINTEXT, **settings: Any) -> Entrance:
        """The way in through *filters*. Calls with equal *settings* (those of the configuration file) share a process."""
        self._calls += 1
        proxy = self._proxies.get(repr(settings))
        if proxy is None:
            proxy = self._proxies[repr(settings)] = Proxy(self.folder / f"proxy-{self._calls}", [], **settings)
        bootstrap = self.broker.bootstrap("SASL" if security.mechanism else "PLAIN")
        name = f"cluster-{self._calls}"
        served = virtual_cluster(bootstrap, name=name, filters=list(filters))
        return Entrance(self.broker, proxy.serve(served), security, proxy, name)

    def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()


@pytest.fixture(scope="module")
def behind(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """Puts filters before the broker."""
    ways = Behind(single, tmp_path_factory.mktemp("behind"))
    yield ways
    ways.close()


@pytest.fixture
def encrypting(tmp_path: Path) -> dict[str, Any]:
    """The filter, with a key set of its own; record keys are encrypted as well."""
    (tmp_path / "seal").write_bytes(bytes(range(32)))
    settings = {"use": "file", "with": {"path": str(tmp_path / "keys"), "key_file": str(tmp_path / "seal")}}
    (tmp_path / "keys.yaml").write_text(str(settings))  # YAML reads it as a flow mapping
    keys(tmp_path, "--make", "kek")
    rule = {"topics": ["*"], "key": "kek", "headers": ["secret"], **record_keys(tmp_path)}
    return {"use": "encrypt", "with": {"keys": settings, "rules": [rule]}}


def record_keys(folder: Path) -> dict[str, Any]:
    """What a rule takes to encrypt record keys: another data key each time."""
    printed: dict[str, Any] = yaml.safe_load(keys(folder, "--record-keys", "kek"))
    return printed


def keys(folder: Path, *words: str) -> bytes:
    command = [sys.executable, "-m", "kproxy", "keys", str(folder / "keys.yaml"), *words]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
