"""Transactions: what is committed is read, what is aborted is not, and nothing twice."""

from collections.abc import Iterable

import pytest
from confluent_kafka import Producer

from tests.interop.clients import CLIENTS, PATIENCE, Client, values
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.processes import eventually
from tests.support.kafka.segments import Batch, batches, record_count
from tests.support.kafka.tools import run_tool

FIRST, ABORTED, LAST = range(500), range(500, 800), range(800, 1_000)


def write(producer: Producer, topic: str, numbers: Iterable[int]) -> None:
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, str(number).encode())
    producer.flush(PATIENCE)


READERS = [client for client in CLIENTS if client.name != "java"]


def test_commit_and_abort(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "transactional.id": f"id-{topic}"})
    producer.init_transactions(PATIENCE)
    write(producer, topic, FIRST)
    producer.commit_transaction(PATIENCE)
    write(producer, topic, ABORTED)
    producer.abort_transaction(PATIENCE)
    write(producer, topic, LAST)
    producer.commit_transaction(PATIENCE)

    def stored() -> list[Batch]:
        return batches(entrance.cluster.brokers[1].folder / "data", topic)

    eventually(lambda: sum(batch.control for batch in stored()) == 3, what="three markers are written")
    assert record_count(stored()) == len(FIRST) + len(ABORTED) + len(LAST)
    committed = [str(number).encode() for number in (*FIRST, *LAST)]
    for client in READERS:
        assert client.consume(entrance, topic, len(committed), isolation_level="read_committed") == committed
    everything = {"group_id": f"all-{topic}", "isolation_level": "read_uncommitted"}
    assert CLIENTS[1].consume(entrance, topic, 1_000, **everything) == values(1_000)


def test_kafkas_tool_copies_exactly_once_though_it_aborts_at_random(entrance: Entrance, topic_name: str) -> None:
    source, copy = entrance.cluster.topic(f"{topic_name}-source"), entrance.cluster.topic(f"{topic_name}-copy")
    producer: Client = CLIENTS[1]
    assert producer.produce(entrance, source, 1_000) == 1_000
    run_tool(
        entrance.release,
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", entrance.bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", copy, "--transactional-id", f"copier-{source}", "--transaction-size", "100"),
        *("--consumer-group", f"copier-{source}", "--enable-random-aborts"),
    )
    assert producer.consume(entrance, copy, 1_000, isolation_level="read_committed") == values(1_000)


@pytest.mark.parametrize("client", [CLIENTS[2], CLIENTS[3]], ids=lambda client: client.name)
def test_idempotent_producers_number_what_they_send(entrance: Entrance, client: Client, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    assert client.produce(entrance, topic, 1_000, enable_idempotence=True) == 1_000
    stored = batches(entrance.cluster.brokers[1].folder / "data", topic)
    assert {batch.producer_id >= 0 for batch in stored} == {True}
    assert [batch.base_sequence for batch in stored] == [batch.base_offset for batch in stored]
