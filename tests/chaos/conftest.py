"""`kproxy run` in front of brokers that the tests script. Times are written down as properties, never judged."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.peers import Script, ScriptedBroker
from tests.support.kafka.proxies import Proxy, cluster

FIXED = {"mode": "fixed"}

Start = Callable[..., Proxy]


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
