"""kafka-python's own integration tests pass through the proxy wherever they pass without it; also for two tenants at once.

Of its 65 tests 9 need a broker that logs in (SASL) and one an old broker: they are skipped. One more waits for a session
timeout that the broker is configured for here.

Minutes: `python -m pytest tests/interop/test_kafka_python_suite.py -m long`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.kafka_python_suite import run, suite
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrances, started
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.wire import metadata

TENANTS = ("team-a", "team-b")
PASSING = 55  # with kafka-python 3.0.12 and Kafka 4.3.1, no proxy between


@pytest.fixture
def broker_zero(kafka: None, tmp_path: Path) -> Iterator[Cluster]:
    """A broker as that suite wants it: its node id is 0, and topics come into being by being asked for."""
    cluster = started(tmp_path, NEWEST, first=0, extra={"auto.create.topics.enable": "true", "num.partitions": "4"})
    yield cluster
    cluster.close()


@pytest.mark.long
@pytest.mark.skipif(DIRECT, reason="compares with and without")
def test_no_test_fails_that_passes_direct(
    broker_zero: Cluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root = suite(tmp_path)
    ways = Entrances(broker_zero, tmp_path / "proxies")
    try:
        straight = run(root, broker_zero.open, NEWEST)
        through = run(root, ways().bootstrap, NEWEST)
        strangers = ways.strangers()
    finally:
        ways.close()
    passing = {name for name, outcome in straight.items() if outcome == "passed"}
    record_property("passing direct", len(passing))
    record_property("not passing direct", sorted(set(straight) - passing))
    assert len(passing) >= PASSING - 2, straight
    assert {name: through.get(name) for name in passing if through.get(name) != "passed"} == {}
    assert strangers == []


@pytest.mark.long
@pytest.mark.skipif(DIRECT, reason="is about what the proxy does to names")
def test_two_tenants_run_it_at_once_and_see_nothing_of_each_other(kafka: None, tmp_path: Path) -> None:
    """Each test of the suite makes topics and groups of its own; one that sees others' in a listing fails."""
    extra = {"auto.create.topics.enable": "true", "num.partitions": "4", "group.min.session.timeout.ms": "1000"}
    cluster = started(tmp_path, NEWEST, first=0, extra=extra)
    clusters = [
        virtual_cluster(
            cluster.bootstrap(), name=name, filters=[{"use": "topic_prefix", "with": {"prefix": f"{name}."}}]
        )
        for name in TENANTS
    ]
    proxy = Proxy(tmp_path / "proxy", clusters)
    try:
        proxy.start()
        roots = [suite(_made(tmp_path / name)) for name in TENANTS]
        with ThreadPoolExecutor(len(TENANTS)) as threads:
            ways = [proxy.bootstrap(number) for number in range(len(TENANTS))]
            results = list(threads.map(run, roots, ways, [NEWEST] * len(TENANTS)))
        names = {name for name, _ in metadata(cluster.open).leaders}
    finally:
        proxy.close()
        cluster.close()
    for outcomes in results:
        assert {name for name, outcome in outcomes.items() if outcome == "failed"} == set()
        assert list(outcomes.values()).count("passed") >= PASSING
    ours = {name for name in names if not name.startswith("__")}
    assert {name.split(".")[0] for name in ours} == set(TENANTS)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
