"""A value that was changed on the broker: each client hears of it, or goes on without it, as the rule says."""

from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.encryption.envelope import MARKER
from tests.interop import clients
from tests.interop.clients import CLIENTS, Client
from tests.interop.conftest import Behind
from tests.interop.test_encryption import pairs
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]
# What clients tell a program whose consumer gets CORRUPT_MESSAGE; aiokafka logs it, and asks again until the test gives up
ERRORS = {"librdkafka": "Invalid message", "kafka-python": "CorruptRecordError", "aiokafka": "^$"}


def damaged_topic(behind: Behind, encrypting: dict[str, Any], topic: str) -> None:
    """Values 0, 1, a changed 1, 2."""
    behind.broker.topic(topic)

    def produce(bootstrap: str, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        for value in values:
            producer.produce(topic, value, key=b"k")
        assert producer.flush(60) == 0

    entrance = behind(encrypting)
    produce(entrance.bootstrap, b"0", b"1")
    stored = pairs(behind, topic)[1][1] or b""
    produce(behind.broker.open, stored[:-1] + bytes([stored[-1] ^ 1]))
    produce(entrance.bootstrap, b"2")


def by_policy(behind: Behind, encrypting: dict[str, Any], policy: str) -> Entrance:
    rule = {"topics": ["*"], "key": "kek", "unreadable": policy}
    return behind({**encrypting, "with": {**encrypting["with"], "rules": [rule]}})


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_value_that_was_changed_stops_no_client_without_a_word(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged_topic(behind, encrypting, topic_name)
    assert client.consume(by_policy(behind, encrypting, "skip"), topic_name, 3) == [b"0", b"1", b"2"]
    if client.name != "java":  # the tool prints texts
        passed = client.consume(by_policy(behind, encrypting, "pass"), topic_name, 4, group_id=f"pass-{topic_name}")
        assert (passed[:2], passed[2][:4], passed[3:]) == ([b"0", b"1"], MARKER, [b"2"])

    monkeypatch.setattr(clients, "PATIENCE", 5)
    failing = by_policy(behind, encrypting, "fail")
    group = {"group_id": f"fail-{topic_name}"}
    if client.name == "java":  # it ends at the error
        assert client.consume(failing, topic_name, 4, **group) == [b"0", b"1"]
    else:
        with pytest.raises(Exception, match=ERRORS[client.name]):
            client.consume(failing, topic_name, 4, **group)
    assert failing.proxy is not None
    word = f"or its record key was changed: topic {topic_name}, partition 0, offset 2"
    assert failing.proxy.log.read_text().count(word) == (2 if client.name == "java" else 3)  # once for each policy
