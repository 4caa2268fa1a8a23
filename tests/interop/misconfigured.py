"""Real clients, misconfigured on purpose: each function is one of them and returns what it counted itself.

The client id of each is the name of the finding that it has to set off, or begins with it; those called "sane" set off nothing.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from tests.interop.clients import KafkaConsumer, KafkaProducer
from tests.support.kafka.fixtures import Entrance

PATIENCE = 90  # seconds until a client gives up
TEXT = b"2026-01-05 12:00:00 INFO request served in 12 ms, status 200, path /orders " * 12

Workload = Callable[[Entrance], dict[str, Any]]


def _producer(entrance: Entrance, client_id: str | None, **settings: Any) -> Producer:
    named = {} if client_id is None else {"client.id": client_id}
    return Producer({"bootstrap.servers": entrance.bootstrap, **named, **_dotted(settings)})


@contextlib.contextmanager
def _consumer(entrance: Entrance, client_id: str, group: str, **settings: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": entrance.bootstrap,
            "client.id": client_id,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **_dotted(settings),
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    """compression_type as compression.type; error_cb as it is."""
    return {name if name.endswith("_cb") else name.replace("_", "."): value for name, value in settings.items()}


def _until(done: Callable[[], object], what: str) -> None:
    """Call *done* until it is true."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"


def _assigned(consumer: Consumer, topic: str) -> None:
    consumer.subscribe([topic])
    _until(lambda: consumer.poll(0.1) is not None or consumer.assignment(), "an assignment")


def sane_librdkafka(entrance: Entrance) -> dict[str, Any]:
    """Produce a lot in good batches, read it in groups of both protocols."""
    topic = entrance.cluster.topic("sane-librdkafka", 4)
    producer = _producer(entrance, "sane-librdkafka", compression_type="lz4", linger_ms=20, enable_idempotence=True)
    for number in range(5_000):
        producer.produce(topic, TEXT, key=b"%d" % number)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    for protocol in ("classic", "consumer"):
        read = 0
        with _consumer(entrance, "sane-librdkafka", f"sane-{protocol}", group_protocol=protocol) as consumer:
            consumer.subscribe([topic])
            end = time.monotonic() + PATIENCE
            while read < 5_000 and time.monotonic() < end:
                read += len(consumer.consume(500, timeout=0.5))
        assert read == 5_000
    return {}


def sane_kafka_python(entrance: Entrance) -> dict[str, Any]:
    """The same with kafka-python, less of it."""
    topic = entrance.cluster.topic("sane-kafka-python", 2)
    words = {"bootstrap_servers": entrance.bootstrap, "client_id": "sane-kafka-python"}
    producer = KafkaProducer(**words, acks="all", linger_ms=20, compression_type="gzip")
    for _ in range(500):
        producer.send(topic, TEXT)
    producer.close()
    consumer = KafkaConsumer(topic, **words, group_id="sane-kafka-python", auto_offset_reset="earliest")
    read = 0
    end = time.monotonic() + PATIENCE
    while read < 500 and time.monotonic() < end:
        read += sum(map(len, consumer.poll(500).values()))
    consumer.close()
    assert read == 500
    return {}


def tiny_batches(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: flush after every record."""
    topic = entrance.cluster.topic("tiny")
    producer = _producer(entrance, "tiny_batches", linger_ms=0, acks="all")
    for _ in range(1_200):
        producer.produce(topic, b"21.5")
        producer.flush(PATIENCE)
    return {"topic": topic, "records": 1_200}


def acks_below_all(entrance: Entrance) -> dict[str, Any]:
    """kafka-python: acks=1."""
    topic = entrance.cluster.topic("acks")
    producer = KafkaProducer(bootstrap_servers=entrance.bootstrap, client_id="acks_below_all", acks=1)
    for _ in range(30):
        producer.send(topic, b"paid")
    producer.close()
    return {"topic": topic, "records": 30}


def no_compression(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: six megabytes of text as it is, a quarter of one at a time.

    kproxy run leaves bodies out that come faster than it writes them.
    """
    topic = entrance.cluster.topic("text")
    producer = _producer(entrance, "no_compression", linger_ms=20, acks="all", batch_size=100_000)
    for _ in range(28):
        for _ in range(250):
            producer.produce(topic, TEXT)
        assert producer.flush(PATIENCE) == 0
    return {"topic": topic, "records": 7_000}


def commit_per_record(entrance: Entrance) -> dict[str, Any]:
    """aiokafka: commit after each of the records."""

    async def run(topic: str) -> int:
        async with AIOKafkaProducer(
            bootstrap_servers=entrance.bootstrap, client_id="sane-feeder", acks="all"
        ) as producer:
            for sent in [await producer.send(topic, b"letter") for _ in range(200)]:
                await sent
        words = {"bootstrap_servers": entrance.bootstrap, "client_id": "commit_per_record", "group_id": "mail"}
        read = 0
        async with AIOKafkaConsumer(topic, **words, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
            async with asyncio.timeout(PATIENCE):
                while read < 200:
                    record = await consumer.getone()
                    place = TopicPartition(record.topic, record.partition)
                    await consumer.commit({place: record.offset + 1})
                    read += 1
        return read

    topic = entrance.cluster.topic("letters")
    return {"topic": topic, "commits": asyncio.run(run(topic))}


def commit_storm(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: commit the same offset all the time."""
    topic = entrance.cluster.topic("votes")
    with _consumer(entrance, "commit_storm", "polls", enable_auto_commit=False) as consumer:
        _assigned(consumer, topic)
        for _ in range(400):
            consumer.commit(offsets=[Place(topic, 0, 0)], asynchronous=False)
    return {"topic": topic, "commits": 400}


def metadata_storm(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: ask for all topics in a loop."""
    admin = AdminClient({"bootstrap.servers": entrance.bootstrap, "client.id": "metadata_storm"})
    for _ in range(150):
        admin.list_topics(timeout=PATIENCE)
    return {"requests": 150}


def connection_churn(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: a producer for every record."""
    topic = entrance.cluster.topic("jobs")
    for _ in range(30):
        producer = _producer(entrance, "connection_churn", acks="all")
        producer.produce(topic, b"job")
        assert producer.flush(PATIENCE) == 0
        del producer  # closes it
    return {"topic": topic, "producers": 30}


def message_too_large(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: a record larger than the topic takes."""
    topic = entrance.cluster.topic("scans", max_message_bytes="10000")
    errors: list[str] = []
    producer = _producer(entrance, "message_too_large", acks="all")
    for _ in range(3):
        producer.produce(topic, bytes(20_000), on_delivery=lambda error, _: errors.append(error.name()))
        producer.flush(PATIENCE)
    return {"topic": topic, "errors": errors}


def offset_reset(entrance: Entrance) -> dict[str, Any]:
    """kafka-python: read at offset 0, which was deleted; auto.offset.reset goes to the earliest there is."""
    topic = entrance.cluster.topic("logs")
    producer = _producer(entrance, "sane-feeder", acks="all", linger_ms=20)
    for _ in range(100):
        producer.produce(topic, b"line")
    producer.flush(PATIENCE)
    admin = AdminClient({"bootstrap.servers": entrance.cluster.open, "client.id": "sane-admin"})
    for deleted in admin.delete_records([Place(topic, 0, 60)]).values():
        deleted.result()
    words = {"bootstrap_servers": entrance.bootstrap, "client_id": "offset_reset", "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(**words)
    place = _places(consumer, topic)
    consumer.seek(place, 0)
    first: list[int] = []
    _until(lambda: first.extend(each.offset for each in _polled(consumer)) or first, "a record")
    consumer.close()
    return {"topic": topic, "first": first[0]}


def _places(consumer: Any, topic: str) -> Any:
    """Assign partition 0 of *topic* to a consumer of kafka-python."""
    from kafka import TopicPartition as Assigned  # noqa: PLC0415 - of the same name as aiokafka's

    place = Assigned(topic, 0)
    consumer.assign([place])
    return place


def _polled(consumer: Any) -> list[Any]:
    return [record for records in consumer.poll(300).values() for record in records]


def stuck_fetch_loop(entrance: Entrance) -> dict[str, Any]:
    """kafka-python: go back to a record again and again, as when handling it fails."""
    topic = entrance.cluster.topic("poison")
    producer = _producer(entrance, "sane-feeder", acks="all", linger_ms=20)
    for _ in range(50):
        producer.produce(topic, b"poison")
    producer.flush(PATIENCE)
    words = {"bootstrap_servers": entrance.bootstrap, "client_id": "stuck_fetch_loop", "fetch_max_wait_ms": 100}
    consumer = KafkaConsumer(**words)
    place = _places(consumer, topic)
    end, tries = time.monotonic() + 7, 0
    while time.monotonic() < end or tries < 25:
        consumer.seek(place, 20)
        tries += _polled(consumer)[:1] != []
        time.sleep(0.05)
    consumer.close()
    return {"topic": topic, "tries": tries}


def empty_fetch_loop(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: do not wait for records."""
    topic = entrance.cluster.topic("quiet")
    with _consumer(entrance, "empty_fetch_loop", "quiet", fetch_wait_max_ms=0) as consumer:
        _assigned(consumer, topic)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            consumer.poll(0.2)
    return {"topic": topic}


def max_poll_exceeded(entrance: Entrance) -> dict[str, Any]:
    """kafka-python: handle a batch for longer than max.poll.interval.ms."""
    topic = entrance.cluster.topic("slow-jobs")
    words = {"bootstrap_servers": entrance.bootstrap, "client_id": "max_poll_exceeded", "group_id": "slow-jobs"}
    consumer = KafkaConsumer(
        topic, **words, max_poll_interval_ms=1_500, session_timeout_ms=6_000, heartbeat_interval_ms=300
    )
    _until(lambda: consumer.poll(200) or consumer.assignment(), "an assignment")
    time.sleep(4)
    _until(lambda: consumer.poll(200) or consumer.assignment(), "an assignment again")
    consumer.close()
    return {"topic": topic}


def static_member_flapping(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: two processes with one group.instance.id."""
    topic = entrance.cluster.topic("static")
    words = {"group_instance_id": "worker-0", "heartbeat_interval_ms": 300, "session_timeout_ms": 6_000}
    errors: list[str] = []
    words["error_cb"] = lambda error: errors.append(error.name())
    with _consumer(entrance, "static_member_flapping", "static", **words) as first:
        _assigned(first, topic)
        with _consumer(entrance, "static_member_flapping", "static", **words) as second:
            _assigned(second, topic)
            end = time.monotonic() + PATIENCE
            while not errors and time.monotonic() < end:
                message = first.poll(0.1)
                if message is not None and message.error():
                    errors.append(message.error().name())
    return {"topic": topic, "errors": errors}


def producer_fenced(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: two producers with one transactional.id."""
    topic = entrance.cluster.topic("facts")
    first = _producer(entrance, "producer_fenced", transactional_id="etl-1")
    first.init_transactions(PATIENCE)
    first.begin_transaction()
    first.produce(topic, b"fact")
    first.flush(PATIENCE)
    second = _producer(entrance, "producer_fenced", transactional_id="etl-1")
    second.init_transactions(PATIENCE)
    error = ""
    try:
        first.commit_transaction(PATIENCE)
    except KafkaException as raised:
        error = raised.args[0].name()
    return {"topic": topic, "error": error}


def open_transaction(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: a transaction that is neither committed nor aborted, and a consumer that waits for it."""
    topic = entrance.cluster.topic("ledger")
    producer = _producer(entrance, "open_transaction", transactional_id="ledger-1", linger_ms=0)
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"booking")
    producer.flush(PATIENCE)
    with _consumer(entrance, "read_committed_blocked", "ledger", isolation_level="read_committed") as consumer:
        _assigned(consumer, topic)
        end = time.monotonic() + 6
        while time.monotonic() < end:
            assert consumer.poll(0.2) is None
    producer.abort_transaction(PATIENCE)
    return {"topic": topic, "records": 5}


def reconnect_loop(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: a wrong password, tried again and again, in the clear."""
    refused: list[str] = []
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mallory",
        "sasl.password": "wrong",
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 100,
    }
    producer = Producer(
        {
            "bootstrap.servers": entrance.bootstrap,
            "client.id": "reconnect_loop",
            "error_cb": lambda error: refused.append(error.name()),
            **settings,
        }
    )
    end = time.monotonic() + PATIENCE
    while refused.count("_AUTHENTICATION") < 14 and time.monotonic() < end:
        producer.poll(0.1)
    return {"refused": refused.count("_AUTHENTICATION")}


def skewed_partitions(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: nearly all records have the same key."""
    topic = entrance.cluster.topic("clicks", 4)
    producer = _producer(entrance, "skewed_partitions", linger_ms=20, acks="all", compression_type="lz4")
    for number in range(12_000):
        producer.produce(topic, b"click", key=b"user-%d" % number if number % 10 == 0 else b"bot")
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    return {"topic": topic, "records": 12_000, "hot": 10_800}


def time_order(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: time stamps half an hour ahead, then an hour back from there."""
    topic = entrance.cluster.topic("events")
    now = int(time.time() * 1000)
    ahead = _producer(entrance, "future_timestamps", acks="all")
    ahead.produce(topic, b"event", timestamp=now + 1_800_000)
    ahead.flush(PATIENCE)
    late = _producer(entrance, "late_records", acks="all", linger_ms=0)
    for number in range(6):
        late.produce(topic, b"event", timestamp=now - 1_800_000 + number)
        late.flush(PATIENCE)
    return {"topic": topic}


def idle_members(entrance: Entrance) -> dict[str, Any]:
    """librdkafka: two members and one partition; a third offers an assignor that the others do not have."""
    topic = entrance.cluster.topic("single")
    words = {"partition_assignment_strategy": "range", "heartbeat_interval_ms": 300, "session_timeout_ms": 6_000}
    with _consumer(entrance, "idle_members", "single", **words) as first:
        _assigned(first, topic)
        with _consumer(entrance, "idle_members", "single", **words) as second:
            second.subscribe([topic])
            end = time.monotonic() + 3
            while time.monotonic() < end:
                first.poll(0.1)
                second.poll(0.1)
            words["partition_assignment_strategy"] = "cooperative-sticky"
            with _consumer(entrance, "assignor_mismatch", "single", **words) as third:
                third.subscribe([topic])
                error = ""
                end = time.monotonic() + PATIENCE
                while not error and time.monotonic() < end:
                    message = third.poll(0.1)
                    first.poll(0)
                    second.poll(0)
                    error = message.error().name() if message is not None and message.error() else ""
    return {"topic": topic, "error": error}


def mixed_subscriptions(entrance: Entrance) -> dict[str, Any]:
    """librdkafka and kafka-python: two applications, one group id."""
    bills, letters = entrance.cluster.topic("mixed-bills"), entrance.cluster.topic("mixed-letters")
    other = KafkaConsumer(
        letters,
        bootstrap_servers=entrance.bootstrap,
        client_id="mixed_subscriptions-2",
        group_id="shared",
        heartbeat_interval_ms=300,
        session_timeout_ms=6_000,
    )
    settings = {"partition_assignment_strategy": "range", "heartbeat_interval_ms": 300, "session_timeout_ms": 6_000}
    with _consumer(entrance, "mixed_subscriptions-1", "shared", **settings) as one:
        one.subscribe([bills])
        end = time.monotonic() + 5
        while time.monotonic() < end:
            one.poll(0.1)
            other.poll(100)
    other.close()
    return {"bills": bills, "letters": letters}


def anonymous_clients(entrance: Entrance) -> dict[str, Any]:
    """librdkafka and aiokafka: no client.id."""
    topic = entrance.cluster.topic("anonymous")
    producer = _producer(entrance, None, acks="all")
    producer.produce(topic, b"who?")
    producer.flush(PATIENCE)

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=entrance.bootstrap) as nameless:
            await nameless.send_and_wait(topic, b"who?")

    asyncio.run(run())
    return {"topic": topic}


QUICK: tuple[Workload, ...] = (  # what takes a few seconds each
    reconnect_loop,
    empty_fetch_loop,
    offset_reset,
    connection_churn,
    commit_storm,
    metadata_storm,
    sane_kafka_python,
    acks_below_all,
    message_too_large,
    producer_fenced,
    time_order,
    anonymous_clients,
)
SLOW: tuple[Workload, ...] = (  # what waits, or sends much
    max_poll_exceeded,
    stuck_fetch_loop,
    open_transaction,
    static_member_flapping,
    idle_members,
    mixed_subscriptions,
    tiny_batches,
    commit_per_record,
    sane_librdkafka,
    no_compression,
    skewed_partitions,
)
