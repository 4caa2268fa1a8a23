"""MirrorMaker 2 copies an encrypted topic as it is, and through the filter: what then opens, and what stands on the disk."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from kproxy.encryption.envelope import MARKER
from tests.interop.conftest import Behind
from tests.interop.test_encryption import CANARY, PATIENCE, assert_encrypted, pairs
from tests.support.encryption import parts_of
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, java
from tests.support.kafka.processes import eventually, spawn, stop, tail

COUNT = 200
INTERNAL = ("offset", "status", "config")

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]


def mirror(file: Path, topic: str, ways: dict[str, str]) -> list[str]:
    """The command of a MirrorMaker that copies *topic* to "ALIAS.topic" by each way: alias -> its brokers, for both sides."""
    settings = {
        "clusters": ",".join(f"{alias},to-{alias}" for alias in ways),
        "replication.factor": "1",
        "refresh.topics.interval.seconds": "2",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "offset-syncs.topic.replication.factor": "1",
        **{f"{kind}.storage.replication.factor": "1" for kind in INTERNAL},
    }
    for alias, bootstrap in ways.items():
        settings |= {f"{name}.bootstrap.servers": bootstrap for name in (alias, f"to-{alias}")}
        settings |= {f"{alias}->to-{alias}.enabled": "true", f"{alias}->to-{alias}.topics": topic}
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return java("mirror", "org.apache.kafka.connect.mirror.MirrorMaker", str(file))


def test_what_opens_after_a_mirror(behind: Behind, encrypting: dict[str, Any], tmp_path: Path) -> None:
    entrance, topic = behind(encrypting), "mirrored"
    behind.broker.topic(topic)
    expected = [(b"k%d" % number, CANARY + b" %d" % number) for number in range(COUNT)] + [(b"k0", None)]
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "acks": "all"})
    for key, value in expected:
        producer.produce(topic, value, key=key, headers=[("secret", CANARY)])
    assert producer.flush(60) == 0
    stored = pairs(behind, topic)

    ways = {"raw": behind.broker.open, "through": entrance.bootstrap}
    process = spawn(mirror(tmp_path / "mirror.properties", topic, ways), tmp_path / "mirror.log")

    def arrived() -> bool:
        known = Consumer({"bootstrap.servers": behind.broker.open, "group.id": "x"}).list_topics(timeout=30).topics
        copies = [f"{alias}.{topic}" for alias in ways]
        return all(copy in known and len(pairs(behind, copy)) == len(expected) for copy in copies)

    try:
        eventually(arrived, patience=PATIENCE, pause=0.5, what="the topic is mirrored")
    except TimeoutError:
        pytest.fail(tail(tmp_path / "mirror.log"))
    finally:
        stop(process)

    # As it is: the same bytes, which open where a rule says which topic they were written to
    assert pairs(behind, f"raw.{topic}") == stored
    assert pairs(behind, f"raw.{topic}", entrance_of(behind, encrypting, f"raw.{topic}", topic)) == expected
    assert "Invalid message" in refused(entrance, f"raw.{topic}")
    # Through the filter: encrypted again for the new topic; they open as they are
    assert_encrypted(behind, f"through.{topic}")
    again = [value for _, value in pairs(behind, f"through.{topic}") if value is not None]
    assert {parts_of(value)["topic"] for value in again} == {f"through.{topic}"}
    assert not set(again) & {value for _, value in stored}
    assert pairs(behind, f"through.{topic}", entrance) == expected
    files = [file.read_bytes() for file in behind.broker.folder.rglob(f"*{topic}-*/*.log")]
    assert sum(MARKER in data for data in files) >= 3
    assert not any(CANARY in data for data in files)


def entrance_of(behind: Behind, encrypting: dict[str, Any], topic: str, source: str) -> Entrance:
    """The way through a rule for *topic* that names where its records come from."""
    rule = {"topics": [topic], "key": "kek", "written_to": [source]}
    return behind({**encrypting, "with": {**encrypting["with"], "rules": [rule]}})


def refused(entrance: Entrance, topic: str) -> str:
    """The error that a consumer gets for a topic."""
    consumer = Consumer(
        {"bootstrap.servers": entrance.bootstrap, "group.id": f"refused-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    record = consumer.poll(60)
    consumer.close()
    assert record is not None
    error = record.error()
    assert error is not None
    return error.str()
