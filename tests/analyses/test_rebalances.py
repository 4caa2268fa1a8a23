"""Causes of rebalances: groups of real clients that were disturbed on purpose, and the groups of the shared captures.

tests/analyses/rebalances has a capture for each disturbance, and in done.json when it was done (Unix time), written by
``python -m tests.support.kafka.rebalances``, which says what is in them; the long test makes them anew.
"""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES, Tables
from kproxy.output.tables.parquet import ParquetDirectory
from kproxy.protocol import ApiKey, message
from kproxy.protocol.structs import struct_types
from kproxy.session import Connection, Exchange, Frame
from tests.conftest import Require
from tests.support.kafka import rebalances
from tests.support.kafka.jars import missing
from tests.support.tables import MANIFEST
from tests.support.traffic import CAPTURES

pytestmark = pytest.mark.xdist_group("rebalances")  # one process reads each capture once
RECORDED = Path(__file__).parent / "rebalances"
DONE: dict[str, float] = json.loads((RECORDED / "done.json").read_text(encoding="utf-8"))
BEFORE = {
    "joined",
    "follow-up",
    "metadata change",
}  # kafka-python's leader joins again when it first knows its partitions
LAST = rebalances.MEMBERS - 1
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
GROUPS = rebalances.names(list(rebalances.KINDS))


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
    cause, member = CAUSES[disturbance]
    first = after[0]
    assert first["cause"] == cause, first
    if member is not None:
        assert first["client_id"] == f"{group}-{member}"
    assert {row["cause"] for row in after[1:]} <= AFTERWARDS.get(disturbance, set()) | {"follow-up"}
    assert all(row["pause_ms"] is None or 0 <= row["pause_ms"] <= row["duration_ms"] for row in after)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("disturbance", DONE)
def test_the_cause_named_is_the_one_done(disturbance: str, group: str) -> None:
    check(RECORDED / f"{disturbance}.pcap.zst", disturbance, group, DONE[disturbance])


@pytest.mark.parametrize("group", GROUPS)
def test_members_and_partitions_of_a_member_that_was_killed(group: str) -> None:
    row = next(row for row in timelines(RECORDED / "kill.pcap.zst")[group] if row["cause"] == "session timeout")
    assert (row["members_before"], row["members_after"]) == (3, 2)
    assert 2 <= row["moved"] <= 3  # its own two partitions; assignors that are not sticky move a third
    assert row["partition_pause_ms"] >= rebalances.SESSION_MS * 0.9
    assert "its connection was closed without leaving" in row["evidence"]


@pytest.mark.parametrize("group", GROUPS)
def test_a_network_that_is_cut_is_told_from_a_process_that_died(group: str) -> None:
    row = next(row for row in timelines(RECORDED / "cut.pcap.zst")[group] if row["cause"] == "session timeout")
    assert "its connection stayed open" in row["evidence"]


@pytest.mark.parametrize("group", GROUPS)
def test_new_partitions_are_counted(group: str) -> None:
    rows = timelines(RECORDED / "partitions.pcap.zst")[group]
    assert sum(row["added"] for row in rows if row["cause"] == "metadata change" and row["members_after"] == 3) == 3


@pytest.mark.parametrize("entry", [entry for entry in MANIFEST if "groups" in (entry.get("expect") or {})])
def test_generations_are_those_that_the_members_saw(entry: dict[str, Any]) -> None:
    found = timelines(CAPTURES / entry["file"])
    for group, facts in entry["expect"]["groups"].items():
        assert [row["generation_to"] for row in found[group]] == facts["generations_seen"]
        assert max(row["members_after"] for row in found[group]) == facts["members"]


def test_assignors_and_addresses_are_shown() -> None:
    rows = timelines(CAPTURES / "03-classic-rebalance-range.pcap")["g-range"]
    assert [(row["trigger"], row["client_id"], row["members_after"]) for row in rows] == [
        ("joined", "member-0", 1), ("joined", "member-1", 2), ("joined", "member-2", 3), ("left", "member-0", 2),
    ]  # fmt: skip
    assert {(row["protocol"], row["client_address"]) for row in rows} == {("range", "127.0.0.1")}


def test_a_capture_that_begins_late_knows_who_was_there_before() -> None:
    rows = timelines(CAPTURES / "12-midstream-start.pcap")["g-coop"]
    assert [(row["generation_from"], row["generation_to"], row["trigger"]) for row in rows] == [
        (2, 3, "joined"), (3, 4, "follow-up"), (4, 5, "left"),
    ]  # fmt: skip


# By hand: the protocols of which every member only sends heartbeats

SECOND = 10**9


def heartbeats(folder: Path, kind: str, *steps: tuple[int, str, int, int]) -> list[dict[str, Any]]:
    """The rows of a group whose members send these: second, member, epoch asked with, epoch answered."""
    api = f"{kind.capitalize()}GroupHeartbeat"
    sent, answered = message(f"{api}Request"), message(f"{api}Response")
    version = sent.versions.highest
    found: dict[str, list[Any]] = {}
    tables = Tables(lambda table, rows: found.setdefault(table.name, []).append(rows))
    for second, member, epoch, answer in steps:
        at = second * SECOND
        asked = struct_types(sent.name)[sent.name](group_id="g", member_id=member, member_epoch=epoch)
        told = struct_types(answered.name)[answered.name](member_id=member, member_epoch=answer)
        frames = [
            Frame(layout.encode(version, body), at, at + SECOND // 1000, None, 0, layout, version)
            for layout, body in ((sent, asked), (answered, told))
        ]
        number = int(member[1:])
        connection = Connection(number, f"10.0.0.{number}:1000", "10.0.0.9:9092")
        tables.add(Exchange(connection, at, ApiKey[KEYS[kind]], version, 1, f"app-{number}", *frames), "made")
    tables.flush()
    with ParquetDirectory(folder / kind, tables.tables) as directory:
        for name, batches in found.items():
            for batch in batches:
                directory.write(TABLES[name], batch)
    return timelines(folder / kind)["g"]


KEYS = {
    "consumer": "CONSUMER_GROUP_HEARTBEAT",
    "share": "SHARE_GROUP_HEARTBEAT",
    "streams": "STREAMS_GROUP_HEARTBEAT",
}


@pytest.mark.parametrize("kind", KEYS)
def test_every_kind_of_group_has_a_timeline(tmp_path: Path, kind: str) -> None:
    rows = heartbeats(
        tmp_path, kind,
        (0, "m1", 0, 1), (5, "m1", 1, 1), (6, "m2", 0, 2), (7, "m1", 1, 2), (8, "m3", 0, 3), (9, "m1", 2, 3), (9, "m2", 2, 3),
        (20, "m2", -1, -1), (21, "m1", 3, 4), (22, "m3", 3, 4), (23, "m3", 4, 4), (60, "m1", 4, 4), (80, "m1", 4, 5),
    )  # fmt: skip
    assert [(row["generation_to"], row["cause"], row["client_id"], row["members_after"]) for row in rows] == [
        (1, "joined", "app-1", 1),
        (2, "joined", "app-2", 2),
        (3, "joined", "app-3", 3),
        (4, "left", "app-2", 2),
        (5, "session timeout", "app-3", 1),
    ]
    assert {row["group_type"] for row in rows} == {kind}


@pytest.mark.long
@pytest.mark.parametrize("disturbance", CAUSES)
def test_disturbances_of_live_groups(tmp_path: Path, require: Require, disturbance: str) -> None:
    require("kafka", missing() is None, missing() or "")
    rebalances.main(tmp_path, disturbance)
    done = json.loads((tmp_path / "done.json").read_text(encoding="utf-8"))[disturbance]
    for group in GROUPS:
        check(tmp_path / f"{disturbance}.pcapng", disturbance, group, done)
