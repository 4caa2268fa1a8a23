"""Clients that send bytes after a message, which the broker ignores: nothing of it is unreadable to the proxy's analyzer."""

import re

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.kafka.fixtures import DIRECT, Entrance
from tests.support.kafka.processes import eventually

TRAILING = re.compile(r'kproxy_trailing_bytes_frames_total\{api="(\w+)",direction="request"\}')


@pytest.mark.skipif(DIRECT, reason="about the proxy's analyzer")
def test_librdkafkas_requests_with_bytes_after_them_are_read(entrance: Entrance) -> None:
    """librdkafka 2.16: Metadata for topics = null has three bytes more, AlterUserScramCredentials one."""
    proxy = entrance.proxy
    assert proxy is not None
    proxy.analyzing()
    undecoded = proxy.count("kproxy_undecoded_exchanges_total")
    client = AdminClient({"bootstrap.servers": entrance.bootstrap})
    assert client.list_topics(timeout=30).brokers
    credential = UserScramCredentialUpsertion("zoe", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")
    for future in client.alter_user_scram_credentials([credential]).values():
        future.result(30)  # the broker has read it, whatever comes after it
    described = client.describe_user_scram_credentials(["zoe"])["zoe"].result(30)
    assert [one.iterations for one in described.scram_credential_infos] == [4096]

    def seen() -> set[str]:
        return {found[1] for name in proxy.metrics() if (found := TRAILING.match(name))}

    eventually(lambda: {"Metadata", "AlterUserScramCredentials"} <= seen(), what="both are counted")
    assert proxy.count("kproxy_undecoded_exchanges_total") == undecoded
