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
NEWER_GROUPS = rebalances.names(list(rebalances.NEWER_KINDS))
LIVE = [
    (disturbance, group)
    for disturbance in (*rebalances.DISTURBANCES, *rebalances.NEWER_DISTURBANCES)
    for group in (NEWER_GROUPS if disturbance.startswith(rebalances.NEWER) else GROUPS)
]


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
    disturbance = disturbance.removeprefix(rebalances.NEWER)
    cause, member = CAUSES[disturbance]
    first = after[0]
    assert first["cause"] == cause, first
    if member is not None:
        assert first["client_id"].removesuffix("-StreamThread-1-consumer") == f"{group}-{member}"  # Streams adds it
    assert {row["cause"] for row in after[1:]} <= AFTERWARDS.get(disturbance, set()) | {"follow-up"}
    assert all(row["pause_ms"] is None or 0 <= row["pause_ms"] <= row["duration_ms"] for row in after)


@pytest.mark.parametrize(("disturbance", "group"), LIVE)
def test_the_cause_named_is_the_one_done(disturbance: str, group: str) -> None:
    check(RECORDED / f"{disturbance}.pcap.zst", disturbance, group, DONE[disturbance])


@pytest.mark.parametrize("group", NEWER_GROUPS)
def test_share_and_streams_groups_are_told_as_such(group: str) -> None:
    rows = timelines(RECORDED / "newer-kill.pcap.zst")[group]
    assert {row["group_type"] for row in rows} == {group.partition(".")[0].removeprefix("java-")}
    assert [(row["cause"], row["members_after"]) for row in rows] == [
        ("joined", 1), ("follow-up", 1), ("joined", 2), ("joined", 3), ("session timeout", 2),
    ]  # fmt: skip


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
    assert [(row["generation_from"], row["generation_to"], row["trigger"]) for row in rows] == [
        (2, 3, "joined"), (3, 4, "follow-up"), (4, 5, "left"), (5, None, "left"),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("disturbance", dict(LIVE))
def test_disturbances_of_live_groups(tmp_path: Path, require: Require, disturbance: str) -> None:
    require("kafka", missing() is None, missing() or "")
    rebalances.main(tmp_path, disturbance)
    done = json.loads((tmp_path / "done.json").read_text(encoding="utf-8"))[disturbance]
    for group in dict.fromkeys(group for each, group in LIVE if each == disturbance):
        check(tmp_path / f"{disturbance}.pcapng", disturbance, group, done)
