"""The built-in filters before a real broker, with Java's client and librdkafka: what each promises happens, and nothing else."""

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.filters.audit import NO_REQUEST
from tests.interop.clients import Java, Librdkafka
from tests.interop.conftest import Behind
from tests.support.frames import frame, request
from tests.support.kafka.brokers import PASSWORD, USER
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, java, properties_file
from tests.support.kafka.processes import eventually
from tests.support.kafka.security import Security
from tests.support.sockets import address, end_offsets

SCRAM = Security("SASL_PLAINTEXT", "SCRAM-SHA-256")
RATE = 1_234_567_890_123  # of a quota that slows nobody
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)


def lines(folder: Path) -> list[dict[str, Any]]:
    """Every line of every worker and part."""
    parts = sorted(folder.glob("audit-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text(encoding="ascii").splitlines()]


def admin(entrance: Entrance, **settings: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": entrance.bootstrap, **entrance.security.librdkafka(), **settings})


def create(entrance: Entrance, *names: str) -> list[str | None]:
    """Create topics with librdkafka; returns the error of each, or None."""
    found: list[str | None] = []
    client = admin(entrance)
    for future in client.create_topics([NewTopic(name, 1) for name in names]).values():
        try:
            future.result(30)
            found.append(None)
        except KafkaException as error:
            found.append(error.args[0].name())
    return found


def test_audit_says_who_did_what(behind: Behind, tmp_path: Path, topic_name: str) -> None:
    file = {"path": str(tmp_path / "audit.jsonl")}
    entrance = behind({"use": "audit", "with": {"file": file}}, security=SCRAM)
    assert create(entrance, topic_name) == [None]
    assert create(entrance, topic_name) == ["TOPIC_ALREADY_EXISTS"]
    with properties_file(entrance.security.java()) as properties:
        entrance.tool("TopicCommand", f"--command-config {properties} --delete --topic {topic_name}")
        quota = "--entity-type clients --entity-default"
        for tool, words in (
            (
                "AclCommand",
                "--add --allow-principal User:ann --operation Read --topic x- --resource-pattern-type prefixed",
            ),
            ("kafka.admin.ConfigCommand", f"--alter --add-config producer_byte_rate={RATE} {quota}"),
            ("kafka.admin.ConfigCommand", f"--alter --delete-config producer_byte_rate {quota}"),
        ):
            entrance.tool(tool, f"--command-config {properties} {words}", expect=None)
    for password in (PASSWORD, "canary"):
        log_in_by_raw_tokens(entrance.bootstrap, password)
    eventually(
        lambda: any(line.get("outcome") == NO_REQUEST for line in lines(tmp_path)), what="the end of the last login"
    )
    told = [line for line in lines(tmp_path) if line["event"] == "request"]
    (acl,) = (line["resources"] for line in told if line["api"] == "CreateAcls")
    assert acl == [
        {
            "type": "topic",
            "name": "x-",
            "pattern": "PREFIXED",
            "principal": "User:ann",
            "host": "*",
            "operation": "READ",
            "permission": "ALLOW",
        }
    ]
    set_, unset = (line["resources"] for line in told if line["api"] == "AlterClientQuotas")
    about = {"quotaOf": ["client-id=<default>"], "settings": ["producer_byte_rate"]}
    assert set_ == unset == [{"type": "quota", "entity": "client-id", "name": None, **about}]
    raw = [line for line in told if line["api"] == "SaslAuthenticate" and line["apiVersion"] is None]
    assert [(line["outcome"], line["principal"]) for line in raw] == [("done", USER), (NO_REQUEST, None)]
    did = [line for line in told if line["api"] in ("CreateTopics", "DeleteTopics")]
    assert [(line["api"], line["outcome"], line["errors"]) for line in did] == [
        ("CreateTopics", "done", {}),
        ("CreateTopics", "failed", {"TOPIC_ALREADY_EXISTS": 1}),
        ("DeleteTopics", "done", {}),
    ]
    assert {(line["principal"], line["mechanism"]) for line in did} == {(USER, "SCRAM-SHA-256")}
    assert [line["software"] for line in did] == [
        "confluent-kafka-python",
        "confluent-kafka-python",
        "apache-kafka-java",
    ]
    assert all({"type": "topic", "name": topic_name} in line["resources"] for line in did)
    logins = [line for line in told if line["api"] == "SaslAuthenticate"]
    assert Counter(line["outcome"] for line in logins)["done"] >= 6, "three clients, each with two steps"
    text = "".join(part.read_text("ascii") for part in tmp_path.glob("audit*.jsonl"))
    assert PASSWORD not in text and "canary" not in text and str(RATE) not in text


def log_in_by_raw_tokens(bootstrap: str, password: str) -> None:
    """As clients before Kafka 1.0: SaslHandshake v0, then tokens with no header (KIP-43). Waits until the broker has answered."""

    def answer() -> bytes:
        size = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL) if size else b""

    with socket.create_connection(address(bootstrap), 30) as connection:
        connection.sendall(request(17, 0, 1, b"\0\5PLAIN"))
        assert answer()[4:6] == b"\0\0"
        connection.sendall(frame(b"\0" + USER.encode() + b"\0" + password.encode()))
        assert answer() == b""  # an empty token, or the end of the connection
        with suppress(ConnectionError):
            connection.sendall(request(18, 0, 2, b""))
            answer()


def test_deny_refuses_as_a_broker_does(behind: Behind, topic_name: str) -> None:
    """librdkafka and Java's tools get the error that is said; topics that no rule names are as they were."""
    closed, open_ = f"closed-{topic_name}", f"open-{topic_name}"
    rules = [
        {"when": 'topic.startsWith("closed")', "api_name": ["Produce", "Metadata", "Fetch", "CreateTopics"]},
        {
            "when": 'apiName == "DeleteTopics"',
            "error": "POLICY_VIOLATION",
            "message": "nobody deletes",
            "api_name": ["DeleteTopics"],
        },
    ]
    entrance = behind({"use": "deny", "with": {"rules": rules}})
    assert create(entrance, closed, open_) == ["TOPIC_AUTHORIZATION_FAILED", None]
    entrance.cluster.topic(closed)
    errors: dict[str, str | None] = {}
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "message.timeout.ms": 20_000})
    for topic in (closed, open_):
        producer.produce(topic, b"x", on_delivery=lambda error, it: errors.update({it.topic(): error and error.name()}))
    producer.flush(30)
    assert errors == {closed: "TOPIC_AUTHORIZATION_FAILED", open_: None}
    assert end_offsets(entrance.cluster.open, closed) == {0: 0}
    said = entrance.tool("TopicCommand", f"--delete --topic {open_}", expect=None)
    assert "nobody deletes" in said
    settings = {"bootstrap.servers": entrance.bootstrap, "group.id": topic_name, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([closed])
    found: list[str] = []
    eventually(
        lambda: (it := consumer.poll(1)) is not None and found.append(it.error().name()) is None, what="an error"
    )
    consumer.close()
    assert found == ["TOPIC_AUTHORIZATION_FAILED"]


def test_deny_leaves_a_topic_out_of_what_is_told_of_all(behind: Behind, topic_name: str) -> None:
    """Java's tools and librdkafka ask for all topics there are; what acts on all partitions is refused."""
    closed, open_ = f"closed-{topic_name}", f"open-{topic_name}"
    entrance = behind({"use": "deny", "with": {"rules": [{"when": 'topic.startsWith("closed")'}]}})
    group = f"group-{topic_name}"
    consumer = Consumer({"bootstrap.servers": entrance.cluster.open, "group.id": group})
    for topic in (closed, open_):
        entrance.cluster.topic(topic)
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()

    for tool, words in (
        ("LogDirsCommand", "--describe"),
        ("consumer.group.ConsumerGroupCommand", f"--describe --group {group}"),
        ("TopicCommand", "--describe"),
    ):
        past, through = entrance.tool(tool, words, past=True), entrance.tool(tool, words)
        assert closed in past and open_ in past
        assert closed not in through and open_ in through
    election = "--election-type PREFERRED --all-topic-partitions"
    entrance.tool("LeaderElectionCommand", election, past=True)
    entrance.tool("LeaderElectionCommand", election, expect=1)
    client = admin(entrance)
    (told,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    assert [each.topic for each in told.result(30).topic_partitions] == [open_]


def consumed(bootstrap: str, topic: str, count: int) -> list[Message]:
    """The first records of a topic, read by librdkafka."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"reads-{topic}-{bootstrap}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Message] = []

    def more() -> bool:
        found.extend(it for it in consumer.consume(count - len(found), 1) if it.error() is None)
        return len(found) == count

    eventually(more, what=f"{count} records of {topic}")
    consumer.close()
    return found


def test_headers_on_what_is_produced(behind: Behind, topic_name: str) -> None:
    """As a consumer past the proxy reads it; Java's producer is idempotent, and all is acknowledged."""
    entrance = behind({"use": "headers", "with": {"trace": "traceparent", "cluster": "via"}})
    clients = ((Java(), "none"), (Java(), "zstd"), *((Librdkafka(), codec) for codec in CODECS))
    for client, codec in clients:
        topic = entrance.cluster.topic(f"{topic_name}-{client.name}-{codec}")
        assert client.produce(entrance, topic, 50, compression_type=codec) == 50
        records = consumed(entrance.cluster.open, topic, 50)
        assert sorted(int(record.value() or b"") for record in records) == list(range(50))
        for record in records:
            headers = dict(record.headers() or [])
            assert set(headers) == {"kproxy-origin", "kproxy-client-id", "traceparent", "via"}
            assert headers["via"] == entrance.name.encode()


def test_mask_hides_fields_from_consumers(behind: Behind, topic_name: str) -> None:
    """Two clients read "***"; the broker has what was produced; another topic is as it was."""
    rules = [{"topics": ["people-*"], "fields": ["$.email"]}]
    entrance = behind({"use": "mask", "with": {"rules": rules}})
    people, other = (entrance.cluster.topic(f"{kind}-{topic_name}") for kind in ("people", "other"))
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": entrance.cluster.open, "compression.type": codec, "linger.ms": 50})
        for topic in (people, other):
            for number in range(20):
                value = {"number": number, "email": f"canary{number}@example.com"}
                producer.produce(topic, json.dumps(value).encode(), key=b"k")
        producer.flush(30)
    count = 20 * len(CODECS)
    for number, record in enumerate(consumed(entrance.bootstrap, people, count)):
        assert json.loads(record.value() or b"") == {"number": number % 20, "email": "***"}
        assert (record.key(), record.offset()) == (b"k", number)
    words = f"--topic {people} --from-beginning --max-messages {count} --timeout-ms 30000"
    read = entrance.tool("consumer.ConsoleConsumer", words)
    assert [json.loads(line) for line in read.splitlines()] == [
        {"number": n % 20, "email": "***"} for n in range(count)
    ]
    past, through = consumed(entrance.cluster.open, other, count), consumed(entrance.bootstrap, other, count)
    assert [record.value() for record in through] == [record.value() for record in past]
    assert b"canary19" in (consumed(entrance.cluster.open, people, count)[-1].value() or b"")


def read_by_librdkafka(entrance: Entrance, topics: list[str], count: int, found: Path) -> None:
    """Read the first records of topics; their values are lines of a file as soon as they are read."""
    settings = {"bootstrap.servers": entrance.bootstrap, "group.id": topics[0], "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "topic.metadata.refresh.interval.ms": -1})
    consumer.subscribe(topics)
    with found.open("wb", buffering=0) as file:
        while count:
            for record in consumer.consume(count, 0.5):
                if record.error() is None:
                    file.write((record.value() or b"") + b"\n")
                    count -= 1
    consumer.close()


def read_by_java(entrance: Entrance, topics: list[str], count: int, found: Path) -> None:
    words = ("--bootstrap-server", entrance.bootstrap, "--include", "|".join(topics), "--from-beginning")
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    with found.open("wb") as file:
        subprocess.run(
            java(entrance.release, tool, *words, "--max-messages", str(count)), stdout=file, check=True, timeout=300
        )


@pytest.mark.parametrize("read", [read_by_librdkafka, pytest.param(read_by_java, marks=pytest.mark.slow)])
def test_mask_gives_what_is_too_much_to_be_held_in_parts_and_one_batch_that_is_too_large_as_an_error(
    behind: Behind, topic_name: str, tmp_path: Path, read: Callable[[Entrance, list[str], int, Path], None]
) -> None:
    """Consumers ask for 50 MiB, here for 200 times what can be held; they get an error that they show, and the log says why."""
    mask = {"use": "mask", "with": {"rules": [{"fields": ["$.email"]}]}}
    entrance = behind(mask, limits={"held_frame_size": "256KiB"})
    topic, found = entrance.cluster.topic(topic_name), tmp_path / "found"
    settings = {"bootstrap.servers": entrance.cluster.open, "linger.ms": 60_000}  # so that each batch is full

    def produce(count: int, batch: int) -> None:
        producer = Producer({**settings, "batch.num.messages": batch})
        for number in range(count):
            producer.produce(topic, json.dumps({"number": number, "email": "canary", "more": "x" * 10_000}))
        assert producer.flush(120) == 0

    produce(120, 5)
    read(entrance, [topic], 120, found)
    values = [json.loads(line) for line in found.read_text().splitlines()]
    assert [(value["number"], value["email"]) for value in values] == [(number, "***") for number in range(120)]
    produce(40, 40)
    consumer = Consumer({"bootstrap.servers": entrance.bootstrap, "group.id": f"{topic}-late"})
    consumer.assign([TopicPartition(topic, 0, 120)])
    said: list[str] = []
    eventually(
        lambda: (it := consumer.poll(1)) is not None and said.append(it.error().name()) is None,
        what="an error of the batch that is too large",
    )
    consumer.close()
    assert said == ["UNKNOWN"]
    proxy = entrance.proxy
    assert proxy is not None
    words = ("filter mask failed", "limits.held_frame_size", "message.max.bytes")
    eventually(
        lambda: any(all(word in line for word in words) for line in proxy.log.read_text().splitlines()),
        what="a line that says what is too large",
    )


@pytest.mark.parametrize("read", [read_by_librdkafka, pytest.param(read_by_java, marks=pytest.mark.slow)])
def test_mask_begins_while_a_consumer_fetches_by_ids_that_no_response_has_named_to_it(
    behind: Behind, topic_name: str, tmp_path: Path, read: Callable[[Entrance, list[str], int, Path], None]
) -> None:
    """It is told UNKNOWN_TOPIC_ID, asks for Metadata and goes on: Java's in its fetch session (KIP-227). No record is lost."""
    entrance, found = behind(), tmp_path / "found"
    proxy = entrance.proxy
    assert proxy is not None
    people, other = topics = [entrance.cluster.topic(f"{kind}-{topic_name}") for kind in ("people", "other")]
    producer = Producer({"bootstrap.servers": entrance.cluster.open})

    def produce(number: int) -> None:
        producer.produce(people, json.dumps({"number": number, "email": "canary@example.com"}))
        producer.produce(other, f"no JSON, {number}")
        assert producer.flush(30) == 0

    with ThreadPoolExecutor(1) as thread:
        produce(1)
        reading = thread.submit(read, entrance, topics, 4, found)
        eventually(
            lambda: found.is_file() and found.read_bytes().count(b"\n") == 2, what="what was there", patience=120
        )
        mask = {"use": "mask", "with": {"rules": [{"topics": ["people-*"], "fields": ["$.email"]}]}}
        proxy.change(entrance.bootstrap, filters=[mask])
        produce(2)
        reading.result(300)
    values = found.read_text().splitlines()
    assert sorted(value for value in values if not value.startswith("{")) == ["no JSON, 1", "no JSON, 2"]
    assert [json.loads(value)["email"] for value in values if value.startswith("{")] == ["canary@example.com", "***"]


def test_throttle_slows_a_client_as_a_quota_does(behind: Behind, topic_name: str) -> None:
    """librdkafka sees the throttle time of its broker; 300 KB at 100 KB/s take as long as they must; others are not slowed."""
    limits = [{"by": "client_id", "match": "slow", "produce_bytes": "100KB"}]
    entrance = behind({"use": "throttle", "with": {"limits": limits}})
    topic = entrance.cluster.topic(topic_name)

    def took(client_id: str) -> tuple[float, list[int]]:
        told: list[int] = []
        settings = {"bootstrap.servers": entrance.bootstrap, "client.id": client_id, "batch.num.messages": 10}
        producer = Producer({**settings, "throttle_cb": lambda event: told.append(int(event.throttle_time * 1_000))})
        began = time.monotonic()
        for _ in range(40):
            producer.produce(topic, os.urandom(10_000))
        assert producer.flush(60) == 0
        producer.poll(0)
        return time.monotonic() - began, told

    slow, told = took("slow")
    assert slow >= 1.9, "400 KB: 100 KB are a burst, and the last 100 KB are waited for afterwards"
    assert told and max(told) > 0
    _, told = took("fast")
    assert told == []
    assert Java().produce(entrance, entrance.cluster.topic(f"{topic_name}-java"), 100, client_id="slow") == 100
    assert end_offsets(entrance.cluster.open, topic) == {0: 80}
