"""kafka-python's own integration tests pass through the proxy wherever they pass without it."""

from pathlib import Path

import pytest

from tests.interop.kafka_python_suite import run, suite
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrance
from tests.support.kafka.jars import NEWEST

PASSING = 55  # with kafka-python 3.0.12 and Kafka 4.3.1, no proxy between


@pytest.mark.long
@pytest.mark.skipif(DIRECT, reason="compares with and without")
@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_no_test_fails_that_passes_direct(entrance: Entrance, single: Cluster, tmp_path: Path) -> None:
    root = suite(tmp_path)
    straight = run(root, single.open, single.release)
    through = run(root, entrance.bootstrap, single.release)
    passing = {name for name, outcome in straight.items() if outcome == "passed"}
    again = [name for name in passing if through.get(name) != "passed"]
    assert len(passing) >= PASSING - 3, straight
    assert again == []
