"""Causes of rebalances: groups of real clients that were disturbed on purpose, and the groups of the shared captures.

tests/analyses/rebalances has a capture for each disturbance, and in done.json when it was done (Unix time). In each there is a
group of three members for each kind of client, named after the kind; a topic of six partitions for each, and client ids that are
the group's name and a number. What the name of the capture says was done to the last member (``pause``: it did not poll for
longer than max.poll.interval.ms; ``rolling``: to one after the other; ``cut``: its network was frozen; ``coordinator``: to the
broker; ``partitions``: three were added to the topic). ``newer-`` are share and streams groups.

Groups that are not of consumers: Kafka Connect's workers, and others.

groups/connect.pcapng.zst is of two workers of Kafka 4.3.1 behind `kproxy run`. worker-1 begins alone, and is given a connector
that reads a file of LINES lines into a topic and one that writes the topic to another file; then worker-2 comes, takes over one
of the two tasks, and is stopped by SIGTERM, after which worker-1 has both again.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.cli import main
from tests.support.corpus import CAPTURES
from tests.support.group_traffic import GroupTraffic
from tests.support.sampled import sampled
from tests.support.tables import MANIFEST

pytestmark = pytest.mark.xdist_group("rebalances")  # one process reads each capture once
RECORDED = Path(__file__).parent / "rebalances"
DONE: dict[str, float] = json.loads((RECORDED / "done.json").read_text(encoding="utf-8"))
BEFORE = {
    "joined",
    "follow-up",
    "metadata change",
    "joined again",
}  # kafka-python's leader joins again when it first knows its partitions
LAST = 2  # number of the last member
CAUSES = {  # disturbance -> cause, and the number of the member that is named
    "kill": ("session timeout", LAST),
    "sigterm": ("left", LAST),
    "pause": ("poll timeout", LAST),
    "rolling": ("deployment", 0),
    "partitions": ("metadata change", None),
    "static": ("static member back", LAST),
    "cut": ("session timeout", LAST),
    "coordinator": ("coordinator moved", None),
}
AFTERWARDS = {  # what follows by itself
    "pause": {"joined"},
    "rolling": {"deployment"},
    "cut": {"joined"},
}
GROUPS = [
    *("java-classic.3", "java-cooperative.2", "java-consumer.1"),
    *("librdkafka-classic.2", "librdkafka-consumer.2", "kafka-python-classic.2"),
]
NEWER_GROUPS = ["java-share.2", "java-streams.2"]
QUICK = ("kill", "coordinator")
CAPTURE = Path(__file__).parent / "groups" / "connect.pcapng.zst"
WORKERS = "worker-1", "worker-2"
GROUP, TOPIC, LINES = "connect-cluster", "lines", 50
CONNECTORS = ("file-source", "file-sink")


def groups_of(disturbance: str) -> list[str]:
    """The groups that are in the capture of a disturbance."""
    return NEWER_GROUPS if disturbance.startswith("newer-") else GROUPS


@cache
def timelines(file: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of a capture by group."""
    with Database([file], wanted={"connections", "exchanges", "group_events"}) as database:
        found = database.run(library.load()["rebalances"]).to_pylist()
    return {group: [row for row in found if row["group_id"] == group] for group in {row["group_id"] for row in found}}


def check(file: Path, disturbance: str, group: str, done_at: float) -> None:
    """Assert that the first cause after something was done is what was done, to the member that it was done to."""
    rows = timelines(file)[group]
    done = datetime.fromtimestamp(done_at, UTC)
    before = [row for row in rows if row["began_at"] < done]
    after = [row for row in rows if row["began_at"] >= done]
    assert {row["cause"] for row in before} <= BEFORE
    disturbance = disturbance.removeprefix("newer-")
    cause, member = CAUSES[disturbance]
    first = after[0]
    assert first["cause"] == cause, first
    if member is not None:
        assert first["client_id"].removesuffix("-StreamThread-1-consumer") == f"{group}-{member}"  # Streams adds it
    assert {row["cause"] for row in after[1:]} <= AFTERWARDS.get(disturbance, set()) | {"follow-up"}
    assert all(row["pause_ms"] is None or 0 <= row["pause_ms"] <= row["duration_ms"] for row in after)


@pytest.mark.parametrize("disturbance", sampled(DONE, QUICK))
def test_the_cause_named_is_the_one_done(disturbance: str) -> None:
    for group in groups_of(disturbance):
        check(RECORDED / f"{disturbance}.pcap.zst", disturbance, group, DONE[disturbance])


def test_share_and_streams_groups_are_told_as_such() -> None:
    for group in NEWER_GROUPS:
        rows = timelines(RECORDED / "newer-kill.pcap.zst")[group]
        assert {row["group_type"] for row in rows} == {group.partition(".")[0].removeprefix("java-")}
        assert [(row["cause"], row["members_after"]) for row in rows] == [
            ("joined", 1), ("follow-up", 1), ("joined", 2), ("joined", 3), ("session timeout", 2),
        ], group  # fmt: skip


def timeout_of(disturbance: str, group: str) -> dict[str, Any]:
    """The rebalance of a member whose session timed out."""
    rows = timelines(RECORDED / f"{disturbance}.pcap.zst")[group]
    return next(row for row in rows if row["cause"] == "session timeout")


def test_a_member_that_was_killed_is_told_from_one_whose_network_was_cut() -> None:
    for group in GROUPS:
        row = timeout_of("kill", group)
        assert (row["members_before"], row["members_after"]) == (3, 2), group
        assert 2 <= row["moved"] <= 3  # its own two partitions; assignors that are not sticky move a third
        assert row["partition_pause_ms"] >= 6_000 * 0.9  # of its session timeout
        assert "its connection was closed without leaving" in row["evidence"], group
        assert "its connection stayed open" in timeout_of("cut", group)["evidence"], group


def test_new_partitions_are_counted() -> None:
    for group in GROUPS:
        rows = timelines(RECORDED / "partitions.pcap.zst")[group]
        changes = [row for row in rows if row["cause"] == "metadata change" and row["members_after"] == 3]
        assert sum(row["added"] for row in changes) == 3, group


@pytest.mark.parametrize("entry", [entry for entry in MANIFEST if "groups" in (entry.get("expect") or {})])
def test_generations_are_those_that_the_members_saw(entry: dict[str, Any]) -> None:
    found = timelines(CAPTURES / entry["file"])
    for group, facts in entry["expect"]["groups"].items():
        seen = [row["generation_to"] for row in found[group] if row["generation_to"] is not None]  # null: all left
        assert seen == facts["generations_seen"]
        assert max(row["members_after"] for row in found[group]) == facts["members"]


def test_assignors_and_addresses_are_shown() -> None:
    rows = timelines(CAPTURES / "03-classic-rebalance-range.pcap")["g-range"]
    assert [(row["trigger"], row["client_id"], row["members_after"]) for row in rows] == [
        ("joined", "member-0", 1), ("joined", "member-1", 2), ("joined", "member-2", 3), ("left", "member-0", 2),
        ("left", "member-1", 0),
    ]  # fmt: skip
    assert {(row["protocol"], row["client_address"]) for row in rows[:4]} == {("range", "127.0.0.1")}


def test_a_capture_that_begins_late_knows_who_was_there_before() -> None:
    rows = timelines(CAPTURES / "12-midstream-start.pcap")["g-coop"]
    assert [(row["generation_from"], row["generation_to"], row["trigger"], row["joined"]) for row in rows] == [
        (2, 3, "joined", 1), (3, 4, "follow-up", 0), (4, 5, "left", 0), (5, None, "left", 0),
    ]  # fmt: skip


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
    assert (written["records"], read["records"], read["groups"]) == (LINES, LINES, ["connect-file-sink"])
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
