"""Clients that speak as those of Kafka 0.9 did: records of old formats are encrypted and decrypted as well."""

from typing import Any

import pytest

from tests.interop.clients import Librdkafka, values
from tests.interop.conftest import Behind
from tests.interop.test_encryption import assert_encrypted, create
from tests.support.kafka.jars import LAST_WITH_ZOOKEEPER

COUNT = 300
OF_TODAY: dict[str, str] = {}


@pytest.mark.slow
@pytest.mark.parametrize("single", [LAST_WITH_ZOOKEEPER], indirect=True)  # newer brokers refuse old formats
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_old_producers_and_old_consumers(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, codec: str
) -> None:
    entrance, client = behind(encrypting), Librdkafka()
    old = {"api_version_request": "false", "broker_version_fallback": "0.9.0"}
    for number, (writes, reads) in enumerate(((old, OF_TODAY), (OF_TODAY, old), (old, old))):
        topic = f"{topic_name}-{number}"
        create(behind, topic)
        assert client.produce(entrance, topic, COUNT, compression_type=codec, **writes) == COUNT
        assert_encrypted(behind, topic)
        assert sorted(client.consume(entrance, topic, COUNT, **reads)) == sorted(values(COUNT))
    assert entrance.proxy is not None
    for api in ("Produce", "Fetch"):
        assert (
            entrance.proxy.count("kproxy_requests_total", f'api="{api}"', 'version="1"') > 0
        )  # with records of format 0
