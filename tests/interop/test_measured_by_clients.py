"""What analyses show of real clients, against what is known elsewhere.

map, topics, latency against what Java's clients measure themselves; lag against what the broker tells an Admin client. That
explain tells the settings is held by tests/truth (settings_at_random).
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST, java, run_tool
from tests.support.kafka.processes import eventually, tail
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.sockets import end_offsets

SECONDS = 15  # of a consumer after its first record: seven heartbeats and commits every two seconds
JAVA = {  # client id -> produce, count, pause in ms after each record, or consume and seconds; and settings
    "java-old": "produce 800 20 acks=1 enable.idempotence=false compression.type=gzip linger.ms=60",
    "java-transactions": "produce 100 10 transactional.id=ledger compression.type=zstd linger.ms=0",
    "java-large": "produce 2000 0 batch.size=4000 linger.ms=1000 compression.type=none",
    "java-throttled": "produce 200 0 linger.ms=5 batch.size=8000 delivery.timeout.ms=150000",
    "java-classic": f"consume {SECONDS} auto.offset.reset=earliest group.protocol=classic group.id=g1",
    "java-consumer": f"consume {SECONDS} auto.offset.reset=earliest group.protocol=consumer group.id=g2",
    "java-without-commits": (
        f"consume {SECONDS} auto.offset.reset=earliest group.protocol=classic group.id=g3 enable.auto.commit=false"
    ),
}


def of_java(kind: str) -> Iterator[str]:
    return (client_id for client_id, words in JAVA.items() if words.startswith(kind))


def run(bootstrap: str, topic: str, release: str, folder: Path) -> dict[str, dict[str, float]]:
    """Run all clients; return what each measured itself, by client id."""
    jobs = []
    for client_id, words in JAVA.items():
        kind, _, rest = words.partition(" ")
        jobs.append(f"{kind} {topic} {rest} client.id={client_id} bootstrap.servers={bootstrap}")
    return _java(jobs, release, folder)


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


pytestmark = [pytest.mark.parametrize("single", [NEWEST], indirect=True), pytest.mark.long]


class Seen(NamedTuple):
    """What kproxy shows of the run, what the Java clients measured themselves, and the offsets that the broker has."""

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
        measured = run(proxy.bootstrap(0), topic, single.release, folder)
        _create_again(proxy.bootstrap(0), again)
    finally:
        proxy.stop(patience=60)
        proxy.close()
    lags = _lags(single.open, {"g1": topic, "g2": topic, "g3": topic, "again": again})
    with Database(sorted(folder.glob("traffic*.pcapng"))) as database:
        assert database.damages == []
        rows = {name: database.run(library.load()[name]).to_pylist() for name in ("map", "latency", "lag")}
        rows["sizes"] = [
            {"client_id": client_id, "mean": mean}
            for client_id, mean in database.connection.execute(
                "SELECT client_id, avg(size) FROM record_batches JOIN exchanges USING (connection_id, exchange)"
                " WHERE direction = 'produce' GROUP BY client_id"
            ).fetchall()
        ]
    yield Seen(rows, measured, lags)


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


def total(rows: list[dict[str, Any]], what: str, **where: str) -> int:
    """The sum of a column over the rows that have these values."""
    return sum(row[what] for row in rows if all(row[name] == value for name, value in where.items()))


def test_producers_count_the_same_records_and_batches(seen: Seen) -> None:
    """Java's averages are of the last half minute, those of kproxy of all: batches of one kind differ little."""
    for client_id in of_java("produce"):
        measured = seen.measured[client_id]
        sent = total(seen.rows["map"], "records", client_id=client_id, direction="produce")
        assert sent == measured["record-send-total"] - measured["record-retry-total"], client_id
        (size,) = (row["mean"] for row in seen.rows["sizes"] if row["client_id"] == client_id)
        assert size == pytest.approx(measured["batch-size-avg"], rel=0.25), client_id
        assert size <= measured["batch-size-max"] or client_id == "java-old"  # its largest may be of longer ago
        answered = total(seen.rows["latency"], "requests", client_id=client_id, api_name="Produce")
        assert 0 < answered <= measured["request-total"], client_id


def test_consumers_count_the_same_records(seen: Seen) -> None:
    for client_id in of_java("consume"):
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
