"""Each capture's own line in captures/README.md: "what a reader should find", found in what `kproxy decode` prints."""

import functools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.secrets_block import without_secrets

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
MANIFEST = {
    entry["file"][:2]: entry
    for entry in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines())
}
Row = dict[str, Any]

# Exceptions of the Java client whose names are not those of Kafka's error codes
JAVA_NAMES = {
    "TopicExistsException": "TOPIC_ALREADY_EXISTS",
    "InvalidConfigurationException": "INVALID_CONFIG",
    "NoReassignmentInProgressException": "NO_REASSIGNMENT_IN_PROGRESS",
    "TimeoutException": "REQUEST_TIMED_OUT",
    "UnsupportedByAuthenticationException": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
}


def decode(path: Path, *options: str) -> list[Row]:
    command = [
        sys.executable,
        "-c",
        "from kproxy.cli import main; main()",
        "decode",
        "--format",
        "jsonl",
        "-q",
        *options,
        str(path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


@functools.cache
def lines(number: str) -> list[Row]:
    return decode(CAPTURES / MANIFEST[number]["file"])


def exchanges(number: str, *apis: str) -> list[Row]:
    return [row for row in lines(number) if row["event"] == "exchange" and (not apis or row["apiName"] in apis)]


def records(number: str, api: str, topic: str) -> Iterator[tuple[Row, Row]]:
    """(exchange, one partition's records), of Produce requests or Fetch responses."""
    for row in exchanges(number, api):
        for one in row["embedded"]:
            if one["kind"] == "records" and one["json"]["topic"] == topic:
                yield row, one["json"]


def produced(number: str, topic: str) -> int:
    return sum(part["count"] for _, part in records(number, "Produce", topic))


def offsets(parts: list[Row]) -> list[tuple[int, int]]:
    """(partition, offset) of every record that is not a marker, in the order read, repetitions and all."""
    return [
        (part["partition"], offset)
        for part in parts
        for batch in part["batches"]
        if not batch.get("isControl")
        for offset in range(batch["baseOffset"], batch["lastOffset"] + 1)
    ]


def read_once(number: str, topic: str) -> int:
    """How many records the consumers of a topic fetched; none twice."""
    found = offsets([part for _, part in records(number, "Fetch", topic)])
    assert len(found) == len(set(found))
    return len(found)


def inner_offsets(number: str, topic: str) -> set[tuple[int, int]]:
    """(partition, absolute offset) of the 320 records fetched, those inside wrapper messages included; none twice."""
    found = [
        (one["json"]["partition"], record["offset"])
        for row in decode(CAPTURES / MANIFEST[number]["file"], "--records")
        if row["event"] == "exchange" and row["apiName"] == "Fetch"
        for one in row["embedded"]
        if one["json"]["topic"] == topic
        for record in one["json"]["records"]
    ]
    assert len(found) == 320
    return set(found)


def errors(number: str) -> Counter[str]:
    return Counter(f"{row['apiKey']}:{error['code']}" for row in exchanges(number) for error in row["errors"])


def groups(number: str) -> set[str]:
    named = exchanges(number, "JoinGroup", "ConsumerGroupHeartbeat", "OffsetCommit")
    return {row["request"]["groupId"] for row in named}


def by_codec(number: str, topic: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, part in records(number, "Produce", topic):
        (codec,) = {batch["compression"] for batch in part["batches"]}
        found[codec] += part["count"]
    return found


def kafka_name(exception: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", exception.removesuffix("Exception"))
    return JAVA_NAMES.get(exception, words.upper())


def test_01_java_produce_consume_group() -> None:
    assert produced("01", "orders") == read_once("01", "orders") == 200
    assert {part["partition"] for _, part in records("01", "Produce", "orders")} == {0, 1, 2}
    assert groups("01") == {"orders-group"}
    assert {row["broker"].rpartition(":")[2] for row in exchanges("01")} == {"9092"}
    assert set(errors("01")) == set(MANIFEST["01"]["error_codes_in_responses"])


def test_02_librdkafka_codecs_kip848() -> None:
    assert by_codec("02", "rdtx") == {"zstd": 50, "snappy": 50, "gzip": 50, "none": 50}
    sent = {
        (part["batches"][0]["compression"], row["request"]["acks"]) for row, part in records("02", "Produce", "rdtx")
    }
    assert sent == {("zstd", -1), ("snappy", 1), ("gzip", 0), ("none", 0)}
    for row in exchanges("02", "Produce"):
        assert row["expectsResponse"] is (row["request"]["acks"] != 0)
        assert (row["response"] is None) is (row["request"]["acks"] == 0)
        assert row["unanswered"] is None
    assert {row["request"]["groupId"] for row in exchanges("02", "ConsumerGroupHeartbeat")} == {"rd-848"}
    assert read_once("02", "rdtx") == 200


def test_03_classic_rebalance_range() -> None:
    synced = exchanges("03", "SyncGroup")
    assert {row["request"]["generationId"] for row in synced} == {1, 2, 3, 4}
    assert {row["response"]["protocolName"] for row in synced if not row["errors"]} == {"range"}
    assert groups("03") == {"g-range"}
    assert read_once("03", "rebal") == 600
    assert {part["partition"] for _, part in records("03", "Fetch", "rebal")} == set(range(6))
    members = {row["response"]["memberId"] for row in exchanges("03", "JoinGroup")}
    assert len(members) == 3
    assert {row["request"]["memberId"] for row in synced} == members


def committed(number: str, topic: str, isolation: int) -> tuple[int, int]:
    """(records fetched, those of them that no aborted transaction of the Fetch responses holds)."""
    data, aborted = [], set()
    for row, part in records(number, "Fetch", topic):
        if row["request"]["isolationLevel"] != isolation:
            continue
        data += offsets([part])
        ends = [r["offset"] for r in part.get("records", []) if r["control"]["type"] == "ABORT"]
        for response in row["response"]["responses"]:
            for told in response["partitions"]:
                if told["partitionIndex"] == part["partition"]:
                    for one in told["abortedTransactions"] or []:
                        end = min(offset for offset in ends if offset > one["firstOffset"])
                        aborted |= {(part["partition"], offset) for offset in range(one["firstOffset"], end)}
    return len(data), len(set(data) - aborted)


def test_04_transactions() -> None:
    ids = {row["request"]["transactionalId"] for row in exchanges("04", "InitProducerId", "EndTxn", "Produce")}
    assert ids == {"tx-1"}
    ended = Counter(row["request"]["committed"] for row in exchanges("04", "EndTxn") if not row["errors"])
    assert ended == {True: 3, False: 2}
    assert committed("04", "tx", 0) == (50, 50)
    assert committed("04", "tx", 1) == (50, 30)
    fenced = [row for row in exchanges("04", "Produce") if row["errors"]]
    assert [error["name"] for row in fenced for error in row["errors"]] == ["INVALID_PRODUCER_EPOCH"]
    assert set(MANIFEST["04"]["error_codes_in_responses"]) <= set(errors("04"))


def test_05_admin() -> None:
    told = MANIFEST["05"]["workload_report"][0]
    assert (told["succeeded"], len(told["failed"])) == (43, 18)
    assert set(errors("05")) == set(MANIFEST["05"]["error_codes_in_responses"])
    names = {error["name"] for row in exchanges("05") for error in row["errors"]}
    assert {kafka_name(exception) for exception in told["failed"].values()} <= names


def test_06_sasl_scram() -> None:
    connections = {row["connection"] for row in exchanges("06")}
    handshakes = exchanges("06", "SaslHandshake")
    assert [row["connection"] for row in handshakes] == sorted(connections)
    assert {(row["apiVersion"], row["request"]["mechanism"]) for row in handshakes} == {(1, "SCRAM-SHA-256")}
    users = [
        (row["connection"], one["json"]["username"])
        for row in exchanges("06", "SaslAuthenticate")
        for one in row["embedded"]
        if one["json"].get("username")
    ]
    assert sorted(users) == [(connection, "alice") for connection in sorted(connections)]
    assert produced("06", "secure") == read_once("06", "secure") == 50
    assert groups("06") == {"sec-group"}


def test_07_tls13_dsb(tmp_path: Path) -> None:
    assert produced("07", "tls") == read_once("07", "tls") == 60
    assert groups("07") == {"tls-group"}
    bare = tmp_path / "without-secrets.pcapng"
    bare.write_bytes(without_secrets((CAPTURES / MANIFEST["07"]["file"]).read_bytes())[0])
    seen = [(row["event"], row["kind"], row["tls"]["version"], row["tls"]["decrypted"]) for row in decode(bare)]
    assert seen == [("notKafka", "tls", "TLS 1.3", False)] * MANIFEST["07"]["transport"]["connections"]


def test_08_old_broker_format0() -> None:
    batches = [b for api in ("Produce", "Fetch") for _, part in records("08", api, "t09c") for b in part["batches"]]
    assert {(batch["magic"], batch["timestampType"]) for batch in batches} == {(0, "NoTimestampType")}
    assert by_codec("08", "t09c") == {"none": 80, "gzip": 80, "snappy": 80, "lz4": 80}
    assert inner_offsets("08", "t09c") == {(0, n) for n in range(196)} | {(1, n) for n in range(124)}
    assert groups("08") == {"g09c"}
    assert exchanges("08", "ApiVersions") == []


def test_09_old_broker_format1() -> None:
    batches = [b for api in ("Produce", "Fetch") for _, part in records("09", api, "t10b") for b in part["batches"]]
    assert {(batch["magic"], batch["timestampType"]) for batch in batches} == {(1, "CreateTime")}
    assert by_codec("09", "t10b") == {"none": 80, "gzip": 80, "snappy": 80, "lz4": 80}
    assert inner_offsets("09", "t10b") == {(0, n) for n in range(196)} | {(1, n) for n in range(124)}
    assert {row["apiVersion"] for row in exchanges("09", "ApiVersions")} == {0}


def test_10_kraft_interbroker() -> None:
    ports = {int(row["broker"].rpartition(":")[2]) for row in exchanges("10")}
    assert ports <= {21101, 21102, 21103, 21111, 21112, 21113}
    assert len(exchanges("10", "BrokerHeartbeat")) == MANIFEST["10"]["requests_by_api_and_version"]["63 v2"]
    (envelope,) = exchanges("10", "Envelope")
    forwarded = [one["json"] for one in envelope["embedded"] if "message" in one["json"]]
    assert "CreateTopicsRequest" in {one["message"] for one in forwarded}
    readers = {row["clientId"] for row, _ in records("10", "Fetch", "__cluster_metadata")}
    assert readers == {"raft-client-1", "raft-client-3"}
    assert produced("10", "rep") == 300
    copied = [part for row, part in records("10", "Fetch", "rep") if "fetcher" in row["clientId"]]
    assert sum(part["count"] for part in copied) == 2 * 300  # replication 3: two followers


def test_11_lossy_network() -> None:
    assert MANIFEST["11"]["transport"]["retransmitted"] == 43
    assert {row["event"] for row in lines("11")} == {"exchange"}
    assert produced("11", "lossy") == read_once("11", "lossy") == 200
    numbers = Counter((row["connection"], row["correlationId"]) for row in exchanges("11"))
    assert set(numbers.values()) == {1}


def test_12_midstream_start() -> None:
    known = MANIFEST["12"]
    rows = exchanges("12")
    assert Counter(f"{row['apiKey']} v{row['apiVersion']}" for row in rows) == known["requests_by_api_and_version"]
    assert Counter(row["clientId"] for row in rows) == known["client_ids"]
    assert len(rows) == 88
    assert len({row["connection"] for row in rows}) <= known["transport"]["connections"]
    assert not [row for row in rows if row["undecoded"]]
