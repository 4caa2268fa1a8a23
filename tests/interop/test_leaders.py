"""Leaders move while producers write: nothing acknowledged is lost, nothing is there twice."""

import json
import subprocess
import tempfile
from collections import Counter
from functools import partial

import pytest

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import events, java
from tests.support.kafka.load import PARTITIONS, PATIENCE, Load, healthy, stored
from tests.support.kafka.processes import eventually
from tests.support.sockets import metadata


def leads_nothing(cluster: Cluster, topic: str, node: int) -> bool:
    return node not in metadata(cluster.open, [topic]).leaders.values()


def prefer_first_replicas(entrance: Entrance) -> None:
    entrance.tool("LeaderElectionCommand", "--election-type preferred --all-topic-partitions")


@pytest.mark.parametrize(
    "goings",
    [
        pytest.param([(2, 0), (3, 20)], id="one is killed and one is asked to go", marks=pytest.mark.slow),
        pytest.param([(node, 0) for node in (2, 3, 1, 3, 2)], id="killed five times", marks=pytest.mark.long),
    ],
)
def test_promise_17_a_broker_goes_and_comes_back_under_load(
    entrance_to_three: Entrance, topic_name: str, goings: list[tuple[int, int]]
) -> None:
    """*goings*: which broker, and how many seconds it is given to move its leaders first."""
    cluster = entrance_to_three.cluster
    healthy(cluster)
    topic = cluster.topic(topic_name, PARTITIONS, min_insync_replicas="2")
    java_topic = cluster.topic(f"{topic_name}-java", PARTITIONS, min_insync_replicas="2")
    words = ["--bootstrap-server", entrance_to_three.bootstrap, "--topic", java_topic, "--throughput", "500"]
    verifiable = subprocess.Popen(
        java(cluster.release, "org.apache.kafka.tools.VerifiableProducer", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    load = Load(entrance_to_three.bootstrap, topic)
    load.start()
    try:
        load.more()
        for node, patience in goings:
            cluster.brokers[node].stop(patience=patience)
            eventually(partial(leads_nothing, cluster, topic, node), what="leaders move")
            load.more()
            cluster.brokers[node].start()
            healthy(cluster, topic)
            prefer_first_replicas(entrance_to_three)
            load.more()
    finally:
        load.end()
        verifiable.terminate()
        printed, _ = verifiable.communicate(timeout=PATIENCE)
    assert load.errors == []
    assert load.acknowledged == load.sent
    assert stored(cluster, topic) == Counter(str(number).encode() for number in range(load.sent))
    told = events(printed)
    summary = next(each for each in told if each["name"] == "tool_data")
    acknowledged = [each["value"].encode() for each in told if each["name"] == "producer_send_success"]
    assert summary["acked"] == len(acknowledged) > 0
    found = stored(cluster, java_topic)
    assert set(acknowledged) <= set(found)
    assert set(found.values()) == {1}


@pytest.mark.slow
def test_elections_and_moved_replicas_under_load(entrance_to_three: Entrance, topic_name: str) -> None:
    """Every partition changes its leader by reassignment while it is written to."""
    cluster = entrance_to_three.cluster
    healthy(cluster)
    topic = cluster.topic(topic_name, PARTITIONS, min_insync_replicas="2")
    load = Load(entrance_to_three.bootstrap, topic)
    load.start()
    try:
        load.more()
        before = metadata(cluster.open, [topic]).leaders
        _reassign(entrance_to_three, topic)
        eventually(
            lambda: not set(before.items()) & set(metadata(cluster.open, [topic]).leaders.items()),
            what="all leaders move",
        )
        load.more()
    finally:
        load.end()
    assert load.errors == []
    assert stored(cluster, topic) == Counter(str(number).encode() for number in range(load.sent))


def _reassign(entrance: Entrance, topic: str) -> None:
    found = metadata(entrance.cluster.open, [topic]).leaders
    moved = [
        {"topic": name, "partition": partition, "replicas": [leader % 3 + 1, (leader + 1) % 3 + 1, leader]}
        for (name, partition), leader in found.items()
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump({"version": 1, "partitions": moved}, file)
        file.flush()
        words = f"--reassignment-json-file {file.name} --execute"
        entrance.tool("reassign.ReassignPartitionsCommand", words)
    prefer_first_replicas(entrance)
