"""What analyses show of real clients, against what is known elsewhere.

explain against the settings that the clients were given; map, topics, latency against what Java's clients measure themselves; lag
against what the broker tells an Admin client.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from tests.interop.clients import KafkaConsumer, KafkaProducer
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST, java, run_tool
from tests.support.kafka.processes import eventually, tail
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.sockets import end_offsets

SECONDS = 15  # of a consumer after its first record: seven heartbeats and commits every two seconds
PATIENCE = 90  # seconds until it has that
TEXT = b"a record of many that are alike, and compress"


class Client(NamedTuple):
    """One client: its library, whether it produces, and its settings, by the library's names."""

    library: str  # java, librdkafka, kafka-python
    produces: bool
    settings: Mapping[str, str | int]
    records: int = 200
    pause_ms: int = 10  # after each record


def run(
    clients: Mapping[str, Client], bootstrap: str, topic: str, release: str, folder: Path
) -> dict[str, dict[str, float]]:
    """Run all clients, by client id. Returns what those of Java measured themselves."""
    runners: dict[tuple[str, bool], Callable[[Client, dict[str, str | int], str], None]] = {
        ("librdkafka", True): _librdkafka_produces, ("librdkafka", False): _librdkafka_consumes,
        ("kafka-python", True): _kafka_python_produces, ("kafka-python", False): _kafka_python_consumes,
    }  # fmt: skip
    jobs = []
    with ThreadPoolExecutor(len(clients) + 1) as pool:
        ran = []
        for client_id, client in clients.items():
            names = {"client.id": client_id, "bootstrap.servers": bootstrap}
            if client.library == "java":
                words = (
                    f"produce {topic} {client.records} {client.pause_ms}"
                    if client.produces
                    else f"consume {topic} {SECONDS}"
                )
                jobs.append(
                    " ".join([words, *(f"{key}={value}" for key, value in {**names, **client.settings}.items())])
                )
            else:
                ran.append(
                    pool.submit(runners[client.library, client.produces], client, {**names, **client.settings}, topic)
                )
        measured = _java(jobs, release, folder) if jobs else {}
        for each in ran:
            each.result()
    return measured


def _java(jobs: list[str], release: str, folder: Path) -> dict[str, dict[str, float]]:
    log = folder / "configured.log"
    with log.open("wb") as errors:
        done = subprocess.run(
            java(release, str(Path(__file__).with_name("Configured.java"))),
            input="".join(f"{job}\n" for job in jobs).encode(), stdout=subprocess.PIPE, stderr=errors, timeout=180, check=False,
        )  # fmt: skip
    assert done.returncode == 0, tail(log)
    lines = [line.split(" ") for line in done.stdout.decode().splitlines()]
    assert len(lines) == len(jobs), tail(log)
    return {name: {key: float(value) for key, value in (each.split("=") for each in pairs)} for name, *pairs in lines}


def _librdkafka_produces(client: Client, settings: dict[str, str | int], topic: str) -> None:
    producer = Producer(settings)
    producer.produce(topic, TEXT, partition=0)
    producer.flush(60)  # what it waits for at its beginning is over
    for _ in range(client.records):
        producer.produce(topic, TEXT, partition=0)
        producer.poll(client.pause_ms / 1000)
    assert producer.flush(60) == 0


def _librdkafka_consumes(client: Client, settings: dict[str, str | int], topic: str) -> None:
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    _poll(lambda: consumer.poll(0.1) is not None)
    consumer.close()


def _kafka_python_produces(client: Client, settings: dict[str, str | int], topic: str) -> None:
    producer = KafkaProducer(**_underlined(settings))
    for _ in range(client.records):
        producer.send(topic, TEXT, partition=0)
        threading.Event().wait(client.pause_ms / 1000)
    producer.flush(60)
    producer.close()


def _kafka_python_consumes(client: Client, settings: dict[str, str | int], topic: str) -> None:
    consumer = KafkaConsumer(topic, **_underlined(settings))
    _poll(lambda: bool(consumer.poll(100)))
    consumer.close()


def _poll(poll: Callable[[], bool]) -> None:
    """Poll for SECONDS after the first time that there is something."""
    begun, end = False, time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if poll() and not begun:
            begun, end = True, time.monotonic() + SECONDS


def _underlined(settings: dict[str, str | int]) -> dict[str, str | int]:
    return {key.replace(".", "_"): value for key, value in settings.items()}


pytestmark = [pytest.mark.parametrize("single", [NEWEST], indirect=True), pytest.mark.long]


def settings(text: str) -> dict[str, str | int]:
    """Of "name=value name=value", numbers as such."""
    pairs = (pair.split("=") for pair in text.split())
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def producer(library: str, text: str, records: int = 200, pause_ms: int = 10) -> Client:
    return Client(library, True, settings(text), records, pause_ms)


def consumer(library: str, text: str) -> Client:
    return Client(library, False, settings(f"auto.offset.reset=earliest {text}"))


CLIENTS: dict[str, Client] = {
    "java-old": producer(
        "java",
        """acks=1 enable.idempotence=false compression.type=gzip linger.ms=60 request.timeout.ms=12000
        delivery.timeout.ms=20000 metadata.max.age.ms=3000 max.in.flight.requests.per.connection=1""",
        800,
        20,
    ),
    "java-transactions": producer(
        "java", "transactional.id=ledger transaction.timeout.ms=23000 compression.type=zstd linger.ms=0", 100
    ),
    "java-large": producer("java", "batch.size=4000 linger.ms=1000 compression.type=none", 2_000, 0),
    "rd-safe": producer(
        "librdkafka",
        "acks=all enable.idempotence=true compression.type=lz4 linger.ms=150 request.timeout.ms=17000",
        pause_ms=20,
    ),
    "rd-none": producer("librdkafka", "acks=0 compression.type=none linger.ms=0"),
    "python-gzip": producer(
        "kafka-python",
        "acks=1 enable.idempotence=0 compression.type=gzip linger.ms=80 request.timeout.ms=15000",
        pause_ms=15,
    ),
    "java-classic": consumer(
        "java",
        """group.protocol=classic group.id=g1 fetch.min.bytes=900 fetch.max.wait.ms=700 fetch.max.bytes=1000000
        isolation.level=read_committed session.timeout.ms=9000 heartbeat.interval.ms=1500 max.poll.interval.ms=20000
        auto.commit.interval.ms=1900 group.instance.id=worker-1
        partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor""",
    ),
    "java-consumer": consumer(
        "java",
        """group.protocol=consumer group.id=g2 group.remote.assignor=range max.poll.interval.ms=33000 fetch.min.bytes=2
        auto.commit.interval.ms=1300""",
    ),
    "java-without-commits": consumer("java", "group.protocol=classic group.id=g3 enable.auto.commit=false"),
    "rd-classic": consumer(
        "librdkafka",
        """group.protocol=classic group.id=g4 partition.assignment.strategy=cooperative-sticky fetch.wait.max.ms=300
        fetch.min.bytes=7 fetch.max.bytes=2000000 message.max.bytes=1900000 session.timeout.ms=11000
        heartbeat.interval.ms=1200 max.poll.interval.ms=44000 auto.commit.interval.ms=1700
        isolation.level=read_uncommitted""",
    ),
    "rd-consumer": consumer("librdkafka", "group.protocol=consumer group.id=g5 auto.commit.interval.ms=2100"),
    "python-classic": consumer(
        "kafka-python",
        """group.id=g6 session.timeout.ms=12000 heartbeat.interval.ms=1400 auto.commit.interval.ms=1600
        max.poll.interval.ms=25000 fetch.min.bytes=3 fetch.max.wait.ms=400""",
    ),
}
Settings = dict[str, dict[str, Any]]
THROTTLED = producer("java", "linger.ms=5 batch.size=8000 delivery.timeout.ms=150000", pause_ms=0)


class Seen(NamedTuple):
    """What kproxy shows of the run, what the Java clients measured themselves, and the offsets that the broker has."""

    explained: dict[str, Settings]  # client id -> setting -> row
    rows: dict[str, list[dict[str, Any]]]  # analysis -> its rows
    measured: dict[str, dict[str, float]]  # client id -> metric -> value
    lags: dict[tuple[str, str], tuple[int, int]]  # group, topic -> committed offset, end


@pytest.fixture(scope="module")
def seen(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("explained")
    capture = {"path": str(folder / "traffic.pcapng")}
    topic, again = single.topic("explained"), single.topic("again")
    run_tool(
        single.release, "kafka.admin.ConfigCommand", "--bootstrap-server", single.open, "--alter",
        *("--add-config", "producer_byte_rate=1000", "--entity-type", "clients", "--entity-name", "java-throttled"),
    )  # fmt: skip
    proxy = (
        Proxy(folder / "proxy", [cluster(single.bootstrap("PLAIN"))], analysis={"capture": capture}).start().analyzing()
    )
    try:
        clients = {**CLIENTS, "java-throttled": THROTTLED}
        measured = run(clients, proxy.bootstrap(0), topic, single.release, folder)
        _create_again(proxy.bootstrap(0), again)
    finally:
        proxy.stop(patience=60)
        proxy.close()
    groups = {str(client.settings["group.id"]): topic for client in CLIENTS.values() if "group.id" in client.settings}
    lags = _lags(single.open, {**groups, "again": again})
    with Database(sorted(folder.glob("traffic*.pcapng"))) as database:
        assert database.damages == []
        rows = {name: database.run(library.load()[name]).to_pylist() for name in ("explain", "map", "latency", "lag")}
        rows["sizes"] = [
            {"client_id": client_id, "mean": mean}
            for client_id, mean in database.connection.execute(
                "SELECT client_id, avg(size) FROM record_batches JOIN exchanges USING (connection_id, exchange)"
                " WHERE direction = 'produce' GROUP BY client_id"
            ).fetchall()
        ]
    explained: dict[str, Settings] = {}
    for row in rows["explain"]:
        explained.setdefault(row["client_id"], {})[row["setting"]] = row
    yield Seen(explained, rows, measured, lags)


@pytest.fixture
def explained(seen: Seen) -> dict[str, Settings]:
    return seen.explained


def _create_again(bootstrap: str, topic: str) -> None:
    """A topic of 100 records is deleted and created anew with 5, of which the group has read 3."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for count, committed in ((100, 90), (5, 3)):
        producer = Producer({"bootstrap.servers": bootstrap, "client.id": "again"})
        for _ in range(count):
            producer.produce(topic, b"record")
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "again", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition(topic, 0, committed)], asynchronous=False)
        consumer.close()
        if count == 100:
            admin.delete_topics([topic])[topic].result(60)

            def gone() -> bool:
                try:
                    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
                except KafkaException as error:
                    assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                    return False
                return True

            eventually(gone, what="the topic is deleted and can be created")


def _lags(bootstrap: str, groups: dict[str, str]) -> dict[tuple[str, str], tuple[int, int]]:
    """As the broker tells an Admin client of librdkafka, and ListOffsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = {}
    for group, topic in groups.items():
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        (committed,) = admin.list_consumer_group_offsets([asked])[group].result(60).topic_partitions
        found[group, topic] = committed.offset, end_offsets(bootstrap, topic)[0]
    return found


SHOWN = {  # as explain calls them, where a client of CLIENTS calls them something else
    "fetch.max.wait.ms": "fetch.max.wait.ms (fetch.wait.max.ms)",
    "fetch.wait.max.ms": "fetch.max.wait.ms (fetch.wait.max.ms)",
}
SENT = (
    *(
        "acks",
        "request.timeout.ms",
        "transactional.id",
        "transaction.timeout.ms",
        "compression.type",
        "isolation.level",
    ),
    *("fetch.min.bytes", "fetch.max.wait.ms", "fetch.wait.max.ms", "fetch.max.bytes", "max.poll.interval.ms"),
    *("group.id", "group.protocol", "group.instance.id", "group.remote.assignor", "session.timeout.ms"),
)
BOUNDS = [("java-large", "batch.size"), ("java-old", "max.in.flight.requests.per.connection")]


def given(*names: str) -> Iterator[tuple[str, str, str]]:
    """Client id, setting and value of each that a client was given, of these settings."""
    for client_id, client in CLIENTS.items():
        yield from ((client_id, name, str(value)) for name, value in client.settings.items() if name in names)


def test_what_a_client_sends_is_what_it_was_given(explained: dict[str, Settings]) -> None:
    for client_id, setting, value in given(*SENT):
        row = explained[client_id][SHOWN.get(setting, setting)]
        assert (row["value"], row["certainty"]) == (value, "inferred" if value == "none" else "sent"), (client_id, row)
        # kafka-python leaves a batch alone that does not shrink
        assert row["others"] is None or setting == "compression.type", (client_id, row)


def test_what_comes_regularly_comes_as_often_as_set(explained: dict[str, Settings]) -> None:
    """An interval holds it; where requests came irregularly, explain has to say that it does not know."""
    for client_id, setting, value in given("heartbeat.interval.ms", "metadata.max.age.ms"):
        name = "metadata.max.age.ms (topic.metadata.refresh.interval.ms)" if setting.startswith("metadata") else setting
        row = explained[client_id].get(name)
        if row is not None and row["certainty"] != "unknown":
            low, high = map(int, row["value"].split(" to "))
            assert low <= int(value) <= high <= 2 * low, (client_id, row)


def test_bounds_hold(explained: dict[str, Settings]) -> None:
    for client_id, setting in BOUNDS:
        row = explained[client_id][setting]
        assert row["certainty"] == "at least", (client_id, row)
        assert int(row["value"]) <= int(CLIENTS[client_id].settings[setting]), (client_id, row)


def test_what_follows_from_behaviour(explained: dict[str, Settings]) -> None:
    idempotent = {
        name: explained[name]["enable.idempotence"]["value"] for name, client in CLIENTS.items() if client.produces
    }
    assert idempotent == {
        "java-old": "false",
        "java-transactions": "true",
        "java-large": "true",
        "rd-safe": "true",
        "rd-none": "false",
        "python-gzip": "false",
    }
    commits = {explained[name]["enable.auto.commit"]["value"] for name in CLIENTS if not CLIENTS[name].produces}
    assert commits == {None}  # seen for less than a minute, or with commits that an application could make
    consumers = [explained[name] for name, client in CLIENTS.items() if not client.produces]
    assert {each["auto.offset.reset"]["value"] for each in consumers} == {"earliest"}
    assert explained["java-classic"]["partition.assignment.strategy"]["value"] == "roundrobin"
    assert explained["rd-classic"]["partition.assignment.strategy"]["value"] == "cooperative-sticky"


def test_it_says_what_it_cannot_know(explained: dict[str, Settings]) -> None:
    unknown = {
        name: {key for key, row in rows.items() if row["certainty"] == "unknown"} for name, rows in explained.items()
    }
    for name, client in CLIENTS.items():
        keeps = "delivery.timeout.ms (message.timeout.ms)" if client.produces else "max.poll.records"
        assert keeps in unknown[name]
        assert ("session.timeout.ms" in unknown[name]) == (name in ("java-consumer", "rd-consumer"))
    assert all(row["evidence"] for rows in explained.values() for row in rows.values())


def of_java(*, produces: bool) -> Iterator[str]:
    clients = {**CLIENTS, "java-throttled": THROTTLED}.items()
    return (client_id for client_id, client in clients if (client.library, client.produces) == ("java", produces))


def total(rows: list[dict[str, Any]], what: str, **where: str) -> int:
    """The sum of a column over the rows that have these values."""
    return sum(row[what] for row in rows if all(row[name] == value for name, value in where.items()))


def test_producers_count_the_same_records_and_batches(seen: Seen) -> None:
    """Java's averages are of the last half minute, those of kproxy of all: batches of one kind differ little."""
    for client_id in of_java(produces=True):
        measured = seen.measured[client_id]
        sent = total(seen.rows["map"], "records", client_id=client_id, direction="produce")
        assert sent == measured["record-send-total"] - measured["record-retry-total"], client_id
        (size,) = (row["mean"] for row in seen.rows["sizes"] if row["client_id"] == client_id)
        assert size == pytest.approx(measured["batch-size-avg"], rel=0.25), client_id
        assert size <= measured["batch-size-max"] or client_id == "java-old"  # its largest may be of longer ago
        answered = total(seen.rows["latency"], "requests", client_id=client_id, api_name="Produce")
        assert 0 < answered <= measured["request-total"], client_id


def test_consumers_count_the_same_records(seen: Seen) -> None:
    for client_id in of_java(produces=False):
        measured = seen.measured[client_id]
        read = total(seen.rows["map"], "records", client_id=client_id, direction="fetch")
        assert measured["records-consumed-total"] <= read, client_id  # what came after its last poll it did not count
        fetches = total(seen.rows["latency"], "requests", client_id=client_id, api_name="Fetch")
        assert measured["fetch-total"] <= fetches <= measured["fetch-total"] + 3, client_id


def test_throttling_is_as_the_client_was_told(seen: Seen) -> None:
    of_client = [
        row for row in seen.rows["latency"] if (row["client_id"], row["api_name"]) == ("java-throttled", "Produce")
    ]
    longest = max(row["max_throttle_ms"] for row in of_client)
    assert longest > 0
    assert (
        longest >= seen.measured["java-throttled"]["produce-throttle-time-max"] > 0
    )  # its own: of the last half minute
    others = {row["client_id"] for row in seen.rows["latency"] if row["max_throttle_ms"]}
    assert others == {"java-throttled"}


def test_lag_is_as_the_broker_has_it(seen: Seen) -> None:
    last = {(row["group_id"], row["topic"]): row for row in seen.rows["lag"] if row["is_last"]}
    for place, (committed, end) in seen.lags.items():
        if committed >= 0:  # java-without-commits has none
            row = last[place]
            assert (row["committed_offset"], row["lag"]) == (committed, max(row["end_offset"] - committed, 0))
            assert row["end_offset"] <= end
    assert {committed for (group, _), (committed, _) in seen.lags.items() if group == "g3"} == {-1001}
    assert not {row["group_id"] for row in seen.rows["lag"]} & {"g3"}


def test_lag_of_a_topic_that_was_created_again(seen: Seen) -> None:
    (row,) = (row for row in seen.rows["lag"] if row["is_last"] and row["group_id"] == "again")
    assert (row["committed_offset"], row["end_offset"], row["lag"]) == (3, 5, 2)
    assert seen.lags["again", row["topic"]] == (3, 5)
