"""Groups that are not of consumers: Kafka Connect's workers, and others.

groups/connect.pcapng.zst is of two workers of Kafka 4.3.1 behind `kproxy run`. worker-1 begins alone, and is given a connector
that reads a file of LINES lines into a topic and one that writes the topic to another file; then worker-2 comes, takes over one
of the two tasks, and is stopped by SIGTERM, after which worker-1 has both again.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.cli import main
from tests.support.group_traffic import GroupTraffic

CAPTURE = Path(__file__).parent / "groups" / "connect.pcapng.zst"
WORKERS = "worker-1", "worker-2"
GROUP, TOPIC, LINES = "connect-cluster", "lines", 50
CONNECTORS = ("file-source", "file-sink")


@cache
def rows(analysis: str) -> list[dict[str, Any]]:
    """Of the capture."""
    return rows_of(CAPTURE, analysis)


def rows_of(capture: Path, analysis: str) -> list[dict[str, Any]]:
    with Database([capture]) as database:
        found: list[dict[str, Any]] = database.run(library.load()[analysis]).to_pylist()
    return found


def check_what_workers_did(found: list[dict[str, Any]]) -> None:
    """worker-1 began alone; worker-2 came, and left; worker-1 left. In between the leader asked, as connectors and tasks came."""
    timeline = [row for row in found if row["group_id"] == GROUP]
    told = [(row["cause"], row["client_id"], row["members_after"]) for row in timeline]
    assert [each for each in told if each[0] != "asked for by the application"] == [
        ("joined", "worker-1", 1), ("joined", "worker-2", 2), ("left", "worker-2", 1), ("left", "worker-1", 0),
    ]  # fmt: skip
    assert {(each[1]) for each in told if each[0] == "asked for by the application"} == {"worker-1"}
    assert {row["protocol"] for row in timeline if row["generation_to"] is not None} == {"sessioned"}  # KIP-507
    assert {(row["moved"], row["added"], row["pause_ms"]) for row in timeline} == {(0, 0, None)}  # they consume nothing


def test_what_made_workers_rebalance() -> None:
    check_what_workers_did(rows("rebalances"))


def test_the_map_has_workers_and_what_their_connectors_move() -> None:
    found = {(row["client_id"], row["direction"], row["topic"]): row for row in rows("map")}
    for worker in WORKERS:
        assert found[worker, "join", None]["groups"] == [GROUP]
    written = found["connector-producer-file-source-0", "produce", TOPIC]
    read = found["connector-consumer-file-sink-0", "fetch", TOPIC]
    assert (written["records"], read["records"], read["groups"]) == (
        LINES,
        LINES,
        ["connect-file-sink"],
    )
    kept = {row["topic"] for row in rows("map") if (row["client_id"] or "").startswith("connect-cluster-worker-1-")}
    assert kept - {None} == {"connect-config", "connect-offset", "connect-status"}


def test_the_inventory_has_workers_as_clients() -> None:
    found = {row["client_id"]: row for row in rows("inventory")}
    for worker in WORKERS:
        assert (found[worker]["role"], found[worker]["software"], found[worker]["software_version"]) == (
            "client", "apache-kafka-java", "4.3.1",
        )  # fmt: skip
        assert "JoinGroup v9" in found[worker]["uses"]


def test_no_finding_takes_workers_for_consumers() -> None:
    with Database([CAPTURE]) as database:
        for analysis in library.load().values():
            if analysis.is_finding and analysis.header.default:
                found = database.run(analysis).to_pylist()
                assert [row for row in found if row.get("group_id") == GROUP or row["client_id"] in WORKERS] == []


def test_what_workers_tell_each_other_is_decoded(tmp_path: Path) -> None:
    written = tmp_path / "shown.txt"
    with pytest.raises(SystemExit, match="0"):
        main(["decode", "-v", "--quiet", "--where", 'apiName == "SyncGroup"', "-o", str(written), str(CAPTURE)])
    shown = written.read_text(encoding="utf-8")
    for name in CONNECTORS:
        assert f"connectors: [{name}]" in shown


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[tuple[GroupTraffic, Path]]:
    """Schema Registry elects a primary by a group of protocol type sr."""
    traffic = GroupTraffic("schema-registry", protocol_type="sr")
    traffic.round(1, 1, "m1")
    traffic.round(5, 2, "m1", "m2")
    traffic.leave(20, "m1")
    traffic.round(21, 3, "m2")
    yield traffic, tmp_path


def test_schema_registry_is_told_likewise(registry: tuple[GroupTraffic, Path]) -> None:
    traffic, folder = registry
    found = traffic.rows(folder, "rebalances")
    assert [(row["cause"], row["client_id"], row["members_after"]) for row in found] == [
        ("joined", "app-1", 1), ("joined", "app-2", 2), ("left", "app-1", 1),
    ]  # fmt: skip


def test_schema_registry_is_on_the_map(registry: tuple[GroupTraffic, Path]) -> None:
    traffic, folder = registry
    found = [row for row in traffic.rows(folder, "map") if row["direction"] == "join"]
    assert [(row["client_id"], row["groups"], row["topic"]) for row in found] == [
        ("app-1", ["schema-registry"], None), ("app-2", ["schema-registry"], None),
    ]  # fmt: skip
