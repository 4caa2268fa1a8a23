"""What each client does, through the proxy: codecs, groups of every kind, transactions, logins and TLS.

What came of it is asked of the broker past the proxy, and read in its segment files (magic 2: DefaultRecordBatch).
"""

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop.clients import CLIENTS, PATIENCE, Client, values
from tests.support.kafka.fixtures import Entrance, Entrances, Way
from tests.support.kafka.jars import NEWEST, events, run_tool
from tests.support.kafka.processes import eventually
from tests.support.sockets import end_offsets

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 1_000


def sometimes(cases: Iterable[str], quick: Mapping[str, Collection[str]]) -> list[Any]:
    """Each client with each case; those that are not *quick*, by the client's name, carry the marker slow."""
    return [
        pytest.param(
            client,
            case,
            id=f"{client.name}-{case}",
            marks=() if case in quick.get(client.name, ()) else pytest.mark.slow,
        )
        for client in CLIENTS
        for case in cases
    ]


@pytest.mark.parametrize(("client", "codec"), sometimes(CODECS, {"java": ["zstd"], "librdkafka": CODECS}))
def test_what_was_acknowledged_is_stored_and_read(
    entrance: Entrance, client: Client, codec: str, topic_name: str
) -> None:
    topic = entrance.cluster.topic(topic_name)
    acknowledged = client.produce(entrance, topic, COUNT, compression_type=codec)
    stored = batches(entrance.cluster.brokers[1].folder / "data", topic)
    assert acknowledged == COUNT == record_count(stored)
    assert codec in (used := {batch.codec for batch in stored})
    assert used <= {codec, "none"}  # a client does not compress what would grow by it
    assert sum(end_offsets(entrance.cluster.open, topic).values()) == COUNT
    assert client.consume(entrance, topic, COUNT) == values(COUNT)


_OVERHEAD = 12  # base_offset and batch_length, which does not count itself
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass(frozen=True)
class Batch:
    """The header of one."""

    partition: int
    base_offset: int
    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    transactional: bool
    control: bool


def batches(folder: Path, topic: str) -> list[Batch]:
    """Every batch of *topic* in the log directory *folder* of one broker, control batches too."""
    found: list[Batch] = []
    for segment in sorted(folder.glob(f"{topic}-*/*.log")):
        partition = segment.parent.name.removeprefix(f"{topic}-")
        if partition.isdigit():
            found += _read(segment.read_bytes(), int(partition))
    return found


def _read(data: bytes, partition: int) -> Iterator[Batch]:
    pos = 0
    while pos + _OVERHEAD < len(data):
        base_offset, length = unpack_from(">qi", data, pos)
        if length <= 0:  # preallocated, not written yet
            return
        attributes, producer_id, epoch, sequence, count = unpack_from(">h20xqhii", data, pos + 21)
        yield Batch(
            partition,
            base_offset,
            CODECS[attributes & 7],
            producer_id,
            epoch,
            sequence,
            count,
            bool(attributes & _TRANSACTIONAL),
            bool(attributes & _CONTROL),
        )
        pos += _OVERHEAD + length


def record_count(found: list[Batch]) -> int:
    """Records in *found* that are not control records."""
    return sum(batch.count for batch in found if not batch.control)


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


PARTITIONS, OF_GROUPS = 4, 2_000
PRODUCER = CLIENTS[1]


@contextlib.contextmanager
def member(entrance: Entrance, group: str, protocol: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": entrance.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def poll_until_shared(members: Sequence[Consumer], partitions: int) -> list[bytes]:
    """Poll all until each has partitions and together they have all; what was read meanwhile is returned."""
    read: list[bytes] = []
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for one in members:
            read += [message.value() or b"" for message in one.consume(100, timeout=0.1)]
        assigned = [len(one.assignment()) for one in members]
        if all(assigned) and sum(assigned) == partitions:
            return read
    raise AssertionError(f"not shared within {PATIENCE} s: {assigned}")


def committed(entrance: Entrance, group: str, topic: str) -> dict[int, int]:
    """The group's offsets, asked of the broker past the proxy."""
    asker = Consumer({"bootstrap.servers": entrance.cluster.open, "group.id": group})
    try:
        found = asker.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], timeout=30)
        return {each.partition: each.offset for each in found}
    finally:
        asker.close()


def test_two_members_share_read_everything_and_commit(entrance: Entrance, topic_name: str) -> None:
    share_read_everything_and_commit(entrance, topic_name, "classic")


@pytest.mark.parametrize("single", [NEWEST], indirect=True)  # librdkafka wants KIP-848 as in 4.0
def test_two_members_do_so_in_the_new_protocol(entrance: Entrance, topic_name: str) -> None:
    share_read_everything_and_commit(entrance, topic_name, "consumer")


def share_read_everything_and_commit(entrance: Entrance, topic_name: str, protocol: str) -> None:
    topic = entrance.cluster.topic(topic_name, PARTITIONS)
    group = f"group-{topic}"
    with member(entrance, group, protocol, topic) as first:
        read = poll_until_shared([first], PARTITIONS)
        with member(entrance, group, protocol, topic) as second:
            read += poll_until_shared([first, second], PARTITIONS)
            assert PRODUCER.produce(entrance, topic, OF_GROUPS, sticky_partitioning_linger_ms=0) == OF_GROUPS
            end = time.monotonic() + PATIENCE
            shares = [0, 0]
            while len(read) < OF_GROUPS and time.monotonic() < end:
                for number, one in enumerate((first, second)):
                    got = one.consume(500, timeout=0.1)
                    shares[number] += len(got)
                    read += [message.value() or b"" for message in got]
            assert sorted(read, key=int) == values(OF_GROUPS)
            assert all(shares)
            first.commit(asynchronous=False)
            second.commit(asynchronous=False)
    assert committed(entrance, group, topic) == end_offsets(entrance.cluster.open, topic)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_tool_reads_in_a_group_and_describes_it(entrance: Entrance, topic_name: str, protocol: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    java: Client = CLIENTS[0]
    assert PRODUCER.produce(entrance, topic, OF_GROUPS) == OF_GROUPS
    group = f"group-{topic}"
    assert java.consume(entrance, topic, OF_GROUPS, group_id=group, group_protocol=protocol) == values(OF_GROUPS)
    described = entrance.tool("consumer.group.ConsumerGroupCommand", f"--describe --group {group}")
    (row,) = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert row[1:6] == [topic, "0", "-", str(OF_GROUPS), str(OF_GROUPS)] or row[1:5] == [
        topic,
        "0",
        str(OF_GROUPS),
        str(OF_GROUPS),
    ]


def begin_at_the_start(entrance: Entrance, group: str) -> None:
    words = f"--alter --entity-type groups --entity-name {group} --add-config share.auto.offset.reset=earliest"
    entrance.tool("kafka.admin.ConfigCommand", words)


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_a_share_group_reads_what_there_is(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    assert CLIENTS[1].produce(entrance, topic, COUNT) == COUNT
    assert end_offsets(entrance.cluster.open, topic) == {0: COUNT}
    group = f"share-{topic}"
    begin_at_the_start(entrance, group)
    words = f"--topic {topic} --group {group} --max-messages {COUNT} --timeout-ms 30000"
    printed = entrance.tool("consumer.ConsoleShareConsumer", words)
    assert sorted(printed.encode().split(), key=int) == values(COUNT)


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_every_record_is_acknowledged_once(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    assert CLIENTS[1].produce(entrance, topic, COUNT) == COUNT
    read = f"--topic {topic} --group-id share-{topic} --max-messages {COUNT} --offset-reset-strategy earliest"
    printed = entrance.tool("VerifiableShareConsumer", f"{read} --acknowledgement-mode sync")
    acknowledged = [each for each in events(printed) if each["name"] == "offsets_acknowledged"]
    assert sum(each["count"] for each in acknowledged) == COUNT


SECURED = 300
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
    assert client.produce(entrance, topic, SECURED) == SECURED
    assert end_offsets(entrance.cluster.open, topic) == {0: SECURED}
    assert client.consume(entrance, topic, SECURED) == values(SECURED)


@pytest.mark.parametrize(("client", "mechanism"), sometimes(MECHANISMS, {"librdkafka": MECHANISMS, "java": ["PLAIN"]}))
def test_sasl(guarded: Entrances, client: Client, mechanism: str, topic_name: str) -> None:
    there_and_back(guarded, Way("SASL", "SASL_PLAINTEXT", mechanism), client, topic_name)


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
@pytest.mark.parametrize(("client", "leg"), sometimes(TLS, {"librdkafka": TLS, "java": ["with SASL on both"]}))
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
