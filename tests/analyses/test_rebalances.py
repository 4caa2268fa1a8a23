"""Causes of rebalances: groups of real clients that were disturbed on purpose, and the groups of the shared captures.

tests/analyses/rebalances has a capture for each disturbance, and in done.json when it was done (Unix time). In each there is a
group of three members for each kind of client, named after the kind; a topic of six partitions for each, and client ids that are
the group's name and a number. What the name of the capture says was done to the last member (``pause``: it did not poll for
longer than max.poll.interval.ms; ``rolling``: to one after the other; ``cut``: its network was frozen; ``coordinator``: to the
broker; ``partitions``: three were added to the topic). ``newer-`` are share and streams groups.
"""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled
from tests.support.tables import MANIFEST

pytestmark = pytest.mark.xdist_group("rebalances")  # one process reads each capture once
RECORDED = Path(__file__).parent / "rebalances"
DONE: dict[str, float] = json.loads((RECORDED / "done.json").read_text(encoding="utf-8"))
BEFORE = {
    "joined",
    "follow-up",
    "metadata change",
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
LIVE = [(name, group) for name in DONE for group in (NEWER_GROUPS if name.startswith("newer-") else GROUPS)]
QUICK = [live for live in LIVE if live[0] in ("kill", "cut", "partitions", "newer-kill")]


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


@pytest.mark.parametrize(("disturbance", "group"), sampled(LIVE, QUICK))
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
    assert row["partition_pause_ms"] >= 6_000 * 0.9  # of its session timeout
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
