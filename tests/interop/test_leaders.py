"""Leaders move while producers write: nothing acknowledged is lost, nothing is there twice."""

import json
import subprocess
import tempfile
import threading
from collections import Counter
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.interop.clients import PATIENCE
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import java
from tests.support.kafka.processes import eventually
from tests.support.kafka.tools import events, run_tool
from tests.support.kafka.wire import end_offsets, metadata

PARTITIONS, MOST_UNDERWAY = 6, 500


class Load(threading.Thread):
    """An idempotent producer of the numbers from 0 on, acks=all, until it is told to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 120_000, "linger.ms": 5}
        )
        self._topic = topic
        self._over = threading.Event()
        self.sent = self.acknowledged = 0
        self.errors: list[KafkaError] = []

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)

    def run(self) -> None:
        while not self._over.is_set():
            self._producer.produce(
                self._topic, str(self.sent).encode(), partition=self.sent % PARTITIONS, on_delivery=self._delivered
            )
            self.sent += 1
            self._producer.poll(0)
            while self.sent - self.acknowledged - len(self.errors) >= MOST_UNDERWAY and not self._over.is_set():
                self._producer.poll(0.1)
        self._producer.flush(PATIENCE)

    def more(self, count: int = 500) -> None:
        """Return when *count* more have been acknowledged."""
        goal = self.acknowledged + count
        eventually(lambda: self.acknowledged >= goal, what=f"{count} more acknowledged")

    def end(self) -> None:
        self._over.set()
        self.join(PATIENCE)


def healthy(cluster: Cluster, *topics: str) -> None:
    """Until every broker is there and every replica in sync."""

    def in_sync() -> bool:
        found = metadata(cluster.open, topics)
        return len(found.brokers) == len(cluster.brokers) and all(
            len(replicas) == len(cluster.brokers) for replicas in found.in_sync.values()
        )

    cluster.wait()
    eventually(in_sync, what="all replicas are in sync")


def leads_nothing(cluster: Cluster, topic: str, node: int) -> bool:
    return node not in metadata(cluster.open, [topic]).leaders.values()


def stored(cluster: Cluster, topic: str) -> Counter[bytes]:
    """How often each value stands in *topic*, read past the proxy."""
    ends = end_offsets(cluster.open, topic)
    reader = Consumer(
        {"bootstrap.servers": cluster.open, "group.id": f"count-{topic}", "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    found: Counter[bytes] = Counter()
    try:
        while found.total() < sum(ends.values()):
            messages = reader.consume(1_000, timeout=30)
            assert messages, f"{found.total()} of {sum(ends.values())} were to be read"
            found.update(message.value() or b"" for message in messages)
    finally:
        reader.close()
    return found


def prefer_first_replicas(entrance: Entrance) -> None:
    run_tool(
        entrance.release,
        "org.apache.kafka.tools.LeaderElectionCommand",
        *("--bootstrap-server", entrance.bootstrap, "--election-type", "preferred", "--all-topic-partitions"),
    )


@pytest.mark.parametrize("patience", [0, 20], ids=["killed", "asked to go"])
def test_a_broker_goes_and_comes_back_under_load(entrance_to_three: Entrance, topic_name: str, patience: int) -> None:
    cluster = entrance_to_three.cluster
    healthy(cluster)
    topic = cluster.topic(topic_name, PARTITIONS, min_insync_replicas="2")
    java_topic = cluster.topic(f"{topic_name}-java", PARTITIONS, min_insync_replicas="2")
    words = ["--bootstrap-server", entrance_to_three.bootstrap, "--topic", java_topic, "--throughput", "2000"]
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
        for node in (2, 3):
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
    summary = next(each for each in events(printed) if each["name"] == "tool_data")
    acknowledged = [each["value"].encode() for each in events(printed) if each["name"] == "producer_send_success"]
    assert summary["acked"] == len(acknowledged) > 0
    found = stored(cluster, java_topic)
    assert set(acknowledged) <= set(found)
    assert set(found.values()) == {1}


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
        run_tool(
            entrance.release,
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--bootstrap-server", entrance.bootstrap, "--reassignment-json-file", file.name, "--execute"),
        )
    prefer_first_replicas(entrance)
