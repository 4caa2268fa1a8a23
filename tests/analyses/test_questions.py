"""map, inventory, topics, latency, lag, explain, diff: over the shared captures against their manifest, and other references."""

import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.analyses.report.verdicts import answer, verdict_of
from kproxy.protocol import ApiKey
from tests.support.sampled import sampled
from tests.support.scenes import Rows
from tests.support.scenes.rows import moment
from tests.support.tables import MANIFEST

CAPTURES = Path(__file__).parents[2] / "captures"
CLIENTS = Path(__file__).parent / "clients"
ENTRIES = pytest.mark.parametrize("entry", sampled(MANIFEST, MANIFEST[::3]), ids=lambda entry: entry["file"])
Found = list[dict[str, Any]]


@functools.cache
def everything(name: str) -> dict[str, Found]:
    """The rows of these analyses of a capture."""
    found = {}
    with Database([CAPTURES / name]) as database:
        for wanted in ("map", "inventory", "topics", "latency", "lag", "explain", "producer_fenced"):
            found[wanted] = database.run(library.load()[wanted]).to_pylist()
        counted = database.connection.sql(
            "SELECT api_key || ' v' || api_version AS name, count(request_at) AS requests, count(latency_ms) AS answered,"
            " max(latency_ms) AS longest_ms FROM exchanges WHERE api_key IS NOT NULL GROUP BY 1"
        )
        found["requests"] = counted.to_arrow_table().to_pylist()
    return found


def settings(name: str, client_id: str) -> dict[str, str]:
    rows = everything(name)["explain"]
    return {row["setting"]: row["value"] for row in rows if row["client_id"] == client_id}


# map


def check_the_map_has_the_records_that_were_produced(entry: dict[str, Any]) -> None:
    produced: Counter[str] = Counter()
    for row in everything(entry["file"])["map"]:
        if row["direction"] == "produce" and not row["topic"].startswith("__"):
            produced[row["topic"]] += row["records"]
    assert produced == entry.get("expect", {"records_produced_acked": {}})["records_produced_acked"]


def check_the_map_has_the_records_that_groups_read(entry: dict[str, Any]) -> None:
    read: Counter[str] = Counter()
    for row in everything(entry["file"])["map"]:
        if row["direction"] == "fetch":
            for group in row["groups"] or ():
                read[f"{group}/{row['topic']}"] += row["records"]
    for name, records in entry.get("expect", {}).get("records_consumed_by_group_and_topic", {}).items():
        assert read[name] == records


def check_brokers_are_never_called_consumers(entry: dict[str, Any]) -> None:
    """Of all files only 04, 08, 09 and 10 have traffic of brokers among themselves; these are the client ids in it."""
    of_brokers = {
        "04": {"AddPartitionsManager-client-1", "broker-1-txn-marker-sender"},
        "08": {"1"},
        "09": {"1"},
        "10": {"1", "2", "3", "raft-client-1", "raft-client-3"} | {f"broker-{n}-fetcher-0" for n in (1, 2, 3)},
    }.get(entry["file"][:2], set())
    rows = everything(entry["file"])
    assert {row["client_id"] for row in rows["inventory"] if row["role"] == "broker"} == of_brokers
    assert not of_brokers & {
        row["client_id"] for row in rows["map"] if row["direction"] in ("fetch", "subscribe", "produce")
    }


def test_what_is_not_used() -> None:
    rows = everything("05-admin.pcap")["map"]
    use = {row["topic"]: row["topic_use"] for row in rows}
    assert use["adm-a"] == "only written"  # Admin set offsets of a group on it, which reads nothing
    assert use["adm-b"] == "only administered"
    assert {row["topic"] for row in rows if row["direction"] == "subscribe"} == set()
    untouched = {row["topic"]: row["topic_use"] for row in everything("09-old-broker-0.10-format1.pcap")["map"]}
    assert untouched["t10b"] == "written and read"


def test_who_followed_is_not_who_read() -> None:
    rows = everything("10-kraft-interbroker.pcap")["map"]
    assert {row["topic_use"] for row in rows if row["topic"] == "rep"} == {"only written"}
    assert {row["direction"] for row in rows if row["client_id"] == "broker-2-fetcher-0"} == {"replicate"}


def test_members_are_on_the_map_where_no_fetch_of_theirs_was_seen() -> None:
    row = next(r for r in everything("12-midstream-start.pcap")["map"] if r["client_id"] == "member-0")
    assert (row["direction"], row["groups"]) == ("subscribe", ["g-coop"])


# inventory


def check_the_inventory_has_every_client_id_and_software(entry: dict[str, Any]) -> None:
    rows = everything(entry["file"])["inventory"]
    if "client_ids" in entry:
        assert {row["client_id"] for row in rows} == set(entry["client_ids"])
        assert sum(row["requests"] for row in rows) == sum(entry["client_ids"].values())
        said = {
            f"{r['software']} {r['software_version']}" for r in rows if r["software"] and "ApiVersions" in r["evidence"]
        }
        assert said == set(entry["client_software"])


def test_the_inventory_has_principals_and_what_protects_them() -> None:
    rows = everything("06-sasl-scram.pcap")["inventory"]
    assert {(row["principal"], *row["sasl_mechanisms"]) for row in rows} == {("alice", "SCRAM-SHA-256")}
    assert {tuple(row["tls_versions"]) for row in everything("07-tls13-dsb.pcapng")["inventory"]} == {("TLS 1.3",)}


def test_the_inventory_has_apis_with_their_versions() -> None:
    row = next(r for r in everything("08-old-broker-0.9-format0.pcap")["inventory"] if r["client_id"] == "producer-1")
    assert row["uses"] == ["Produce v1", "Metadata v0"]
    assert (row["software"], row["software_version"], row["inferred"]) == ("apache-kafka-java", "0.9.0", True)


# topics


def check_topics_have_the_records_that_were_produced(entry: dict[str, Any]) -> None:
    rows = [
        r
        for r in everything(entry["file"])["topics"]
        if r["direction"] == "produce" and not r["topic"].startswith("__")
    ]
    known = entry.get("expect", {"records_produced_acked": {}})["records_produced_acked"]
    assert {row["topic"]: row["records"] - row["refused_records"] for row in rows} == known


def test_shape_of_a_topic() -> None:
    """50 records each with zstd, snappy, gzip and none, in two batches each; 104 of the 200 in one of two partitions."""
    row = next(r for r in everything("02-librdkafka-codecs-kip848.pcap")["topics"] if r["direction"] == "produce")
    assert row["codecs"] == ["gzip 2", "none 2", "snappy 2", "zstd 2"]
    assert (row["partitions"], row["busiest_partition"], row["skew"]) == (2, 1, 1.04)
    assert (row["batches"], row["records_per_batch"]) == (8, 25.0)
    assert row["compression_ratio"] > 10


# latency


def check_every_answered_request_has_its_latency(entry: dict[str, Any]) -> None:
    rows, requests = everything(entry["file"])["latency"], everything(entry["file"])["requests"]
    assert sum(row["requests"] for row in rows) == sum(row["answered"] for row in requests)
    longest = max(row["longest_ms"] for row in requests if row["answered"])
    assert max(row["max_ms"] for row in rows) == pytest.approx(longest, abs=0.002)


def check_requests_are_those_of_the_manifest(entry: dict[str, Any]) -> None:
    expected = entry.get("requests_by_api_and_version") or entry["broker_log_requests_by_api_and_version"]
    found = {row["name"]: row["requests"] for row in everything(entry["file"])["requests"]}
    assert {name: found.get(name) for name in expected} == expected


def test_a_fetch_without_records_waits_and_is_not_slow() -> None:
    rows = {(r["api_name"], r["kind"]): r for r in everything("01-java-produce-consume-group.pcap")["latency"]}
    waiting = rows["Fetch", "waiting"]
    assert waiting["requests"] == 3
    assert 1000.0 <= waiting["waited_ms"] < 1500.0  # twice the client's max.wait.ms, and less for the one with records
    assert not {("Produce", "waiting"), ("Fetch", "work")} & rows.keys()


def test_a_request_behind_a_held_fetch_is_not_slow() -> None:
    """librdkafka asks for metadata on the connection on which a Fetch waits, here for up to five seconds."""
    with Database([Path(__file__).parent / "rebalances" / "static.pcap.zst"]) as database:
        rows = database.run(library.load()["latency"], min_for_p99=1).to_pylist()
    asked = [row for row in rows if row["api_name"] == "Metadata"]
    assert max(row["max_ms"] for row in asked if row["kind"] == "waiting") > 4000
    assert max(row["max_ms"] for row in asked if row["kind"] == "work") < 1000
    assert max(row["broker_p99_ms"] for row in asked) < 1000


def test_brokers_that_wait_for_the_metadata_log_are_not_slow() -> None:
    """KRaft's Fetch has min_bytes 0 and is held for up to 500 ms all the same."""
    rows = everything("10-kraft-interbroker.pcap")["latency"]
    assert {row["kind"] for row in rows if row["api_name"] == "Fetch"} == {"waiting"}
    assert rows[0]["api_name"] != "Fetch"


# lag


@pytest.mark.parametrize(
    ("name", "group", "topic"),
    sampled(
        [
            ("01-java-produce-consume-group.pcap", "orders-group", "orders"),
            ("02-librdkafka-codecs-kip848.pcap", "rd-848", "rdtx"),
            ("03-classic-rebalance-range.pcap", "g-range", "rebal"),
            ("06-sasl-scram.pcap", "sec-group", "secure"),
            ("08-old-broker-0.9-format0.pcap", "g09c", "t09c"),
            ("09-old-broker-0.10-format1.pcap", "g10b", "t10b"),
            ("11-lossy-network.pcap", "net_lossy_sender-g", "lossy"),
        ],
        [("01-java-produce-consume-group.pcap", "orders-group", "orders")],
    ),
)
def test_a_group_that_read_everything_has_no_lag_at_the_end(name: str, group: str, topic: str) -> None:
    last = [row for row in everything(name)["lag"] if row["is_last"]]
    assert {(row["group_id"], row["topic"]) for row in last} == {(group, topic)}
    assert {row["lag"] for row in last} == {0}
    entry = next(entry for entry in MANIFEST if entry["file"] == name)
    read = entry["expect"]["records_consumed_by_group_and_topic"][f"{group}/{topic}"]
    assert sum(row["committed_offset"] for row in last) == read  # the topics were new


def test_lag_is_unknown_where_no_end_was_seen() -> None:
    rows = everything("12-midstream-start.pcap")["lag"]
    assert {row["lag"] for row in rows if row["seen"] == "no end seen"} == {None}


def test_verdicts_say_what_their_numbers_count() -> None:
    """A workload set a group to offset 7 of 14; the manifest has 2 client ids, and 10 with those of brokers."""
    words = {}
    for name in ("05-admin.pcap", "10-kraft-interbroker.pcap"):
        with Database([CAPTURES / name]) as database:
            analyses = [library.load()[one] for one in ("map", "inventory", "topics", "lag", "readiness")]
            words |= {(name[:2], one.id): answer(database, one, {}).verdict for one in analyses}
    assert words["05", "lag"] == "1 group; farthest behind: adm-g on adm-a-0, by at least 7 offsets"
    assert words["05", "map"].startswith("9 topics seen; used or administered by 2 client ids. ")
    assert words["05", "topics"].startswith("1 topic with records; ")
    assert words["10", "inventory"].startswith("2 clients and 8 client ids of brokers in all; ")
    assert words["10", "map"].startswith("3 topics seen; used or administered by 2 client ids and 5 of brokers. ")
    assert words["10", "readiness"].endswith(", as far as seen: 2 clients and 3 brokers")


# explain


def test_settings_of_javas_defaults() -> None:
    """As its documentation has them; the assignors are the default of partition.assignment.strategy."""
    name = "01-java-produce-consume-group.pcap"
    producer, consumer = settings(name, "orders-producer"), settings(name, "orders-consumer")
    assert (producer["acks"], producer["enable.idempotence"], producer["compression.type"]) == ("all", "true", "none")
    assert producer["request.timeout.ms"] == "30000"
    assert consumer["session.timeout.ms"] == "45000"
    assert consumer["max.poll.interval.ms"] == "300000"
    assert consumer["fetch.max.bytes"] == "52428800"
    assert consumer["fetch.max.wait.ms (fetch.wait.max.ms)"] == "500"
    assert consumer["partition.assignment.strategy"] == "range, cooperative-sticky"
    assert consumer["isolation.level"] == "read_uncommitted"
    assert consumer["auto.offset.reset"] == "earliest"


def test_settings_that_a_workload_chose() -> None:
    name = "02-librdkafka-codecs-kip848.pcap"
    chosen = {client: settings(name, client) for client in ("rd-zstd", "rd-snappy", "rd-gzip", "rd-none", "rdkafka")}
    assert [chosen[f"rd-{codec}"]["acks"] for codec in ("zstd", "snappy", "gzip", "none")] == ["all", "1", "0", "0"]
    assert [chosen[f"rd-{codec}"]["compression.type"] for codec in ("zstd", "snappy", "gzip")] == [
        "zstd",
        "snappy",
        "gzip",
    ]
    assert chosen["rdkafka"]["group.protocol"] == "consumer"
    assert settings("06-sasl-scram.pcap", "sec-producer")["sasl.mechanism"] == "SCRAM-SHA-256"
    transactional = settings("04-transactions.pcap", "producer-tx-1")
    assert transactional["transactional.id"] == "tx-1"
    assert settings("04-transactions.pcap", "consumer-g-read_committed-1")["isolation.level"] == "read_committed"


def test_a_second_producer_of_the_same_client_id_is_another_producer() -> None:
    (fenced,) = everything("04-transactions.pcap")["producer_fenced"]
    assert (fenced["cause"], fenced["transactional_id"]) == ("another producer", "tx-1")


def test_no_secret_is_a_setting() -> None:
    text = json.dumps(everything("06-sasl-scram.pcap"))
    assert "throwaway" not in text


AGE = "metadata.max.age.ms (topic.metadata.refresh.interval.ms)"


def test_an_interval_holds_what_was_set_and_what_traffic_cannot_show_is_unknown(tmp_path: Path) -> None:
    rows = Rows()
    app, broken = rows.client("app"), rows.client("broken")
    for number in range(12):
        app.ask(number * 3 + number % 3 * 0.05, ApiKey.HEARTBEAT, group_id="g")  # set to 3000, up to 100 ms late
        app.produce(number * 3 + 0.2, "t", count=5)
        broken.ask(number, ApiKey.METADATA)  # after an error, every retry.backoff.max.ms
    found = {(row["client_id"], row["setting"]): row for row in rows.answer(tmp_path, "explain")}
    low, high = (int(end) for end in found["app", "heartbeat.interval.ms"]["value"].split(" to "))
    assert low <= 3_000 <= high <= 2 * low
    assert found["app", "linger.ms"]["certainty"] == "unknown"
    assert not any(setting.startswith("metadata.max.age") for _client, setting in found)


def test_what_a_client_sends_bounds_what_was_set_only_where_it_has_to(tmp_path: Path) -> None:
    rows = Rows()
    polls, alone, small, mixed = (rows.client(name) for name in ("polls", "alone", "small", "mixed"))
    for number in range(12):  # Metadata waits for a Fetch before it, and is due 4 s after its answer
        polls.ask(number * 4.5, ApiKey.METADATA, seconds=0.5)
        alone.produce(number, "t", size=20_000, codec="none")  # a record larger than batch.size
        small.produce(number, "t", count=2, codec="none")  # smaller than it would be compressed
        mixed.produce(number, "t", count=2, size=1_500, codec="none" if number % 3 else "zstd")
    found = {(row["client_id"], row["setting"]): row["value"] for row in rows.answer(tmp_path, "explain")}
    low, high = (int(end) for end in found["polls", AGE].split(" to "))
    assert low <= 4_000 <= high <= 2 * low
    assert (found["alone", "batch.size"], found["small", "batch.size"]) == (None, "200")
    assert [found[client, "compression.type"] for client in ("alone", "small", "mixed")] == ["none", None, "zstd"]


# diff


def test_diff_of_a_client_and_its_newer_version() -> None:
    """aiokafka 0.13 and 0.14 differ in one API of these: 0.14 fetches with v11 (tests/analyses/clients)."""
    pair = [CLIENTS / f"aiokafka-{version}-on-3.9.2.pcap.zst" for version in ("0.13.0", "0.14.0")]
    with Database(pair, compare=True) as database:
        rows = database.run(library.load()["diff"]).to_pylist()
    versions = {
        (r["client_id"], r["api_name"], r["before_text"], r["after_text"]) for r in rows if r["aspect"] == "version"
    }
    assert versions == set()  # what fetches has another client id, for its version is in it
    clients = {(row["client_id"], row["change_kind"]) for row in rows if row["aspect"] == "client"}
    assert clients == {("aiokafka-0.13.0", "lost"), ("aiokafka-0.14.0", "new")}


def test_diff_of_versions() -> None:
    pair = [CLIENTS / f"librdkafka-{version}-on-3.9.2.pcap.zst" for version in ("2.0.2", "2.6.1")]
    with Database(pair, compare=True) as database:
        rows = database.run(library.load()["diff"]).to_pylist()
    changed = {r["api_name"]: (r["before_text"], r["after_text"]) for r in rows if r["aspect"] == "version"}
    assert changed == {  # client_versions.txt
        "Produce": ("v7", "v10"),
        "Fetch": ("v11", "v16"),
        "ListOffsets": ("v2", "v7"),
        "Metadata": ("v4", "v12"),
        "OffsetCommit": ("v7", "v9"),
        "OffsetFetch": ("v7", "v9"),
    }
    software = next(row for row in rows if row["aspect"] == "software")
    assert software["words"] == (
        "rdkafka was confluent-kafka-python 2.0.2-rdkafka-2.0.2, is confluent-kafka-python 2.6.1-rdkafka-2.6.1"
    )


def test_significance_is_that_of_scipy(tmp_path: Path) -> None:
    """scipy 1.16: mannwhitneyu(after, before, method="asymptotic", use_continuity=False); two proportions from norm.sf."""
    rows = Rows()
    client = rows.client("app")
    for i in range(40):
        client.ask(i, ApiKey.METADATA, seconds=(10 + i % 7) / 1000, error_codes=[5] if i < 2 else [])
    for i in range(30):
        client.ask(100 + i, ApiKey.METADATA, seconds=(12 + i % 9) / 1000, error_codes=[5] if i < 9 else [])
    found = {row["aspect"]: row for row in rows.answer(tmp_path, "diff")}
    latency, errors, size = found["latency"], found["errors"], found["size"]
    assert (latency["p"], latency["superiority"]) == (round(4.395317503995671e-05, 4), 0.785)
    assert (latency["before_value"], latency["after_value"], latency["is_significant"]) == (
        13.0,
        15.5,
        True,
    )  # statistics.median
    assert (errors["z"], errors["p"]) == (2.84, 0.0045)
    assert (errors["before_value"], errors["after_value"]) == (0.05, 0.3)
    assert (size["z"], size["p"], size["is_significant"]) == (0.0, 1.0, False)
    assert found["rate"]["is_significant"] is False


def test_diff_takes_no_long_poll_for_latency(tmp_path: Path) -> None:
    """A consumer that reads at once, and later waits for the few records that come: the broker is not slower."""
    rows = Rows()
    consumer = rows.client("app")
    for n in range(60):
        waits = n >= 30
        consumer.fetch(
            n, "t", n, count=1 if waits else 1_000, seconds=0.4 if waits else 0.003, max_wait_ms=500, min_bytes=1,
            size=200 if waits else 100_000,
        )  # fmt: skip
    found = rows.answer(tmp_path, "diff")
    assert [row["aspect"] for row in found if row["aspect"] == "latency"] == []
    assert [row["change_kind"] for row in found if row["aspect"] == "size"] == ["same"]  # it was compared


def test_a_brokers_part_is_without_the_time_in_kproxy(tmp_path: Path) -> None:
    """In the log of a running kproxy: 30 ms from first byte to last, of which a filter took 20."""
    rows = Rows()
    for client_id, parts in (
        ("logged", {"request_in_proxy_ms": 20.0, "broker_ms": 9.5, "response_in_proxy_ms": 0.5}),
        ("seen", {}),
    ):
        rows.client(client_id).ask(0, ApiKey.PRODUCE, seconds=0.03, **parts)
    found = {row["client_id"]: row for row in rows.answer(tmp_path, "latency", min_for_p99=1)}
    told = {name: (row["p99_ms"], row["broker_p99_ms"], row["proxy_ms"]) for name, row in found.items()}
    assert told == {"logged": (30.0, 9.5, 20.5), "seen": (30.0, 30.0, None)}


def test_lag_grows_with_what_others_show_of_the_end(tmp_path: Path) -> None:
    """A group commits 50; a Fetch of another client shows 80; the group commits 80."""
    rows = Rows()
    group, other = rows.client("group"), rows.client("other")
    group.commit(0, "g", "t", 50)
    other.fetch(5, "t", 0, end=80)
    group.commit(9, "g", "t", 80)
    found = rows.answer(tmp_path, "lag")
    assert [(row["committed_offset"], row["end_offset"], row["lag"], row["since_commit_ms"]) for row in found] == [
        (80, 80, 0, 0),
        (50, 80, 30, 5000),
        (50, None, None, 0),
    ]


@pytest.mark.parametrize(("days", "name"), [(1, "tuesday"), (7, "monday")])
def test_rates_are_over_the_time_that_was_captured(tmp_path: Path, days: int, name: str) -> None:
    """Two captures of ten seconds, days apart, be they named alike or not; a third, of another broker, beside the first: 40
    records in 20 s."""
    rows = Rows()
    for begin, capture, port in ((0, "monday", 9092), (5, "the other broker", 9093), (days * 86_400, name, 9092)):
        client = rows.client("app", capture=capture, broker_port=port)
        client.ask(begin, ApiKey.METADATA, seconds=0, cluster_id="abc")
        client.produce(begin, "t", count=20 if port == 9092 else 0)
        client.ask(begin + (10 if port == 9092 else 5), ApiKey.METADATA, seconds=0)
    with Database([rows.write(tmp_path / "tables")]) as database:
        for question in ("map", "topics"):
            (row,) = (row for row in database.run(library.load()[question]).to_pylist() if row["topic"] == "t")
            assert (row["records"], row["records_per_second"]) == (40, 2.0), question


class Partition:
    """Partition t-0: what a producer, a consumer and its group show of it."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.producer, self.consumer = self.rows.client("producer"), self.rows.client("consumer")

    def append(self, at: float, offset: int, count: int = 1, *, seconds: float = 0.002, **batch: Any) -> None:
        exchange = self.producer.ask(at, ApiKey.PRODUCE, seconds=seconds, topics=["t"])
        where = {"direction": "produce", "topic": "t", "partition": 0, "appended_offset": offset, "count": count}
        self.rows.add(
            "record_batches",
            connection_id=self.producer.id, exchange=exchange, seen_at=moment(at), error_code=0, size=100, **{**where, **batch},
        )  # fmt: skip

    def fetch(self, at: float, end: int, **offsets: Any) -> None:
        self.consumer.fetch(at, "t", None, end=end)
        self.rows.tables["offsets"][-1].update(offsets)

    def last_lags(self, folder: Path) -> dict[str, tuple[Any, ...]]:
        """Group -> committed offset, end and lag of its last row."""
        found = self.rows.answer(folder, "lag")
        last = [row for row in found if row["is_last"]]
        assert len({row["group_id"] for row in found}) == len(last)
        return {row["group_id"]: (row["committed_offset"], row["end_offset"], row["lag"]) for row in last}


def test_a_topic_that_was_deleted_and_created_again_begins_anew(tmp_path: Path) -> None:
    t = Partition()
    t.append(1, 90, 10)
    t.consumer.commit(2, "g", "t", 100)
    t.consumer.commit(2.1, "idle", "t", 60)
    t.producer.ask(3, ApiKey.DELETE_TOPICS, topics=["t"])
    t.append(4, 0, 5)
    t.consumer.commit(5, "g", "t", 3)
    assert t.last_lags(tmp_path) == {"g": (3, 5, 2), "idle": (60, 100, 40)}  # not 97, and of idle what it was before


@pytest.mark.slow
def test_lag_has_a_bounded_number_of_rows_where_nothing_else_is_asked_for(tmp_path: Path) -> None:
    """Twenty partitions of which each has a commit a second for half an hour."""
    t = Partition()
    for second in range(1800):
        for partition in range(20):
            t.consumer.commit(second + partition / 100, "g", "t", second, partition)
    t.producer.ask(1800, ApiKey.METADATA)
    with Database([t.rows.write(tmp_path / "tables")]) as database:
        lag = library.load()["lag"]
        bounded, asked = database.run(lag).to_pylist(), database.run(lag, bucket_ms=1000).num_rows
    assert asked == 36_000
    assert 10_000 <= len(bounded) <= 20_000 + 2 * 20
    assert [(row["partition"], row["committed_offset"]) for row in bounded if row["is_last"]] == [
        (partition, 1799) for partition in range(20)
    ]


def test_an_answer_to_offset_fetch_is_no_commit(tmp_path: Path) -> None:
    """What a group committed before the capture is known from OffsetFetch; when it did so is not."""
    t = Partition()
    t.append(1, 99)
    for client in ("g", "h"):
        t.consumer.commit(2, client, "t", 40)
        t.rows.tables["offsets"][-1]["kind"] = "committed"
    t.consumer.commit(5, "h", "t", 60)
    t.append(8, 100)
    found = t.rows.answer(tmp_path, "lag")
    last = {row["group_id"]: (row["lag"], row["since_commit_ms"]) for row in found if row["is_last"]}
    assert last == {"g": (61, None), "h": (41, 3000)}


@pytest.mark.parametrize(
    ("ends", "committed"),
    [
        pytest.param(((4, True),), 70, marks=pytest.mark.slow),
        pytest.param(((4, False),), 30, marks=pytest.mark.slow),  # aborted
        (((4, False), (6, True)), 30),  # the end of the next transaction is not that of this one
        pytest.param(((1, True),), 30, marks=pytest.mark.slow),  # open still
        ((), 70),  # its coordinator was not captured
    ],
)
def test_what_a_transaction_commits_counts_when_it_is_committed(
    tmp_path: Path, ends: tuple[tuple[float, bool], ...], committed: int
) -> None:
    t = Partition()
    t.append(0, 99)
    t.consumer.commit(0.5, "g", "t", 30)
    t.consumer.commit(3, "g", "t", 70)
    t.rows.tables["exchanges"][-1] |= {"api_key": int(ApiKey.TXN_OFFSET_COMMIT), "producer_id": 7}
    for at, is_commit in ends:
        t.producer.ask(at, ApiKey.END_TXN, producer_id=7, committed=is_commit)
    t.producer.ask(9, ApiKey.METADATA)
    assert t.last_lags(tmp_path) == {"g": (committed, 100, 100 - committed)}


def test_what_a_transaction_commits_that_was_not_ended_does_not_count(tmp_path: Path) -> None:
    """Its coordinator was captured until the end, and shows nothing but how it began."""
    t = Partition()
    t.append(0, 99)
    t.consumer.commit(0.5, "g", "t", 30)
    t.producer.ask(2, ApiKey.ADD_OFFSETS_TO_TXN, producer_id=7)
    t.consumer.commit(3, "g", "t", 70)
    t.rows.tables["exchanges"][-1] |= {"api_key": int(ApiKey.TXN_OFFSET_COMMIT), "producer_id": 7}
    t.producer.ask(9, ApiKey.METADATA)
    assert t.last_lags(tmp_path) == {"g": (30, 100, 70)}


def test_what_transactions_commit_counts_at_once_after_the_capture_of_their_coordinator(tmp_path: Path) -> None:
    """The first is committed where that is seen; of the second only what the group's coordinator was told; then one is aborted,
    in the next capture of the transactions' coordinator."""
    t = Partition()
    t.append(0, 99)
    for second, offset in ((3, 30), (1000, 70)):
        t.consumer.commit(second, "g", "t", offset)
        t.rows.tables["exchanges"][-1] |= {"api_key": int(ApiKey.TXN_OFFSET_COMMIT), "producer_id": 7}
    for day, is_committed in ((0, True), (1, False)):
        coordinator = t.rows.client("producer", broker_port=9093, capture=f"of day {day}")
        coordinator.ask(day * 86_400 + 1, ApiKey.INIT_PRODUCER_ID, producer_id=7, cluster_id="abc")
        coordinator.ask(day * 86_400 + 4, ApiKey.END_TXN, producer_id=7, committed=is_committed)
    t.producer.ask(2000, ApiKey.METADATA, cluster_id="abc")
    assert t.last_lags(tmp_path) == {"g": (70, 100, 30)}


@pytest.mark.parametrize("ids", [("AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"), (None, None)])
def test_another_topic_id_or_offsets_that_go_back_show_it_as_well(tmp_path: Path, ids: tuple[str | None, ...]) -> None:
    t = Partition()
    t.fetch(1, 100, topic_id=ids[0])
    t.consumer.commit(2, "g", "t", 100)
    t.fetch(10, 5, topic_id=ids[1])
    t.consumer.commit(11, "g", "t", 3)
    t.fetch(12, 6, topic_id=ids[1])
    assert t.last_lags(tmp_path) == {"g": (3, 6, 3)}


def test_an_append_below_a_known_end_shows_it(tmp_path: Path) -> None:
    t = Partition()
    t.append(1, 99)
    t.consumer.commit(2, "g", "t", 50)
    t.append(5, 0, 7)
    t.consumer.commit(6, "g", "t", 3)
    assert t.last_lags(tmp_path) == {"g": (3, 7, 4)}


def test_what_comes_late_does_not_begin_anew(tmp_path: Path) -> None:
    """A slow answer to a produce, a follower's high watermark, and the end of a part of an answer: the log goes on."""
    t = Partition()
    t.append(1, 10, seconds=8)  # answered when 99 was long known
    t.append(2, 98)
    t.fetch(3, 99)
    t.consumer.commit(4, "g", "t", 50)
    t.rows.client("reads from a follower").fetch(5, "t", None, end=80)
    assert t.last_lags(tmp_path) == {"g": (50, 99, 49)}


def test_one_partition_that_was_cut_off_says_nothing_of_others(tmp_path: Path) -> None:
    t = Partition()
    for partition in (0, 1):
        t.append(1, 99, partition=partition)
        t.consumer.commit(2, "g", "t", 90, partition)
    t.append(5, 40, partition=1)
    t.consumer.commit(6, "g", "t", 41, 1)
    rows = t.rows.answer(tmp_path, "lag")
    assert sorted((row["partition"], row["lag"]) for row in rows if row["is_last"]) == [(0, 10), (1, 0)]


def test_the_verdict_names_no_percentile_of_few_requests(tmp_path: Path) -> None:
    rows = Rows()
    rows.client("once").ask(0, ApiKey.PRODUCE, seconds=9)
    often = rows.client("often")
    for n in range(150):
        often.ask(n, ApiKey.PRODUCE, seconds=0.004)
    with Database([rows.write(tmp_path / "tables")]) as database:
        latency = library.load()["latency"]
        verdicts = [verdict_of(latency, database.run(latency, min_for_p99=least)) for least in (1, 9, 100, 150, 151)]
        rows_of_default = database.run(latency).to_pylist()
    of_one, *of_often, of_none = (verdict.partition("; ")[2] for verdict in verdicts)
    assert of_one == "slowest: Produce of once, 99th percentile 9,000 ms of 1 request"
    assert set(of_often) == {"slowest: Produce of often, 99th percentile 4 ms of 150 requests"}
    assert of_none == "slowest: Produce of once, up to 9,000 ms in 1 request, too few for a 99th percentile"
    percentiles = {row["client_id"]: (row["p99_ms"], row["broker_p99_ms"]) for row in rows_of_default}
    assert percentiles == {"once": (None, None), "often": (4.0, 4.0)}


def test_the_verdict_names_applications_before_brokers(tmp_path: Path) -> None:
    rows = Rows()
    rows.client("broker-1-txn-marker-sender").ask(0, ApiKey.WRITE_TXN_MARKERS, seconds=9)
    of_brokers = slowest(rows.write(tmp_path / "brokers"))
    rows.client("app").ask(1, ApiKey.PRODUCE, seconds=0.004)
    assert of_brokers.startswith("WriteTxnMarkers of broker-1-txn-marker-sender, a broker, up to 9,000 ms in 1 request")
    for least in (1, 100):
        assert slowest(rows.write(tmp_path / f"both-{least}"), least).startswith("Produce of app, ")


def slowest(tables: Path, least: int = 100) -> str:
    with Database([tables]) as database:
        latency = library.load()["latency"]
        return verdict_of(latency, database.run(latency, min_for_p99=least)).partition("; slowest: ")[2]


@pytest.mark.slow
def test_numbers_of_an_attacker_break_no_analysis(tmp_path: Path) -> None:
    """Least and greatest values of their columns, which 32 or 64 bits do not hold after a sum or a product."""
    rows = Rows()
    version = "9223372036854775807.9223372036854775807.1-ccs"
    client = rows.client("app", client_software_name="apache-kafka-java", client_software_version=version)
    client.ask(0, ApiKey.API_VERSIONS, offered_versions=["32767:-32768-32767"])
    client.ask(
        1,
        ApiKey.FETCH,
        api_version=32767,
        max_wait_ms=2**31 - 1,
        min_bytes=2**31 - 1,
        max_bytes=2**31 - 1,
        throttle_time_ms=2**31 - 1,
    )
    exchange = client.produce(2, "t", -(2**31), count=2**31 - 1)
    rows.tables["record_batches"][-1] |= {"appended_offset": 2**63 - 2, "error_code": 0, "count": 2**31 - 1}
    member = {"member_id": "m", "generation": 2**31 - 1}
    client.group(3, "join", "g", response_generation=2**31 - 1, session_timeout_ms=2**31 - 1, **member)
    client.group(4, "leave", "g", api=ApiKey.LEAVE_GROUP, **member)  # the coordinator counts one more
    for at, kind, offset in ((3, "commit", 2**63 - 1), (4, "fetch", 0), (5, "commit", 0)):
        rows.add(
            "offsets",
            connection_id=client.id,
            exchange=exchange,
            seen_at=moment(at),
            kind=kind,
            group_id="g",
            topic="t",
            partition=-(2**31),
            partition_offset=offset,
            high_watermark=2**63 - 1 if kind == "fetch" else None,
        )
    with Database([rows.write(tmp_path / "tables")]) as database:
        for name in ("map", "inventory", "topics", "latency", "lag", "explain", "diff", "readiness", "rebalances"):
            assert database.run(library.load()[name]).num_rows >= (0 if name == "diff" else 1), name


# All of them over every capture: in one test each, so that a capture is decoded once

CHECKS = (
    check_the_map_has_the_records_that_were_produced,
    check_the_map_has_the_records_that_groups_read,
    check_brokers_are_never_called_consumers,
    check_the_inventory_has_every_client_id_and_software,
    check_topics_have_the_records_that_were_produced,
    check_every_answered_request_has_its_latency,
    check_requests_are_those_of_the_manifest,
)


@ENTRIES
def test_a_capture_is_what_its_manifest_says(entry: dict[str, Any]) -> None:
    for check in CHECKS:
        check(entry)
