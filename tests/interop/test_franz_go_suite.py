"""franz-go's own tests pass through the proxy wherever they pass without it; also for two tenants at once.

Minutes: `python -m pytest tests/interop/test_franz_go_suite.py -m long`.
"""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.interop.franz_go_suite import run, suite
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, started
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.wire import metadata

TENANTS = ("team-a", "team-b")
WITHOUT_A_BROKER = 90  # of its tests, which pass whatever the bootstrap address is
NEED_THE_SOURCES = {"TestOptValuesCoversEveryOption"}  # beside the program
# Each looks for __consumer_offsets, which is no tenant's (kproxy.filters.topic_prefix: Kafka's topics)
NEED_KAFKAS_TOPICS = {"TestConsumeRegex", "TestConsumeRegexShareSkipsInternal", "Test848RegexBrokerResolves"}
# Connections go to brokers without the gates of the other tests, which take a few at a time; these tests open thousands
pytestmark = [pytest.mark.long, pytest.mark.skipif(DIRECT, reason="compares with and without")]


@pytest.fixture
def program(tmp_path: Path, require: Require) -> Path:
    require("go", shutil.which("go"), "there is no Go")
    folder = tmp_path / "suite"
    folder.mkdir()
    return suite(folder)


@pytest.fixture
def broker(kafka: None, tmp_path: Path) -> Iterator[Cluster]:
    extra = {"auto.create.topics.enable": "true", "group.min.session.timeout.ms": "1000"}
    cluster = started(tmp_path, NEWEST, extra=extra)
    yield cluster
    cluster.close()


def passing(outcomes: dict[str, str]) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome == "passed"}


def test_no_test_fails_that_passes_direct(
    broker: Cluster, program: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    proxy = Proxy(tmp_path / "proxy", [virtual_cluster([broker.open])])
    try:
        straight = run(program, broker.open)
        through = run(program, proxy.start().bootstrap())
    finally:
        proxy.close()
    record_property("passing direct", len(passing(straight)))
    record_property("not passing direct", sorted(set(straight) - passing(straight)))
    assert len(passing(straight)) > WITHOUT_A_BROKER, straight
    assert {name: through.get(name) for name in passing(straight) - passing(through)} == {}


def test_two_tenants_run_it_at_once_and_see_nothing_of_each_other(
    broker: Cluster, program: Path, tmp_path: Path
) -> None:
    clusters = [
        virtual_cluster([broker.open], name=name, filters=[{"use": "topic_prefix", "with": {"prefix": f"{name}."}}])
        for name in TENANTS
    ]
    proxy = Proxy(tmp_path / "proxy", clusters)
    programs = [Path(shutil.copy(program, tmp_path / f"{name}.test")) for name in TENANTS]
    try:
        proxy.start()
        with ThreadPoolExecutor(len(TENANTS)) as threads:
            results = list(threads.map(run, programs, [proxy.bootstrap(number) for number in range(len(TENANTS))]))
        names = {name for name, _ in metadata(broker.open).leaders}
    finally:
        proxy.close()
    for outcomes in results:
        failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
        assert failed <= NEED_THE_SOURCES | NEED_KAFKAS_TOPICS
        assert len(passing(outcomes)) > WITHOUT_A_BROKER
    assert {name.split(".")[0] for name in names if not name.startswith("__")} <= set(TENANTS)
