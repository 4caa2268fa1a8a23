"""What explain works out of the traffic of real clients, against the settings that they were given."""

from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from tests.interop.configured import Client, run
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import Proxy, cluster

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


@pytest.fixture(scope="module")
def explained(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Settings]]:
    """Client id -> setting -> row."""
    folder = tmp_path_factory.mktemp("explained")
    capture = {"path": str(folder / "traffic.pcapng")}
    proxy = (
        Proxy(folder / "proxy", [cluster(single.bootstrap("PLAIN"))], analysis={"capture": capture}).start().analyzing()
    )
    try:
        run(CLIENTS, proxy.bootstrap(0), single.topic("explained"), single.release, folder)
    finally:
        proxy.stop(patience=60)
        proxy.close()
    with Database(sorted(folder.glob("traffic*.pcapng"))) as database:
        assert database.damages == []
        rows = database.run(library.load()["explain"]).to_pylist()
    found: dict[str, Settings] = {}
    for row in rows:
        found.setdefault(row["client_id"], {})[row["setting"]] = row
    yield found


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
    assert (row["value"], row["certainty"], row["others"]) == (
        str(CLIENTS[client_id].settings[setting]),
        certainty,
        None,
    )


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
    assert commits.pop("java-without-commits") == "false"
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
