"""Findings about real clients that are misconfigured on purpose, against a real broker, from what `kproxy run` recorded.

Thresholds of rates are lower here than by default, since a busy machine makes every client slow; and large requests that come
faster than kproxy can write them are recorded without their records, so that counts of those are at most what was sent.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES
from tests.interop.clients import Java
from tests.interop.misconfigured import QUICK, SLOW, Workload
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.tools import properties_file, run_tool

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
FINDINGS = {name: analysis for name, analysis in library.load().items() if analysis.is_finding}


class Report:
    """What the workloads counted themselves, and the findings over what was recorded of them."""

    def __init__(self, database: Database, ran: dict[str, Future[dict[str, Any]]]) -> None:
        self.database = database
        self.ran = ran

    def counted(self, workload: str) -> dict[str, Any]:
        """What a workload counted itself."""
        return self.ran[workload].result()

    def rows(self, finding: str, client_id: str | None = None, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of a finding about a client, by default the one that is called as the finding."""
        rows = self.database.run(FINDINGS[finding], **parameters).to_pylist()
        return [row for row in rows if row["client_id"] == (client_id or finding)]

    def everyone(self, finding: str) -> set[str]:
        """The client ids in the rows of a finding."""
        return {row["client_id"] or "" for row in self.database.run(FINDINGS[finding]).to_pylist()}


@contextmanager
def recorded(single: Cluster, folder: Path, workloads: Sequence[Workload], *, java: bool = False) -> Iterator[Report]:
    """All workloads at once, through a proxy that writes a capture; then the tables of the capture."""
    listeners = [cluster(single.bootstrap("PLAIN")), cluster(single.bootstrap("SASL"), name="sasl")]
    capture = {"path": str(folder / "traffic.pcapng")}
    proxy = Proxy(folder / "proxy", listeners, analysis={"capture": capture}).start().analyzing()
    try:
        plain, sasl = Entrance(single, proxy.bootstrap(0)), Entrance(single, proxy.bootstrap(1))
        with ThreadPoolExecutor(len(workloads)) as pool:
            ran = {
                each.__name__: pool.submit(each, sasl if each.__name__ == "reconnect_loop" else plain)
                for each in workloads
            }
            if java:
                _java(plain)
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


def _java(entrance: Entrance) -> None:
    """Java: a topic that does not exist; a quota; and one that is sane."""
    limited, sane = entrance.cluster.topic("limited"), entrance.cluster.topic("sane-java", 2)
    run_tool(
        entrance.release,
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", entrance.cluster.open, "--alter", "--add-config", "producer_byte_rate=20000"),
        *("--entity-type", "clients", "--entity-name", "throttled"),
    )
    for topic, properties, count in (
        ("no-such-topic", {"client.id": "unknown_topic_loop", "max.block.ms": "12000"}, 1),
        (sane, {"client.id": "sane-java"}, 2_000),
        (limited, {"client.id": "throttled", "batch.size": "8000", "linger.ms": "0"}, 20_000),
    ):
        with properties_file({"delivery.timeout.ms": "30000", "request.timeout.ms": "20000", **properties}) as file:
            run_tool(
                entrance.release,
                "org.apache.kafka.tools.VerifiableProducer",
                *("--bootstrap-server", entrance.bootstrap, "--topic", topic, "--max-messages", str(count)),
                *("--acks", "-1", "--command-config", file),
                expect=None,
            )
    settings = {"client_id": "sane-java", "group_id": "sane-java"}
    assert len(Java().consume(entrance, sane, 2_000, **settings)) == 2_000


@pytest.mark.long
def test_tiny_batches(long_report: Report) -> None:
    (row,) = long_report.rows("tiny_batches", min_batches_per_minute=100)
    counted = long_report.counted("tiny_batches")
    assert (row["topic"], row["batches"], row["records"]) == (counted["topic"], counted["records"], counted["records"])


def test_acks_below_all(report: Report) -> None:
    (row,) = report.rows("acks_below_all")
    counted = report.counted("acks_below_all")
    assert (row["topic"], row["acks"], row["records"]) == (counted["topic"], 1, counted["records"])


@pytest.mark.long
def test_no_compression(long_report: Report) -> None:
    (row,) = long_report.rows("no_compression", min_bytes=300_000)
    counted = long_report.counted("no_compression")
    assert (row["topic"], row["records"] <= counted["records"]) == (counted["topic"], True)


@pytest.mark.long
def test_commit_per_record(long_report: Report) -> None:
    (row,) = long_report.rows("commit_per_record", min_commits_per_minute=20)
    counted = long_report.counted("commit_per_record")
    assert (row["group_id"], row["topic"], row["commits"]) == ("mail", counted["topic"], counted["commits"] - 1)
    assert row["records_per_commit"] == 1.0


def test_commit_storm(report: Report) -> None:
    (row,) = report.rows("commit_storm", min_commits_per_minute=40)
    assert row["commits"] >= report.counted("commit_storm")["commits"]
    assert (row["group_id"], row["repeated_percent"] >= 98) == ("polls", True)


def test_metadata_storm(report: Report) -> None:
    (row,) = report.rows("metadata_storm", min_requests_per_minute=20)
    assert row["requests"] >= report.counted("metadata_storm")["requests"]


def test_connection_churn(report: Report) -> None:
    (row,) = report.rows("connection_churn", min_connections_per_minute=5)
    assert row["connections"] == report.counted("connection_churn")["producers"]


def test_message_too_large(report: Report) -> None:
    (row,) = report.rows("message_too_large")
    counted = report.counted("message_too_large")
    assert counted["errors"] == ["MSG_SIZE_TOO_LARGE"] * 3
    assert (row["topic"], row["errors"], row["largest_request_bytes"] > 20_000) == (counted["topic"], 3, True)


@pytest.mark.long
def test_unknown_topic_loop(long_report: Report) -> None:
    (row,) = long_report.rows("unknown_topic_loop")
    assert (row["topic"], row["software"].split()[0]) == ("no-such-topic", "apache-kafka-java")


@pytest.mark.long
def test_throttled(long_report: Report) -> None:
    rows = long_report.rows("throttled")
    assert "Produce" in {row["api_name"] for row in rows}


def test_offset_reset(report: Report) -> None:
    (row,) = report.rows("offset_reset")
    assert report.counted("offset_reset")["first"] == 60
    assert (row["from_offset"], row["to_offset"], row["records"], row["direction"]) == (0, 60, 60, "skipped")


@pytest.mark.long
def test_stuck_fetch_loop(long_report: Report) -> None:
    (row,) = long_report.rows("stuck_fetch_loop")
    counted = long_report.counted("stuck_fetch_loop")
    assert (row["topic"], row["offset"], row["readable_end"]) == (counted["topic"], 20, 50)
    assert row["fetches"] >= 20


def test_empty_fetch_loop(report: Report) -> None:
    (row,) = report.rows("empty_fetch_loop", min_empty_per_minute=50)
    assert row["max_wait_ms"] == 0


@pytest.mark.long
def test_max_poll_exceeded(long_report: Report) -> None:
    (row,) = long_report.rows("max_poll_exceeded")
    assert (row["group_id"], row["rebalance_timeout_ms"]) == ("slow-jobs", 1_500)


@pytest.mark.long
def test_static_member_flapping(long_report: Report) -> None:
    (row,) = long_report.rows("static_member_flapping")
    assert "_FENCED" in long_report.counted("static_member_flapping")["errors"] or row["conflicts"] >= 1
    assert (row["group_instance_id"], row["joins"]) == ("worker-0", 2)


def test_producer_fenced(report: Report) -> None:
    (row,) = report.rows("producer_fenced")
    assert report.counted("producer_fenced")["error"] in {"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
    assert row["transactional_id"] == "etl-1"


@pytest.mark.long
def test_open_transaction_and_who_waits_for_it(long_report: Report) -> None:
    (row,) = long_report.rows("open_transaction", min_seconds=4)
    counted = long_report.counted("open_transaction")
    assert (row["topics"], row["records"], row["outcome"]) == ([counted["topic"]], counted["records"], "aborted")
    (row,) = long_report.rows("read_committed_blocked", min_seconds=3)
    assert (row["topic"], row["last_stable_offset"], row["waiting"]) == (counted["topic"], 0, 5)


def test_reconnect_loop_and_refused_login_in_the_clear(report: Report) -> None:
    (row,) = report.rows("reconnect_loop", min_connections=5)
    assert (row["user_name"], row["error_name"]) == ("mallory", "SASL_AUTHENTICATION_FAILED")
    assert row["connections"] >= 10
    (row,) = report.rows("authentication_failed", "reconnect_loop")
    assert row["failures"] >= report.counted("reconnect_loop")["refused"]
    (row,) = report.rows("plaintext_credentials", "reconnect_loop")
    assert (row["user_name"], row["sasl_mechanism"]) == ("mallory", "PLAIN")


@pytest.mark.long
def test_skewed_partitions_and_the_hot_key(long_report: Report) -> None:
    (row,) = long_report.rows("skewed_partitions", min_batches=1, min_records=1_000)
    counted = long_report.counted("skewed_partitions")
    assert (row["topic"], row["topic_records"] <= counted["records"]) == (counted["topic"], True)
    (key,) = long_report.rows("hot_keys", "skewed_partitions")
    assert (bytes.fromhex(key["key_hex"]), key["partition"]) == (b"bot", row["partition"])
    assert (key["records"] <= counted["hot"], 80 <= key["percent"] <= 97) == (True, True)


def test_future_and_late_timestamps(report: Report) -> None:
    (row,) = report.rows("future_timestamps")
    assert 1_700 < row["most_seconds_ahead"] <= 1_800
    (row,) = report.rows("late_records")
    assert (row["batches"], row["most_seconds_late"]) == (6, 3_600)


@pytest.mark.long
def test_idle_members_and_a_member_without_a_common_assignor(long_report: Report) -> None:
    (row,) = long_report.rows("idle_members")
    assert (row["members"], row["idle"], row["partitions"]) == (2, 1, 1)
    (row,) = long_report.rows("assignor_mismatch")
    assert long_report.counted("idle_members")["error"] == "INCONSISTENT_GROUP_PROTOCOL"
    assert (row["offered"], row["in_use"]) == ("cooperative-sticky", "range")


@pytest.mark.long
def test_mixed_subscriptions(long_report: Report) -> None:
    (row,) = long_report.rows("mixed_subscriptions", "mixed_subscriptions-1", min_seconds=1)
    counted = long_report.counted("mixed_subscriptions")
    assert (row["topics"], row["other_topics"]) == (counted["bills"], counted["letters"])
    assert row["other_client_id"] == "mixed_subscriptions-2"


def test_anonymous_clients(report: Report) -> None:
    assert report.rows("anonymous_clients", "rdkafka")
    found = report.everyone("anonymous_clients")
    assert [each for each in found if each.startswith("aiokafka-producer-")]


def fail(report: Report) -> dict[str, BaseException | None]:
    """The workloads that did not come to their end."""
    return {name: future.exception() for name, future in report.ran.items() if future.exception()}


def accused(report: Report) -> dict[str, set[str]]:
    """The findings about clients that are called sane."""
    named = {name: {each for each in report.everyone(name) if each.startswith("sane")} for name in FINDINGS}
    return {name: ids for name, ids in named.items() if ids}


def test_every_workload_ran_to_its_end(report: Report) -> None:
    assert fail(report) == {}


@pytest.mark.long
def test_every_long_workload_ran_to_its_end(long_report: Report) -> None:
    assert fail(long_report) == {}


def test_clients_with_good_settings_set_off_nothing(report: Report) -> None:
    assert accused(report) == {}


@pytest.mark.long
def test_busier_clients_with_good_settings_set_off_nothing(long_report: Report) -> None:
    assert accused(long_report) == {}


def test_the_evidence_is_where_the_capture_has_it(report: Report) -> None:
    (row,) = report.rows("message_too_large")
    (found,) = report.database.connection.execute(
        "SELECT client_id, api_name, error_name FROM exchanges WHERE connection_id = ? AND exchange = ?",
        [row["connection_id"], row["exchange"]],
    ).fetchall()
    assert found == ("message_too_large", "Produce", "MESSAGE_TOO_LARGE")
