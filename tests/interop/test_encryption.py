"""What a real broker stores when clients write through the filter encrypt, and what they read back."""

import time
from base64 import b64encode
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from kproxy.encryption.envelope import MARKER
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from tests.interop.clients import CLIENTS, Client, Librdkafka, consumed, values
from tests.interop.conftest import Behind, record_keys
from tests.interop.test_clients import begin_at_the_start
from tests.support.encryption import parts_of
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, java
from tests.support.kafka.processes import eventually, spawn, stop, tail

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 300
CANARY = b"a canary that nobody may find"
PATIENCE = 120  # seconds
STREAMS = Path(__file__).parent.parent / "truth" / "Streams.java"

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]


def pairs(behind: Behind, topic: str, entrance: Entrance | None = None) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic: as the broker has them, or as they come through the filter."""
    way = {} if entrance is None else {"bootstrap.servers": entrance.bootstrap}
    return [(key, value) for *_, key, value in consumed(behind.broker, topic, **way)]


def assert_encrypted(behind: Behind, topic: str) -> None:
    stored = [value for _, value in pairs(behind, topic)]
    assert stored
    assert all(value is None or value.startswith(MARKER) for value in stored), topic


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_brokers_get_no_plain_value_and_consumers_each_value_once(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, client: Client
) -> None:
    entrance = behind(encrypting)
    for codec in CODECS if client.name == "librdkafka" else CODECS[::4]:  # each takes two JVMs
        topic = f"{topic_name}-{codec}"
        retries = {} if client.name == "aiokafka" else {"retries": 9 if client.name == "kafka-python" else "9"}
        behind.broker.topic(topic)
        assert client.produce(entrance, topic, COUNT, compression_type=codec, **retries) == COUNT
        stored = [value for *_, value in consumed(behind.broker, topic)]
        assert len(stored) == COUNT
        assert all(value is not None and value.startswith(MARKER) for value in stored)
        assert sorted(client.consume(entrance, topic, COUNT)) == sorted(values(COUNT))


def test_a_transaction_a_tombstone_and_a_header_pass_and_no_disk_log_or_page_has_a_canary(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, tmp_path: Path
) -> None:
    """Neither plain bytes nor data keys: on the broker's disk, in the log, the decoded log, the audit and the admin pages."""
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    audit = {"use": "audit", "with": {"file": {"path": str(outputs / "audit.jsonl")}, "topics": ["*"]}}
    entrance = behind(audit, encrypting, analysis={"log": {"path": str(outputs / "kafka.jsonl")}})
    behind.broker.topic(topic_name)
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "transactional.id": topic_name, "acks": "all"})
    producer.init_transactions(30)
    for value in (CANARY, None):
        producer.begin_transaction()
        producer.produce(topic_name, value, key=CANARY, headers=[("secret", CANARY), ("trace", b"00-1")])
        producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"never committed", key=b"k")
    producer.abort_transaction(30)
    (key, first), (same, none) = pairs(behind, topic_name)
    assert first is not None and key is not None
    assert first.startswith(MARKER) and key.startswith(MARKER)
    assert (same, none) == (key, None)
    files = [file.read_bytes() for file in behind.broker.folder.rglob(f"{topic_name}-*/*.log")]
    assert any(MARKER in data for data in files)
    assert not any(CANARY in data for data in files)
    through = {"bootstrap.servers": entrance.bootstrap, "isolation.level": "read_committed"}
    assert [each[2:] for each in consumed(behind.broker, topic_name, **through)] == [(CANARY, CANARY), (CANARY, None)]
    consumer = Consumer({**through, "group.id": topic_name, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic_name])
    record = consumer.poll(60)
    assert record is not None and record.headers() == [("secret", CANARY), ("trace", b"00-1")]
    consumer.close()
    with closing(KeySet(KeySetOptions(**encrypting["with"]["keys"]["with"]))) as service:
        secrets = [CANARY, *(service.unwrap("kek", parts_of(one)["wrapped"]) for one in (first, key))]
    proxy = entrance.proxy
    assert proxy is not None
    for file in ("kafka.jsonl", "audit-0.jsonl"):
        eventually(lambda file=file: b"Produce" in (outputs / file).read_bytes(), what=f"Produce in {file}")
    said = [proxy.log.read_bytes(), *(file.read_bytes() for file in outputs.iterdir())]
    said += [proxy.get(page)[1].encode() for page in ("/metrics", "/filters", "/connections", "/config")]
    spellings = [spelt for one in secrets for spelt in (one, b64encode(one).rstrip(b"="), one.hex().encode())]
    assert not any(spelt in text for text in said for spelt in spellings)


def test_share_groups_get_plain_values(behind: Behind, encrypting: dict[str, Any], topic_name: str) -> None:
    entrance = behind(encrypting)
    behind.broker.topic(topic_name)
    assert Librdkafka().produce(entrance, topic_name, COUNT) == COUNT
    group = f"share-{topic_name}"
    begin_at_the_start(entrance, group)
    words = f"--topic {topic_name} --group {group} --max-messages {COUNT} --timeout-ms 30000"
    printed = entrance.tool("consumer.ConsoleShareConsumer", words)
    assert sorted(printed.encode().split(), key=int) == values(COUNT)
    assert_encrypted(behind, topic_name)


def test_the_newest_value_of_each_key_is_read_after_compaction_with_plain_and_re_keyed_records(
    behind: Behind, encrypting: dict[str, Any], topic_name: str
) -> None:
    cleaned = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(1 << 20)}
    behind.broker.topic(topic_name, **cleaned, **{"segment.ms": "500", "delete.retention.ms": "3600000"})
    often = {**encrypting, "with": {**encrypting["with"], "data_key_records": 7}}
    packed = {**often, "with": {**often["with"], "rules": [{"topics": ["*"], "key": "kek", "compress": "zstd"}]}}
    expected: dict[bytes, bytes | None] = {}
    written = 0
    ways = [behind.broker.open, behind(often).bootstrap, behind(packed).bootstrap]
    for number, bootstrap in enumerate([*ways, ways[1]]):  # first plain: the topic has both kinds
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.num.messages": 5})
        for at in range(200):
            key = b"k%d" % (at % (20 + number))
            expected[key] = None if at % 50 == 49 else b"%d: %d " % (number, at) * 20
            producer.produce(topic_name, expected[key], key=key)
            written += 1
        assert producer.flush(60) == 0
    end = time.monotonic() + PATIENCE
    while len(pairs(behind, topic_name)) > written / 4:
        assert time.monotonic() < end, "the log cleaner has not compacted the topic"
        time.sleep(0.6)  # the segment's age: with the next record, another segment begins
        producer.produce(topic_name, expected[b"k0"], key=b"k0")
        assert producer.flush(60) == 0
    assert dict(pairs(behind, topic_name, behind(often))) == expected


def test_encrypted_record_keys_are_compacted_and_read_by_java_and_librdkafka(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, tmp_path: Path
) -> None:
    """Two proxies write the same keys; the cleaner finds them equal, and no plain key is on the disk."""
    cleaned = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(1 << 20)}
    behind.broker.topic(topic_name, **cleaned, **{"segment.ms": "500", "delete.retention.ms": "3600000"})
    often = {**encrypting, "with": {**encrypting["with"], "data_key_records": 7}}
    ways = [behind(encrypting), behind(often, workers=2)]
    newest: dict[bytes, bytes | None] = {}

    def produce(way: Entrance, key: bytes, value: bytes | None) -> None:
        producer = producers[way.bootstrap]
        producer.produce(topic_name, value, key=key)
        newest[key] = value

    producers = {way.bootstrap: Producer({"bootstrap.servers": way.bootstrap, "acks": "all"}) for way in ways}
    for number in range(300):
        key = CANARY + b" %d" % (number % 20)
        produce(ways[number // 100 % 2], key, None if number in (285, 286) else b"value %d" % number)
        if number % 100 == 99:
            assert all(producer.flush(60) == 0 for producer in producers.values())

    def is_compacted() -> bool:
        produce(ways[1], CANARY + b" 0", b"again")  # with the next record, another segment begins
        assert producers[ways[1].bootstrap].flush(60) == 0
        counts = Counter(key for key, _ in pairs(behind, topic_name))
        assert len(counts) == len(newest)
        return sorted(counts.values())[:-1] == [1] * (len(newest) - 1)

    eventually(is_compacted, patience=PATIENCE, what="each key but the one that is written on is there once")
    stored = pairs(behind, topic_name)
    assert all(key is not None and key.startswith(MARKER) for key, _ in stored)
    files = [file.read_bytes() for file in behind.broker.folder.rglob(f"{topic_name}-*/*.log")]
    assert any(MARKER in data for data in files) and not any(CANARY in data for data in files)
    for way in ways:
        assert dict(pairs(behind, topic_name, way)) == newest
    words = f"--topic {topic_name} --from-beginning --timeout-ms 8000 --formatter-property print.key=true"
    printed = ways[0].tool("consumer.ConsoleConsumer", words).encode()  # to the end: the cleaner goes on meanwhile
    read = dict(line.split(b"\t") for line in printed.splitlines() if b"\t" in line)
    assert read == {key: value or b"null" for key, value in newest.items()}

    again = {**encrypting["with"]["rules"][0], **record_keys(tmp_path)}
    rekeyed = behind({**encrypting, "with": {**encrypting["with"], "rules": [again]}})
    producers[rekeyed.bootstrap] = Producer({"bootstrap.servers": rekeyed.bootstrap, "acks": "all"})
    produce(rekeyed, CANARY + b" 1", b"under another data key")
    assert producers[rekeyed.bootstrap].flush(60) == 0
    for way in (rekeyed, ways[0]):  # older keys open, and newer ones where the rule is the older one
        assert dict(pairs(behind, topic_name, way)) == newest
    assert len({key for key, _ in pairs(behind, topic_name)}) == len(newest) + 1


def test_a_job_of_streams_counts_words_over_encrypted_repartition_and_changelog_topics(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, tmp_path: Path
) -> None:
    entrance = behind(encrypting)
    lines, counts = f"{topic_name}-lines", f"{topic_name}-counts"
    for topic in (lines, counts):
        behind.broker.topic(topic)
    said = [f"word{number % 7} word{number % 3} {CANARY.decode()}" for number in range(COUNT)]
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "acks": "all"})
    for line in said:
        producer.produce(lines, line.encode())
    assert producer.flush(60) == 0
    expected = {word.encode(): str(count).encode() for word, count in Counter(" ".join(said).split()).items()}
    words = (entrance.bootstrap, topic_name, lines, counts, str(tmp_path / "state"))
    job = spawn(java("streams", str(STREAMS), *words), tmp_path / "streams.log")
    try:
        eventually(
            lambda: dict(pairs(behind, counts, entrance)) == expected, patience=PATIENCE, what="words are counted"
        )
    finally:
        print(tail(tmp_path / "streams.log"))
        stop(job)
    inner = [
        name
        for name in AdminClient({"bootstrap.servers": behind.broker.open}).list_topics(timeout=30).topics
        if name.startswith(topic_name) and name.endswith(("-repartition", "-changelog"))
    ]
    assert len(inner) == 2
    for topic in (lines, counts, inner[1] if inner[1].endswith("changelog") else inner[0]):
        assert_encrypted(behind, topic)
    # the job groups by words of values, which are record keys of its topics
    files = [file.read_bytes() for file in behind.broker.folder.rglob(f"{topic_name}*/*.log")]
    assert files and not any(word in data for data in files for word in (CANARY, b"word0", b"canary", b"nobody"))


def test_connect_copies_a_file_to_another_by_an_encrypted_topic(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, tmp_path: Path
) -> None:
    entrance = behind(encrypting)
    behind.broker.topic(topic_name)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_bytes(b"".join(CANARY + b" %d\n" % number for number in range(COUNT)))
    string = "org.apache.kafka.connect.storage.StringConverter"
    worker = {"bootstrap.servers": entrance.bootstrap, "key.converter": string, "value.converter": string}
    worker |= {"offset.storage.file.filename": str(tmp_path / "offsets"), "listeners": "http://127.0.0.1:0"}
    connectors = {
        "source": {"connector.class": "FileStreamSource", "file": str(source), "topic": topic_name},
        "sink": {"connector.class": "FileStreamSink", "file": str(sink), "topics": topic_name},
    }
    files = []
    for name, settings in {"worker": worker, **connectors}.items():
        named = {"name": name, "tasks.max": "1"} if name in connectors else {"offset.flush.interval.ms": "500"}
        files.append(tmp_path / f"{name}.properties")
        files[-1].write_text("".join(f"{key}={value}\n" for key, value in {**settings, **named}.items()))
    command = java("connect", "org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files))
    process = spawn(command, tmp_path / "connect.log")
    try:
        eventually(lambda: sink.read_bytes() == source.read_bytes(), patience=PATIENCE, what="the file is copied")
    finally:
        print(tail(tmp_path / "connect.log"))
        stop(process)
    assert_encrypted(behind, topic_name)
    assert not any(CANARY in file.read_bytes() for file in behind.broker.folder.rglob(f"{topic_name}-*/*.log"))
