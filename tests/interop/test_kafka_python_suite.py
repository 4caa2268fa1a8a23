"""kafka-python's own integration tests pass through the proxy wherever they pass without it.

Minutes: `python -m pytest tests/interop/test_kafka_python_suite.py -m long`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.kafka_python_suite import run, suite
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrances, started
from tests.support.kafka.jars import NEWEST

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
