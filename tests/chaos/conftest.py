"""`kproxy run` in front of brokers that the tests script. Times are written down as properties, never judged."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.peers import Script, ScriptedBroker, swallowing

FIXED = {"mode": "fixed"}

Start = Callable[..., Proxy]
Scripted = Callable[..., ScriptedBroker]
Record = Callable[[str, object], None]  # of pytest's record_property


class SharedProxy(Proxy):
    """A proxy for all tests that neither change nor end it. Its totals count from the beginning of a test."""

    def __init__(self, folder: Path) -> None:
        self.broker = ScriptedBroker(swallowing)
        super().__init__(folder, [cluster([self.broker.address], addresses=FIXED)])
        self._before: dict[str, float] = {}

    def begin_test(self) -> None:
        """Wait until the connections of earlier tests are closed, and count from now on."""
        eventually(lambda: self.count("kproxy_connections_open") == 0, what="earlier connections to be closed")
        self._before = {name: value for name, value in super().metrics().items() if "_total" in name}

    def metrics(self) -> dict[str, float]:
        return {name: value - self._before.get(name, 0) for name, value in super().metrics().items()}

    def close(self) -> None:
        super().close()
        self.broker.close()


Shared = Callable[[Script], SharedProxy]


@pytest.fixture(scope="session")
def shared_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedProxy]:
    proxy = SharedProxy(tmp_path_factory.mktemp("shared"))
    try:
        proxy.start()
        yield proxy
    finally:
        proxy.close()


@pytest.fixture
def shared(shared_proxy: SharedProxy) -> Iterator[Shared]:
    """``shared(script)``: the proxy that tests share, in front of a broker that plays the script."""
    shared_proxy.begin_test()

    def play(script: Script) -> SharedProxy:
        shared_proxy.broker.script = script
        return shared_proxy

    yield play
    assert shared_proxy.broker.faults == []


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ScriptedBroker]]:
    """``scripted(script)``: a broker that plays it, for as long as the test lasts."""
    brokers: list[ScriptedBroker] = []

    def start(script: Script, **options: Any) -> ScriptedBroker:
        brokers.append(ScriptedBroker(script, **options))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()
    assert [fault for broker in brokers for fault in broker.faults] == []


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Start]:
    """``proxied(address, ...)``: a proxy of the test's own in front of one address; settings are the configuration's.

    ``virtual`` are settings of the virtual cluster; without them addresses are not rewritten.
    """
    proxies: list[Proxy] = []

    def start(address: str, *, virtual: dict[str, Any] | None = None, **settings: Any) -> Proxy:
        served = cluster([address], **({"addresses": FIXED} | (virtual or {})))
        proxies.append(Proxy(tmp_path / f"proxy-{len(proxies)}", [served], **settings))
        return proxies[-1].start()

    yield start
    for proxy in proxies:
        proxy.close()
