"""Fixtures of the tests that need brokers: clusters for as long as the run, ways into them with a proxy or without.

KPROXY_INTEROP=direct takes the proxy away: the same tests then say what the clients and the broker do alone.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Require
from tests.support.certificates import Authority
from tests.support.kafka import jars
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import close_tools, run_tool
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT, Security

DIRECT = os.environ.get("KPROXY_INTEROP") == "direct"


@dataclass(frozen=True)
class Way:
    """Which listener of the brokers; what is spoken before the proxy and behind it."""

    listener: str = "PLAIN"
    client: str = "PLAINTEXT"
    mechanism: str | None = None
    mutual: bool = False

    @property
    def client_tls(self) -> bool:
        return self.client.endswith("SSL")

    @property
    def broker_tls(self) -> bool:
        return self.listener in {"TLS", "MUTUAL", "SASL_TLS"}


@dataclass
class Entrance:
    """Where a client is sent and with what; the proxy is None when it is sent straight to the brokers."""

    cluster: Cluster
    bootstrap: str
    security: Security = PLAINTEXT
    proxy: Proxy | None = None
    name: str = "default"  # of the virtual cluster

    @property
    def release(self) -> str:
        return self.cluster.release

    def tool(self, name: str, words: str, *, past: bool = False, expect: int | None = 0) -> str:
        """Run a tool of Kafka through here, or past the proxy; what it printed. *name*: without org.apache.kafka.tools."""
        main = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
        where = self.cluster.open if past else self.bootstrap
        return run_tool(self.release, main, "--bootstrap-server", where, *words.split(), expect=expect)


_DIRECT_LISTENERS = {"PLAINTEXT": "PLAIN", "SSL": "TLS", "SASL_PLAINTEXT": "SASL", "SASL_SSL": "SASL_TLS"}


@dataclass
class Entrances:
    """The ways into a cluster; the proxy of a way is started when the way is first used."""

    cluster: Cluster
    folder: Path
    _proxies: dict[tuple[str, bool, bool], Proxy] = field(default_factory=dict)
    _authority: Authority | None = None

    def __call__(self, way: Way = Way()) -> Entrance:
        proxy = None if DIRECT else self._proxy(way)
        trusted = self._brokers() if DIRECT else self._proxies_own()
        certificate, key = trusted.issue_for("client") if way.mutual else (None, None)
        ca = Path(trusted.ca) if way.client_tls else None
        security = Security(way.client, way.mechanism, ca, certificate, key)
        listener = "MUTUAL" if way.mutual else _DIRECT_LISTENERS[way.client]
        bootstrap = proxy.bootstrap() if proxy else ",".join(self.cluster.bootstrap(listener))
        return Entrance(self.cluster, bootstrap, security, proxy)

    def _brokers(self) -> Authority:
        if self.cluster.authority is None:  # a cluster without TLS has none
            return self._proxies_own()
        return self.cluster.authority

    def _proxies_own(self) -> Authority:
        if self._authority is None:
            self._authority = Authority("proxy", self.folder / "pki")
        return self._authority

    def _proxy(self, way: Way) -> Proxy:
        kind = (way.listener, way.client_tls, way.mutual)
        found = self._proxies.get(kind)
        if found is None or not found.running:
            folder = self.folder / "-".join(map(str, kind))
            settings = {**self._listener_tls(way), **self._broker_tls(way)}
            found = Proxy(folder, [virtual_cluster(self.cluster.bootstrap(way.listener), **settings)])
            self._proxies[kind] = found
            found.start()
        return found

    def _listener_tls(self, way: Way) -> dict[str, Any]:
        if not way.client_tls:
            return {}
        authority = self._proxies_own()
        certificate, key = authority.issue_for("kproxy")
        tls = {"certificate": str(certificate), "key": str(key)}
        if way.mutual:
            tls |= {"client_ca": authority.ca, "client_auth": "required"}
        return {"listener_tls": tls}

    def _broker_tls(self, way: Way) -> dict[str, Any]:
        if not way.broker_tls:
            return {}
        authority = self._brokers()
        tls = {"ca": authority.ca}
        if way.mutual:
            certificate, key = authority.issue_for("kproxy-as-client")
            tls |= {"certificate": str(certificate), "key": str(key)}
        return {"broker_tls": tls}

    def strangers(self) -> list[str]:
        """List the processes that have connected to the gates since the last call and are not proxies of ours.

        A process that had closed before the gate could identify it (number 0) is left out: no client uses such a connection.
        """
        marks = {proxy.mark for proxy in self._proxies.values()}
        strangers = (each for each in self.cluster.gates.visitors() if each.pid and each.mark not in marks)
        return [f"{each.pid} {each.command}" for each in strangers]

    def logs(self) -> str:
        """The ends of the proxies' logs."""
        return "\n".join(f"{proxy.log.parent.name}: {proxy.said()}" for proxy in self._proxies.values())

    def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()


Folder = Callable[[str], Path]


def started(folder: Path, release: str, **options: Any) -> Cluster:
    """A cluster that is up; what it needs must be there."""
    cluster = Cluster(folder, release, **options)
    try:
        cluster.start()
    except BaseException:
        cluster.close()
        raise
    return cluster


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run all tests of a cluster, which is then started once."""
    for item in items:
        group = _cluster_of(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))


def _cluster_of(item: pytest.Item) -> str | None:
    """The session's cluster that a test uses."""
    fixtures = getattr(item, "fixturenames", ())
    if "three" in fixtures:
        return "three brokers"
    if "single" in fixtures and isinstance(item, pytest.Function):
        return f"broker {item.callspec.params['single']}"
    return None


@pytest.fixture(scope="session")
def kafka(require: Require) -> Iterator[None]:
    """Brokers and Kafka's tools can be run here."""
    reason = jars.missing()
    require("kafka", reason is None, reason or "")
    yield
    close_tools()


@pytest.fixture(scope="session", params=[jars.NEWEST, pytest.param(jars.LAST_WITH_ZOOKEEPER, marks=pytest.mark.slow)])
def single(kafka: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker with every listener, of each release in turn."""
    cluster = started(tmp_path_factory.mktemp(f"kafka-{request.param}"), request.param, secure=True)
    yield cluster
    cluster.close()
    close_tools()  # some leave threads behind that look for their brokers for ever


@pytest.fixture(scope="session")
def three(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of the newest release, PLAIN and OPEN only."""
    cluster = started(tmp_path_factory.mktemp("kafka-three"), jars.NEWEST, nodes=3)
    yield cluster
    cluster.close()
    close_tools()


def _entrances(cluster: Cluster, folder: Path) -> Iterator[Entrances]:
    entrances = Entrances(cluster, folder)
    yield entrances
    entrances.close()


@pytest.fixture(scope="session")
def ways(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entrances]:
    """The ways into ``single``."""
    yield from _entrances(single, tmp_path_factory.mktemp("proxies"))


@pytest.fixture(scope="session")
def ways_to_three(three: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entrances]:
    """The ways into ``three``."""
    yield from _entrances(three, tmp_path_factory.mktemp("proxies"))


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name for this test's topics."""
    return re.sub(r"[^\w.]+", "-", request.node.name).strip("-")[:200]
