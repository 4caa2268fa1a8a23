"""Clients log in to kproxy, with passwords that the broker does not know, before a broker without SASL."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from kproxy.pipeline.reading import read
from tests.conftest import Require
from tests.interop.clients import Client, Go
from tests.interop.test_clients import CLIENTS, complaints, values
from tests.proxy.test_client_logins import write_users
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import Security
from tests.support.sockets import end_offsets

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
COUNT = 300
SESSION_S = 2.0
LOAD_S = 3 * SESSION_S + 1
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]


@pytest.fixture(scope="module")
def proxy(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("logins")
    authentication = {
        "mechanisms": MECHANISMS,
        "users": write_users(folder / "users.json", **{USER: PASSWORD}),
        "plain_without_tls": True,
        "session": SESSION_S,
    }
    served = virtual_cluster(single.bootstrap("PLAIN"), authentication=authentication)
    analysis = {"log": {"path": str(folder / "traffic.jsonl")}, "capture": {"path": str(folder / "traffic.pcapng")}}
    made = Proxy(folder / "proxy", [served], analysis=analysis)
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_there_and_back(single: Cluster, proxy: Proxy, client: Client, mechanism: str, topic_name: str) -> None:
    entrance = Entrance(single, proxy.bootstrap(), Security("SASL_PLAINTEXT", mechanism), proxy)
    single.topic(topic_name)
    assert client.produce(entrance, topic_name, COUNT) == COUNT
    assert end_offsets(single.open, topic_name) == {0: COUNT}
    assert client.consume(entrance, topic_name, COUNT) == values(COUNT)


def produced_by_franz_go(single: Cluster, proxy: Proxy, topic: str, security: Security) -> None:
    """Have franz-go produce for longer than two sessions: each record is there once."""
    entrance = Entrance(single, proxy.bootstrap(), security, proxy)
    sent = Go("franz-go").produce(entrance, topic, int(100 * LOAD_S))
    assert end_offsets(single.open, topic) == {0: sent}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go(single: Cluster, proxy: Proxy, mechanism: str, topic_name: str, require: Require) -> None:
    require("go", shutil.which("go"), "there is no Go")
    single.topic(topic_name)
    produced_by_franz_go(single, proxy, topic_name, Security("SASL_PLAINTEXT", mechanism))


def test_a_wrong_password(single: Cluster, proxy: Proxy) -> None:
    right = {"bootstrap.servers": proxy.bootstrap(), **Security("SASL_PLAINTEXT", "SCRAM-SHA-256").librdkafka()}
    assert KafkaError._AUTHENTICATION in complaints({**right, "sasl.password": "not-hers"})
    assert "not-hers" not in Path(proxy.log).read_text(encoding="utf-8")


def test_a_load_goes_on_while_sessions_end(single: Cluster, proxy: Proxy, topic_name: str) -> None:
    """The producer logs in again on its connections: no record is lost, none comes twice, and no session is cut off."""
    single.topic(topic_name)
    expired, repeated = (
        ("kproxy_connections_closed_total", "session_expired"),
        ("kproxy_client_logins_total", "repeated"),
    )
    before = proxy.count(*expired), proxy.count(*repeated)
    security = Security("SASL_PLAINTEXT", "SCRAM-SHA-512").librdkafka()
    producer = Producer({"bootstrap.servers": proxy.bootstrap(), "enable.idempotence": True, **security})
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    sent, until = 0, time.monotonic() + LOAD_S
    while time.monotonic() < until:
        producer.produce(topic_name, b"%d" % sent, on_delivery=on_delivery)
        sent += 1
        producer.poll(0.005)
    assert producer.flush(60) == 0 and errors == []
    assert end_offsets(single.open, topic_name) == {0: sent}
    assert proxy.count(*repeated) >= before[1] + 3
    assert proxy.count(*expired) == before[0]


def test_the_log_knows_who_logged_in_and_no_output_has_the_password(proxy: Proxy) -> None:
    """After the tests above: clients have logged in with every mechanism."""
    folder = Path(proxy.log).parent.parent
    assert {event.connection.user_name for event in read(folder / "traffic.pcapng")} - {None} == {USER}
    names = {json.loads(line).get("apiName") for line in (folder / "traffic.jsonl").read_text("utf-8").splitlines()}
    assert {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "Produce"} <= names
    secret = PASSWORD.encode()
    config = proxy.get("/config")[1].encode()
    outputs = [config, *(path.read_bytes() for path in folder.rglob("*") if path.is_file())]
    assert not any(secret in output for output in outputs)
