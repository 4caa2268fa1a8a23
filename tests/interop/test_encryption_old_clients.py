"""Clients that speak as those of Kafka 0.9 and 0.10 did: records of the formats 0 and 1 are encrypted and decrypted as well."""

from typing import Any

import pytest

from tests.interop.clients import Client, KafkaPython, Librdkafka, values
from tests.interop.conftest import Behind
from tests.interop.test_encryption import assert_encrypted
from tests.support.kafka.jars import LAST_WITH_ZOOKEEPER

COUNT = 300
OF_0_9 = {"api_version_request": "false", "broker_version_fallback": "0.9.0"}
OF_0_10 = {"api_version": (0, 10, 0)}
OF_TODAY: dict[str, Any] = {}


@pytest.mark.slow
@pytest.mark.parametrize("single", [LAST_WITH_ZOOKEEPER], indirect=True)  # newer brokers refuse old formats
@pytest.mark.parametrize(
    ("client", "old", "version", "codec"),  # version of Produce and Fetch: 1 has records of format 0, 2 of format 1
    [(Librdkafka(), OF_0_9, 1, "none"), (Librdkafka(), OF_0_9, 1, "lz4"), (KafkaPython(), OF_0_10, 2, "gzip")],
    ids=["0.9 none", "0.9 lz4", "0.10 gzip"],
)
def test_old_producers_and_old_consumers(
    behind: Behind,
    encrypting: dict[str, Any],
    topic_name: str,
    client: Client,
    old: dict[str, Any],
    version: int,
    codec: str,
) -> None:
    entrance = behind(encrypting)
    for number, (writes, reads) in enumerate(((old, OF_TODAY), (OF_TODAY, old), (old, old))):
        topic = f"{topic_name}-{number}"
        behind.broker.topic(topic)
        assert client.produce(entrance, topic, COUNT, compression_type=codec, **writes) == COUNT
        assert_encrypted(behind, topic)
        assert sorted(client.consume(entrance, topic, COUNT, **reads)) == sorted(values(COUNT))
    assert entrance.proxy is not None
    for api in ("Produce", "Fetch"):
        assert entrance.proxy.count("kproxy_requests_total", f'api="{api}"', f'version="{version}"') > 0
