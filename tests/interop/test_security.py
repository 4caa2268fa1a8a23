"""SASL through the proxy, and TLS on either leg, on both, and with certificates of both sides."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.interop.clients import CLIENTS, Client, Java, values
from tests.support.kafka.fixtures import Entrances, Way
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.wire import end_offsets

COUNT = 300
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS = {
    "clients' leg": Way("PLAIN", "SSL"),
    "brokers' leg": Way("TLS"),
    "both legs": Way("TLS", "SSL"),
    "mutual on both": Way("MUTUAL", "SSL", mutual=True),
    "with SASL on both": Way("SASL_TLS", "SASL_SSL", "SCRAM-SHA-512"),
    "SASL on clients' leg": Way("SASL", "SASL_SSL", "PLAIN"),
}


def there_and_back(ways: Entrances, way: Way, client: Client, topic: str) -> None:
    entrance = ways(way)
    entrance.cluster.topic(topic)
    assert client.produce(entrance, topic, COUNT) == COUNT
    assert end_offsets(entrance.cluster.open, topic) == {0: COUNT}
    assert client.consume(entrance, topic, COUNT) == values(COUNT)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_sasl(guarded: Entrances, client: Client, mechanism: str, topic_name: str) -> None:
    there_and_back(guarded, Way("SASL", "SASL_PLAINTEXT", mechanism), client, topic_name)


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
@pytest.mark.parametrize(
    ("client", "leg"),
    [
        pytest.param(
            client,
            leg,
            id=f"{client.name}-{leg}",
            marks=pytest.mark.slow if isinstance(client, Java) and leg != "with SASL on both" else (),
        )
        for client in CLIENTS
        for leg in TLS
    ],
)
def test_tls(guarded: Entrances, client: Client, leg: str, topic_name: str) -> None:
    there_and_back(guarded, TLS[leg], client, topic_name)


def complaints(properties: dict[str, Any]) -> set[int]:
    """What librdkafka says of its connections while it tries to learn of the topics."""
    said: list[KafkaError] = []
    admin = AdminClient({**properties, "error_cb": said.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    eventually(lambda: admin.poll(0.1) or said, what="librdkafka complains")
    return {error.code() for error in said}


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused_by_the_broker(guarded: Entrances, mechanism: str) -> None:
    entrance = guarded(Way("SASL", "SASL_PLAINTEXT", mechanism))
    right = {"bootstrap.servers": entrance.bootstrap, **entrance.security.librdkafka()}
    assert KafkaError._AUTHENTICATION in complaints({**right, "sasl.password": "not-hers"})


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_a_client_without_a_certificate_is_refused_where_one_is_demanded(guarded: Entrances) -> None:
    entrance = guarded(TLS["mutual on both"])
    right = {"bootstrap.servers": entrance.bootstrap, **entrance.security.librdkafka()}
    bare = {name: value for name, value in right.items() if not name.startswith(("ssl.certificate", "ssl.key"))}
    assert complaints(bare) & {KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
    if entrance.proxy is not None:
        assert entrance.proxy.count("kproxy_tls_handshake_failures_total") > 0
