"""The scenarios, each with one client or two before a real cluster: what Kafka documents that a client does then.

A fault with probability 0 never fires: it counts what the client asks.
"""

import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kproxy.testing import Proxy
from tests.interop.test_faults import with_records
from tests.support.fault_clients import RECORDS, FaultClient, Seen
from tests.support.fault_clients.java import JavaClient
from tests.support.fault_clients.librdkafka import LibrdkafkaClient
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.processes import eventually
from tests.support.sockets import end_offsets

TOPIC = "scenarios"
PATIENCE_S = 60
OK = [None] * RECORDS


@pytest.fixture(scope="module")
def proxy(three: Cluster) -> Iterator[Proxy]:
    with Proxy(with_records(three, TOPIC).bootstrap()) as running:
        yield running


@pytest.fixture(autouse=True)
def no_faults_are_left(proxy: Proxy) -> Iterator[None]:
    yield
    proxy.clear()


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClient]:
    client = JavaClient()
    yield client
    client.close()


@pytest.fixture(params=[pytest.param("java", marks=pytest.mark.slow), "librdkafka"])
def client(request: pytest.FixtureRequest) -> FaultClient:
    if request.param == "java":
        found: FaultClient = request.getfixturevalue("java")
        return found
    return LibrdkafkaClient()


def run(client: FaultClient, proxy: Proxy, api: str, client_id: str, **settings: Any) -> Seen:
    words = {key.replace("_", "."): each for key, each in settings.items()}
    return client.run(api, proxy.bootstrap, TOPIC, client_id, words)


def watched(proxy: Proxy, api: str, client_id: str, **which: Any) -> Any:
    """A fault that only counts."""
    return proxy.fault(api_name=api, client_id=client_id, delay=1, probability=0.0, **which)


def test_leader_moved_the_client_asks_for_metadata_and_sends_again(proxy: Proxy, client: FaultClient) -> None:
    one, other = uuid.uuid4().hex, uuid.uuid4().hex
    asked_before, asked = (watched(proxy, "Metadata", name, topic=TOPIC) for name in (one, other))
    assert run(client, proxy, "Produce", one).said == OK
    moved = proxy.fault("leader_moved", client_id=other, topic=TOPIC, skip=1, times=3)  # call 1 comes while it starts
    seen = run(client, proxy, "Produce", other)
    assert seen.said == OK
    assert seen.failed == {number: {"NOT_LEADER_OR_FOLLOWER"} for number in (2, 3, 4)}
    assert moved.fired == 3
    assert asked.calls > asked_before.calls


def test_coordinator_moved_the_client_looks_for_it_again(proxy: Proxy, client: FaultClient) -> None:
    client_id = uuid.uuid4().hex
    asked = watched(proxy, "FindCoordinator", client_id)
    moved = proxy.fault("coordinator_moved", api_name="OffsetCommit", client_id=client_id)
    seen = run(client, proxy, "OffsetCommit", client_id)
    assert seen.said[-RECORDS:] == OK
    assert seen.failed == {1: {"NOT_COORDINATOR"}}
    assert (moved.fired, asked.calls >= 2) == (1, True)


def test_slow_broker_the_client_waits_for_each_response(proxy: Proxy, client: FaultClient) -> None:
    client_id = uuid.uuid4().hex
    slow = proxy.fault("slow_broker", api_name="Produce", client_id=client_id, delay="100ms")
    seen = run(client, proxy, "Produce", client_id)
    assert (seen.said, seen.failed) == (OK, {})
    assert (slow.fired, slow.calls) == (RECORDS, RECORDS)


def test_half_open_connection_the_client_gives_it_up_and_sends_again(proxy: Proxy, client: FaultClient) -> None:
    client_id = uuid.uuid4().hex
    silent = proxy.fault("half_open_connection", api_name="Produce", client_id=client_id)
    timeout = "socket_timeout_ms" if client.name == "librdkafka" else "request_timeout_ms"
    seen = run(client, proxy, "Produce", client_id, **{timeout: 3_000})  # longer than a busy broker takes
    assert seen.said == OK
    assert (silent.fired, silent.calls) == (1, RECORDS + 1)


def test_throttled_the_client_reads_for_how_long(proxy: Proxy, client: FaultClient) -> None:
    client_id = uuid.uuid4().hex
    throttled = proxy.fault("throttled", api_name="Produce", client_id=client_id, throttle="120ms")
    told: list[float] = []
    callback = {"throttle_cb": lambda event: told.append(event.throttle_time)} if client.name == "librdkafka" else {}
    seen = (
        run(client, proxy, "Produce", client_id, **callback)
        if not callback
        else client.run("Produce", proxy.bootstrap, TOPIC, client_id, callback)
    )
    assert (seen.said, throttled.fired) == (OK, RECORDS)
    lines = "\n".join(getattr(client, "lines", []))
    told += [int(number) / 1_000 for number in re.findall(r"throttle_?[tT]ime_?[mM]s=(\d+)", lines) if number != "0"]
    assert told
    assert set(told) == {0.12}


def test_authorization_lost_the_program_is_told(proxy: Proxy, client: FaultClient) -> None:
    client_id = uuid.uuid4().hex
    lost = proxy.fault("authorization_lost", client_id=client_id, api_name="Produce", skip=1)
    seen = run(client, proxy, "Produce", client_id)
    assert seen.said == [None, *["TOPIC_AUTHORIZATION_FAILED"] * 2]
    assert 1 <= lost.fired <= 2  # librdkafka does not ask again what a topic has refused


class Transaction:
    """Of librdkafka."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._client = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
        self._client.init_transactions(PATIENCE_S)
        self._client.begin_transaction()

    def send(self, topic: str) -> None:
        self._client.produce(topic, b"x", partition=0)
        self._client.flush(PATIENCE_S)

    def commit(self) -> str | None:
        try:
            self._client.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            code = error.args[0].code()
            return "fenced" if code in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH) else str(error)
        return None

    def close(self) -> None:
        del self._client


def test_delayed_end_txn_records_stay_invisible_until_it_ends(proxy: Proxy, three: Cluster, topic_name: str) -> None:
    three.topic(topic_name)
    late = proxy.fault("delayed_end_txn", delay="4s")
    said: list[str | None] = []

    def end() -> int:
        return end_offsets(three.open, topic_name, isolation_level=1)[0]

    with closing(Transaction(proxy.bootstrap, uuid.uuid4().hex)) as running:
        running.send(topic_name)
        ends = threading.Thread(target=lambda: said.append(running.commit()))
        ends.start()
        before, was_ending = end(), ends.is_alive()
        ends.join(PATIENCE_S)
        assert (before, was_ending, said) == (0, True, [None])
        assert late.fired == 1
        eventually(lambda: end() == 2, what="the record and its marker are visible")


def test_fenced_producer_the_transaction_fails_for_good(proxy: Proxy, three: Cluster, topic_name: str) -> None:
    three.topic(topic_name)
    with closing(Transaction(proxy.bootstrap, uuid.uuid4().hex)) as running:
        running.send(topic_name)
        fenced = proxy.fault("fenced_producer")
        assert running.commit() == "fenced"
        assert fenced.fired == 1
        proxy.clear()
