"""What a real broker stores when clients write through the filter encrypt, and what they read back."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.encryption.envelope import MARKER
from tests.interop.clients import Client, Java, Librdkafka, consumed, values
from tests.interop.conftest import Behind
from tests.support.kafka.jars import NEWEST

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 300
CANARY = b"a canary that nobody may find"

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]


@pytest.fixture
def encrypting(tmp_path: Path) -> dict[str, Any]:
    """The filter, with a key set of its own."""
    (tmp_path / "seal").write_bytes(bytes(range(32)))
    settings = {"use": "file", "with": {"path": str(tmp_path / "keys"), "key_file": str(tmp_path / "seal")}}
    (tmp_path / "keys.yaml").write_text(str(settings))  # YAML reads it as a flow mapping
    made = [sys.executable, "-m", "kproxy", "keys", str(tmp_path / "keys.yaml"), "--make", "kek"]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    return {"use": "encrypt", "with": {"keys": settings, "rules": [{"topics": ["*"], "key": "kek"}]}}


def create(behind: Behind, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": behind.broker.open})
    (made,) = admin.create_topics([NewTopic(topic, 1)]).values()
    made.result(30)


@pytest.mark.parametrize("client", [Java(), Librdkafka()], ids=lambda client: client.name)
def test_brokers_get_no_plain_value_and_consumers_each_value_once(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, client: Client
) -> None:
    entrance = behind(encrypting)
    for codec in CODECS if client.name == "librdkafka" else CODECS[::4]:  # each takes two JVMs
        topic = f"{topic_name}-{codec}"
        create(behind, topic)
        assert client.produce(entrance, topic, COUNT, compression_type=codec, retries="9") == COUNT
        stored = [value for *_, value in consumed(behind.broker, topic)]
        assert len(stored) == COUNT
        assert all(value is not None and value.startswith(MARKER) for value in stored)
        assert sorted(client.consume(entrance, topic, COUNT)) == sorted(values(COUNT))


def test_a_transaction_and_a_tombstone_pass_and_the_disk_has_no_canary(
    behind: Behind, encrypting: dict[str, Any], topic_name: str
) -> None:
    entrance = behind(encrypting)
    create(behind, topic_name)
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "transactional.id": topic_name, "acks": "all"})
    producer.init_transactions(30)
    for value in (CANARY, None):
        producer.begin_transaction()
        producer.produce(topic_name, value, key=b"k")
        producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"never committed", key=b"k")
    producer.abort_transaction(30)
    (first, none) = [value for *_, value in consumed(behind.broker, topic_name)]
    assert first is not None
    assert first.startswith(MARKER)
    assert none is None
    files = [file.read_bytes() for file in behind.broker.folder.rglob(f"{topic_name}-*/*.log")]
    assert any(MARKER in data for data in files)
    assert not any(CANARY in data for data in files)
    through = {"bootstrap.servers": entrance.bootstrap, "isolation.level": "read_committed"}
    assert [value for *_, value in consumed(behind.broker, topic_name, **through)] == [CANARY, None]
