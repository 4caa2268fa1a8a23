"""What analyses show of real clients, against what is known elsewhere.

explain against the settings that the clients were given; map, topics, latency against what Java's clients measure themselves; lag
against what the broker tells an Admin client.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from tests.interop.configured import Client, run
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.tools import run_tool
from tests.support.kafka.wire import end_offsets

pytestmark = [pytest.mark.parametrize("single", [NEWEST], indirect=True), pytest.mark.long]
CONSUMES = {"auto.offset.reset": "earliest"}
CLASSIC = {"group.protocol": "classic"}
CLIENTS: dict[str, Client] = {
    "java-old": Client(
        "java",
        True,
        {
            "acks": "1",
            "enable.idempotence": "false",
            "compression.type": "gzip",
            "linger.ms": 60,
            "request.timeout.ms": 12_000,
            "delivery.timeout.ms": 20_000,
            "metadata.max.age.ms": 3_000,
            "max.in.flight.requests.per.connection": 1,
        },
        records=800,
        pause_ms=20,
    ),
    "java-transactions": Client(
        "java",
        True,
        {
            "transactional.id": "ledger",
            "transaction.timeout.ms": 23_000,
            "compression.type": "zstd",
            "linger.ms": 0,
        },
        records=100,
    ),
    "java-large": Client(
        "java", True, {"batch.size": 4_000, "linger.ms": 1_000, "compression.type": "none"}, records=2_000, pause_ms=0
    ),
    "rd-safe": Client(
        "librdkafka",
        True,
        {
            "acks": "all",
            "enable.idempotence": "true",
            "compression.type": "lz4",
            "linger.ms": 150,
            "request.timeout.ms": 17_000,
        },
        pause_ms=20,
    ),
    "rd-none": Client("librdkafka", True, {"acks": "0", "compression.type": "none", "linger.ms": 0}),
    "python-gzip": Client(
        "kafka-python",
        True,
        {
            "acks": 1,
            "enable.idempotence": 0,
            "compression.type": "gzip",
            "linger.ms": 80,
            "request.timeout.ms": 15_000,
        },
        pause_ms=15,
    ),
    "java-classic": Client(
        "java",
        False,
        {
            **CLASSIC,
            **CONSUMES,
            "group.id": "g1",
            "fetch.min.bytes": 900,
            "fetch.max.wait.ms": 700,
            "fetch.max.bytes": 1_000_000,
            "isolation.level": "read_committed",
            "session.timeout.ms": 9_000,
            "heartbeat.interval.ms": 1_500,
            "max.poll.interval.ms": 20_000,
            "auto.commit.interval.ms": 1_900,
            "group.instance.id": "worker-1",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        },
    ),
    "java-consumer": Client(
        "java",
        False,
        {
            **CONSUMES,
            "group.protocol": "consumer",
            "group.id": "g2",
            "group.remote.assignor": "range",
            "max.poll.interval.ms": 33_000,
            "fetch.min.bytes": 2,
            "auto.commit.interval.ms": 1_300,
        },
    ),
    "java-without-commits": Client(
        "java", False, {**CLASSIC, **CONSUMES, "group.id": "g3", "enable.auto.commit": "false"}
    ),
    "rd-classic": Client(
        "librdkafka",
        False,
        {
            **CLASSIC,
            **CONSUMES,
            "group.id": "g4",
            "partition.assignment.strategy": "cooperative-sticky",
            "fetch.wait.max.ms": 300,
            "fetch.min.bytes": 7,
            "fetch.max.bytes": 2_000_000,
            "message.max.bytes": 1_900_000,
            "session.timeout.ms": 11_000,
            "heartbeat.interval.ms": 1_200,
            "max.poll.interval.ms": 44_000,
            "auto.commit.interval.ms": 1_700,
            "isolation.level": "read_uncommitted",
        },
    ),
    "rd-consumer": Client(
        "librdkafka",
        False,
        {**CONSUMES, "group.protocol": "consumer", "group.id": "g5", "auto.commit.interval.ms": 2_100},
    ),
    "python-classic": Client(
        "kafka-python",
        False,
        {
            **CONSUMES,
            "group.id": "g6",
            "session.timeout.ms": 12_000,
            "heartbeat.interval.ms": 1_400,
            "auto.commit.interval.ms": 1_600,
            "max.poll.interval.ms": 25_000,
            "fetch.min.bytes": 3,
            "fetch.max.wait.ms": 400,
        },
    ),
}
Settings = dict[str, dict[str, Any]]
THROTTLED = Client(
    "java", True, {"linger.ms": 5, "batch.size": 8_000, "delivery.timeout.ms": 150_000}, records=200, pause_ms=0
)


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
SENT = {
    "acks",
    "request.timeout.ms",
    "transactional.id",
    "transaction.timeout.ms",
    "fetch.min.bytes",
    "fetch.max.wait.ms",
    "fetch.wait.max.ms",
    "fetch.max.bytes",
    "isolation.level",
    "group.id",
    "group.protocol",
    "group.instance.id",
    "group.remote.assignor",
    "max.poll.interval.ms",
    "session.timeout.ms",
    "compression.type",
}
REGULAR = {"heartbeat.interval.ms", "auto.commit.interval.ms", "metadata.max.age.ms"}
SENT_CASES = [(name, key) for name, client in CLIENTS.items() for key in client.settings if key in SENT]
REGULAR_CASES = [(name, key) for name, client in CLIENTS.items() for key in client.settings if key in REGULAR]
LINGERS = [name for name, client in CLIENTS.items() if "linger.ms" in client.settings]
BOUNDS = [("java-large", "batch.size"), ("java-old", "max.in.flight.requests.per.connection")]


@pytest.mark.parametrize(("client_id", "setting"), SENT_CASES)
def test_what_a_client_sends_is_what_it_was_given(client_id: str, setting: str, explained: dict[str, Settings]) -> None:
    row = explained[client_id][SHOWN.get(setting, setting)]
    certainty = "inferred" if row["value"] == "none" else "sent"
    assert (row["value"], row["certainty"]) == (str(CLIENTS[client_id].settings[setting]), certainty)
    assert (
        row["others"] is None or setting == "compression.type"
    )  # kafka-python leaves a batch alone that does not shrink


@pytest.mark.parametrize(("client_id", "setting"), REGULAR_CASES)
def test_what_comes_regularly_comes_as_often_as_set(
    client_id: str, setting: str, explained: dict[str, Settings]
) -> None:
    """Later on a busy machine; where it came irregularly for that, explain has to say that it does not know."""
    name = "metadata.max.age.ms (topic.metadata.refresh.interval.ms)" if setting.startswith("metadata") else setting
    row, given = explained[client_id].get(name), int(CLIENTS[client_id].settings[setting])
    if row is None or row["certainty"] == "unknown":
        return
    assert row["certainty"] == "inferred"
    assert 0.95 * given <= int(row["value"]) <= 1.5 * given + 500, row


@pytest.mark.parametrize("client_id", LINGERS)
def test_linger_lies_within_what_is_said(client_id: str, explained: dict[str, Settings]) -> None:
    row, given = explained[client_id]["linger.ms"], int(CLIENTS[client_id].settings["linger.ms"])
    late = 50  # milliseconds: a busy machine wakes the sender so much later
    match row["certainty"]:
        case "at most":
            assert given <= int(row["value"])
        case "at least":
            assert int(row["value"]) <= given + late
        case _:
            low, _, high = row["value"].partition(" to ")
            assert int(low) - late <= given <= int(high) + late, row


@pytest.mark.parametrize(("client_id", "setting"), BOUNDS)
def test_bounds_hold(client_id: str, setting: str, explained: dict[str, Settings]) -> None:
    row = explained[client_id][setting]
    assert row["certainty"] == "at least"
    assert int(row["value"]) <= int(CLIENTS[client_id].settings[setting])


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
    commits = {
        name: explained[name]["enable.auto.commit"]["value"] for name, client in CLIENTS.items() if not client.produces
    }
    assert commits.pop("java-without-commits") in ("false", None)  # None: it was seen for too short a time
    assert set(commits.values()) <= {"true", None}  # None: they came irregularly
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


JAVA_PRODUCERS = [name for name, client in CLIENTS.items() if client.library == "java" and client.produces] + [
    "java-throttled"
]
JAVA_CONSUMERS = [name for name, client in CLIENTS.items() if client.library == "java" and not client.produces]


@pytest.mark.parametrize("client_id", JAVA_PRODUCERS)
def test_producers_count_the_same_records_and_batches(client_id: str, seen: Seen) -> None:
    """Its averages are of the last half minute, those of kproxy of all: batches of one kind differ little."""
    measured = seen.measured[client_id]
    sent = sum(
        row["records"] for row in seen.rows["map"] if (row["client_id"], row["direction"]) == (client_id, "produce")
    )
    assert sent == measured["record-send-total"] - measured["record-retry-total"]
    (size,) = (row["mean"] for row in seen.rows["sizes"] if row["client_id"] == client_id)
    assert size == pytest.approx(measured["batch-size-avg"], rel=0.25)
    assert size <= measured["batch-size-max"] or client_id == "java-old"  # its largest may be of longer ago
    answered = sum(
        row["requests"] for row in seen.rows["latency"] if (row["client_id"], row["api_name"]) == (client_id, "Produce")
    )
    assert 0 < answered <= measured["request-total"]


@pytest.mark.parametrize("client_id", JAVA_CONSUMERS)
def test_consumers_count_the_same_records(client_id: str, seen: Seen) -> None:
    measured = seen.measured[client_id]
    read = sum(
        row["records"] for row in seen.rows["map"] if (row["client_id"], row["direction"]) == (client_id, "fetch")
    )
    assert measured["records-consumed-total"] <= read  # what came after its last poll it did not count
    fetches = [row for row in seen.rows["latency"] if (row["client_id"], row["api_name"]) == (client_id, "Fetch")]
    assert measured["fetch-total"] <= sum(row["requests"] for row in fetches) <= measured["fetch-total"] + 3
    assert max(row["max_ms"] for row in fetches) >= 0


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
