"""Findings about real clients that are misconfigured on purpose, against a real broker, from what `kproxy run` recorded.

Each function is a client and returns what is to be found about it. Its client id is the name of the finding that it has to set
off, or begins with it; those called "sane" set off nothing. Large requests that come faster than kproxy can write them are
recorded without their records, so that counts of those are at most what was sent.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES
from tests.interop.clients import Java, KafkaConsumer, KafkaProducer
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, properties_file
from tests.support.kafka.proxies import Proxy, cluster

PATIENCE = 90  # seconds until a client gives up
TEXT = b"2026-01-05 12:00:00 INFO request served in 12 ms, status 200, path /orders " * 12


class Expected(NamedTuple):
    """A finding about a client: exactly one row, with these values; a function says whether a value will do."""

    finding: str
    client_id: str
    given: dict[str, Any]  # parameters: thresholds of rates are lower, since a busy machine makes every client slow
    row: dict[str, Any]


def expect(finding: str, *, of: str = "", given: dict[str, Any] | None = None, **row: Any) -> Expected:
    """*of*: the client id, by default the name of the finding."""
    return Expected(finding, of or finding, given or {}, row)


def at_least(least: float) -> Callable[[float], bool]:
    return lambda value: value >= least


def at_most(most: float) -> Callable[[float], bool]:
    return lambda value: value <= most


Workload = Callable[[Entrance], list[Expected]]


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


def sane_librdkafka(entrance: Entrance) -> list[Expected]:
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
    return []


def sane_kafka_python(entrance: Entrance) -> list[Expected]:
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
    return []


def tiny_batches(entrance: Entrance) -> list[Expected]:
    """librdkafka: flush after every record."""
    topic = entrance.cluster.topic("tiny")
    producer = _producer(entrance, "tiny_batches", linger_ms=0, acks="all")
    for _ in range(1_200):
        producer.produce(topic, b"21.5")
        producer.flush(PATIENCE)
    rate = {"min_batches_per_minute": 100}
    return [expect("tiny_batches", given=rate, topic=topic, batches=1_200, records=1_200)]


def acks_below_all(entrance: Entrance) -> list[Expected]:
    """kafka-python: acks=1."""
    topic = entrance.cluster.topic("acks")
    producer = KafkaProducer(bootstrap_servers=entrance.bootstrap, client_id="acks_below_all", acks=1)
    for _ in range(30):
        producer.send(topic, b"paid")
    producer.close()
    return [expect("acks_below_all", topic=topic, acks=1, records=30)]


def no_compression(entrance: Entrance) -> list[Expected]:
    """librdkafka: six megabytes of text as it is, a quarter of one at a time.

    kproxy run leaves bodies out that come faster than it writes them.
    """
    topic = entrance.cluster.topic("text")
    producer = _producer(entrance, "no_compression", linger_ms=20, acks="all", batch_size=100_000)
    for _ in range(28):
        for _ in range(250):
            producer.produce(topic, TEXT)
        assert producer.flush(PATIENCE) == 0
    return [expect("no_compression", given={"min_bytes": 300_000}, topic=topic, records=at_most(7_000))]


def commit_per_record(entrance: Entrance) -> list[Expected]:
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
    read, rate = asyncio.run(run(topic)), {"min_commits_per_minute": 20}
    found = {"group_id": "mail", "topic": topic, "commits": read - 1, "records_per_commit": 1.0}
    return [expect("commit_per_record", given=rate, **found)]


def commit_storm(entrance: Entrance) -> list[Expected]:
    """librdkafka: commit the same offset all the time."""
    topic = entrance.cluster.topic("votes")
    with _consumer(entrance, "commit_storm", "polls", enable_auto_commit=False) as consumer:
        _assigned(consumer, topic)
        for _ in range(400):
            consumer.commit(offsets=[Place(topic, 0, 0)], asynchronous=False)
    rate = {"min_commits_per_minute": 40}
    return [expect("commit_storm", given=rate, group_id="polls", commits=at_least(400), repeated_percent=at_least(98))]


def metadata_storm(entrance: Entrance) -> list[Expected]:
    """librdkafka: ask for all topics in a loop."""
    admin = AdminClient({"bootstrap.servers": entrance.bootstrap, "client.id": "metadata_storm"})
    for _ in range(150):
        admin.list_topics(timeout=PATIENCE)
    return [expect("metadata_storm", given={"min_requests_per_minute": 20}, requests=at_least(150))]


def connection_churn(entrance: Entrance) -> list[Expected]:
    """librdkafka: a producer for every record."""
    topic = entrance.cluster.topic("jobs")
    for _ in range(30):
        producer = _producer(entrance, "connection_churn", acks="all")
        producer.produce(topic, b"job")
        assert producer.flush(PATIENCE) == 0
        del producer  # closes it
    return [expect("connection_churn", given={"min_connections_per_minute": 5}, connections=30)]


def message_too_large(entrance: Entrance) -> list[Expected]:
    """librdkafka: a record larger than the topic takes."""
    topic = entrance.cluster.topic("scans", max_message_bytes="10000")
    errors: list[str] = []
    producer = _producer(entrance, "message_too_large", acks="all")
    for _ in range(3):
        producer.produce(topic, bytes(20_000), on_delivery=lambda error, _: errors.append(error.name()))
        producer.flush(PATIENCE)
    assert errors == ["MSG_SIZE_TOO_LARGE"] * 3
    return [expect("message_too_large", topic=topic, errors=3, largest_bytes=at_least(20_001))]


def offset_reset(entrance: Entrance) -> list[Expected]:
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
    assert first[0] == 60
    return [expect("offset_reset", from_offset=0, to_offset=60, records=60, direction="skipped")]


def _places(consumer: Any, topic: str) -> Any:
    """Assign partition 0 of *topic* to a consumer of kafka-python."""
    from kafka import TopicPartition as Assigned  # noqa: PLC0415 - of the same name as aiokafka's

    place = Assigned(topic, 0)
    consumer.assign([place])
    return place


def _polled(consumer: Any) -> list[Any]:
    return [record for records in consumer.poll(300).values() for record in records]


def stuck_fetch_loop(entrance: Entrance) -> list[Expected]:
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
    return [expect("stuck_fetch_loop", topic=topic, offset=20, readable_end=50, fetches=at_least(20))]


def empty_fetch_loop(entrance: Entrance) -> list[Expected]:
    """librdkafka: do not wait for records."""
    topic = entrance.cluster.topic("quiet")
    with _consumer(entrance, "empty_fetch_loop", "quiet", fetch_wait_max_ms=0) as consumer:
        _assigned(consumer, topic)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            consumer.poll(0.2)
    return [expect("empty_fetch_loop", given={"min_empty_per_minute": 50}, max_wait_ms=0)]


def max_poll_exceeded(entrance: Entrance) -> list[Expected]:
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
    return [expect("max_poll_exceeded", group_id="slow-jobs", rebalance_timeout_ms=1_500)]


def static_member_flapping(entrance: Entrance) -> list[Expected]:
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
    conflicts = at_least("_FENCED" not in errors)
    return [expect("static_member_flapping", group_instance_id="worker-0", joins=2, conflicts=conflicts)]


def producer_fenced(entrance: Entrance) -> list[Expected]:
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
    assert error in {"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
    return [expect("producer_fenced", transactional_id="etl-1")]


def open_transaction(entrance: Entrance) -> list[Expected]:
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
    blocked = {"topic": topic, "last_stable_offset": 0, "waiting": 5}
    return [
        expect("open_transaction", given={"min_seconds": 4}, topics=[topic], records=5, outcome="aborted"),
        expect("read_committed_blocked", given={"min_seconds": 3}, **blocked),
    ]


def reconnect_loop(entrance: Entrance) -> list[Expected]:
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
    login = {"user_name": "mallory", "error_name": "SASL_AUTHENTICATION_FAILED", "connections": at_least(10)}
    failures = at_least(refused.count("_AUTHENTICATION"))
    return [
        expect("reconnect_loop", given={"min_connections": 5}, **login),
        expect("authentication_failed", of="reconnect_loop", failures=failures),
        expect("plaintext_credentials", of="reconnect_loop", user_name="mallory", sasl_mechanism="PLAIN"),
    ]


def skewed_partitions(entrance: Entrance) -> list[Expected]:
    """librdkafka: nearly all records have the same key."""
    topic = entrance.cluster.topic("clicks", 4)
    producer = _producer(entrance, "skewed_partitions", linger_ms=20, acks="all", compression_type="lz4")
    hot: set[int] = set()
    for number in range(12_000):
        if number % 10 == 0:
            producer.produce(topic, b"click", key=b"user-%d" % number)
        else:
            producer.produce(topic, b"click", key=b"bot", on_delivery=lambda _, sent: hot.add(sent.partition()))
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    (place,) = hot
    sent = {"topic": topic, "topic_records": at_most(12_000), "partition": place}
    key = {"key_hex": b"bot".hex(), "partition": place, "records": at_most(10_800)}
    return [
        expect("skewed_partitions", given={"min_batches": 1, "min_records": 1_000}, **sent),
        expect("hot_keys", of="skewed_partitions", percent=lambda percent: 80 <= percent <= 97, **key),
    ]


def time_order(entrance: Entrance) -> list[Expected]:
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
    return [
        expect("future_timestamps", most_seconds_ahead=lambda seconds: 1_700 < seconds <= 1_800),
        expect("late_records", batches=6, most_seconds_late=3_600),
    ]


def idle_members(entrance: Entrance) -> list[Expected]:
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
    assert error == "INCONSISTENT_GROUP_PROTOCOL"
    return [
        expect("idle_members", members=2, idle=1, partitions=1),
        expect("assignor_mismatch", offered="cooperative-sticky", in_use="range"),
    ]


def mixed_subscriptions(entrance: Entrance) -> list[Expected]:
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
    found = {"topics": bills, "other_topics": letters, "other_client_id": "mixed_subscriptions-2"}
    return [expect("mixed_subscriptions", of="mixed_subscriptions-1", given={"min_seconds": 1}, **found)]


def anonymous_clients(entrance: Entrance) -> list[Expected]:
    """librdkafka and aiokafka: no client.id."""
    topic = entrance.cluster.topic("anonymous")
    producer = _producer(entrance, None, acks="all")
    producer.produce(topic, b"who?")
    producer.flush(PATIENCE)

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=entrance.bootstrap) as nameless:
            await nameless.send_and_wait(topic, b"who?")

    asyncio.run(run())
    return []  # see the test of it


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

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
FINDINGS = {name: analysis for name, analysis in library.load().items() if analysis.is_finding}


class Report:
    """What the workloads expect, and the findings over what was recorded of them."""

    def __init__(self, database: Database, ran: dict[str, "Future[list[Expected]]"]) -> None:
        self.database = database
        self.ran = ran

    def rows(self, finding: str, client_id: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of a finding about a client."""
        rows = self.database.run(FINDINGS[finding], **parameters).to_pylist()
        return [row for row in rows if row["client_id"] == client_id]

    def everyone(self, finding: str) -> set[str]:
        """The client ids in the rows of a finding."""
        return {row["client_id"] or "" for row in self.database.run(FINDINGS[finding]).to_pylist()}

    def check(self) -> None:
        """Every workload ran to its end, all that it expects was found, and clients called sane set off nothing."""
        assert {name: future.exception() for name, future in self.ran.items() if future.exception()} == {}
        for expected in (one for future in self.ran.values() for one in future.result()):
            rows = self.rows(expected.finding, expected.client_id, **expected.given)
            assert len(rows) == 1, (expected, rows)
            for name, wanted in expected.row.items():
                will_do = wanted(rows[0][name]) if callable(wanted) else rows[0][name] == wanted
                assert will_do, (expected, name, rows)
        accused = {name: {each for each in self.everyone(name) if each.startswith("sane")} for name in FINDINGS}
        assert {name: ids for name, ids in accused.items() if ids} == {}


@contextmanager
def recorded(single: Cluster, folder: Path, workloads: Sequence[Workload], *, java: bool = False) -> Iterator[Report]:
    """All workloads at once, through a proxy that writes a capture; then the tables of the capture."""
    listeners = [cluster(single.bootstrap("PLAIN")), cluster(single.bootstrap("SASL"), name="sasl")]
    capture = {"path": str(folder / "traffic.pcapng")}
    proxy = Proxy(folder / "proxy", listeners, analysis={"capture": capture}).start().analyzing()
    try:
        plain, sasl = Entrance(single, proxy.bootstrap(0)), Entrance(single, proxy.bootstrap(1))
        with ThreadPoolExecutor(len(workloads) + java) as pool:
            ran = {
                each.__name__: pool.submit(each, sasl if each.__name__ == "reconnect_loop" else plain)
                for each in workloads
            }
            if java:
                ran["java"] = pool.submit(_java, plain)
    finally:
        proxy.stop(patience=60)
        proxy.close()
    captures = sorted(folder.glob("traffic*.pcapng"))
    with Database(captures, wanted=list(TABLES)) as database:
        assert database.damages == []
        yield Report(database, ran)


@pytest.fixture(scope="module")
def report(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """Of the quick workloads."""
    with recorded(single, tmp_path_factory.mktemp("misconfigured"), QUICK) as found:
        yield found


@pytest.fixture(scope="module")
def long_report(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """Of the others, and of Java."""
    with recorded(single, tmp_path_factory.mktemp("misconfigured-long"), SLOW, java=True) as found:
        yield found


def _java(entrance: Entrance) -> list[Expected]:
    """Java: a topic that does not exist; a quota; and one that is sane."""
    limited, sane = entrance.cluster.topic("limited"), entrance.cluster.topic("sane-java", 2)
    words = "--alter --add-config producer_byte_rate=20000 --entity-type clients --entity-name throttled"
    entrance.tool("kafka.admin.ConfigCommand", words, past=True)
    for topic, properties, count in (
        ("no-such-topic", {"client.id": "unknown_topic_loop", "max.block.ms": "12000"}, 1),
        (sane, {"client.id": "sane-java"}, 2_000),
        (limited, {"client.id": "throttled", "batch.size": "8000", "linger.ms": "0"}, 20_000),
    ):
        with properties_file({"delivery.timeout.ms": "30000", "request.timeout.ms": "20000", **properties}) as file:
            words = f"--topic {topic} --max-messages {count} --acks -1 --command-config {file}"
            entrance.tool("VerifiableProducer", words, expect=None)
    settings = {"client_id": "sane-java", "group_id": "sane-java"}
    assert len(Java().consume(entrance, sane, 2_000, **settings)) == 2_000
    is_java = {"software": lambda software: software.split()[0] == "apache-kafka-java"}
    return [expect("unknown_topic_loop", topic="no-such-topic", **is_java)]


@pytest.mark.slow
def test_every_finding_is_made_and_sane_clients_set_off_nothing(report: Report) -> None:
    report.check()


@pytest.mark.long
def test_so_it_is_with_clients_that_wait_or_send_much(long_report: Report) -> None:
    long_report.check()
    assert "Produce" in {row["api_name"] for row in long_report.rows("throttled", "throttled")}


@pytest.mark.slow
def test_anonymous_clients(report: Report) -> None:
    assert report.rows("anonymous_clients", "rdkafka")
    assert [each for each in report.everyone("anonymous_clients") if each.startswith("aiokafka-producer-")]


def test_the_evidence_is_where_the_capture_has_it(report: Report) -> None:
    (row,) = report.rows("message_too_large", "message_too_large")
    (found,) = report.database.connection.execute(
        "SELECT client_id, api_name, error_name FROM exchanges WHERE connection_id = ? AND exchange = ?",
        [row["connection_id"], row["exchange"]],
    ).fetchall()
    assert found == ("message_too_large", "Produce", "MESSAGE_TOO_LARGE")
