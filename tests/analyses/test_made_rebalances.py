"""Rebalances of groups whose traffic is made by hand: what real clients cannot be made to do at will."""

from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.report.templates import fill
from kproxy.protocol import ApiKey
from tests.support.group_traffic import KEYS, GroupTraffic
from tests.support.sampled import sampled

Rows = list[dict[str, Any]]


def told(rows: Rows) -> list[tuple[Any, ...]]:
    """What each row says in short."""
    return [(row["generation_to"], row["cause"], row["client_id"], row["members_after"]) for row in rows]


@pytest.mark.parametrize("kind", sampled(KEYS, ["consumer"]))
def test_every_kind_of_group_has_a_timeline(tmp_path: Path, kind: str) -> None:
    traffic = GroupTraffic("g")
    for step in (
        (0, "m1", 0, 1), (5, "m1", 1, 1), (6, "m2", 0, 2), (7, "m1", 1, 2), (8, "m3", 0, 3), (9, "m1", 2, 3), (9, "m2", 2, 3),
        (20, "m2", -1, -1), (21, "m1", 3, 4), (22, "m3", 3, 4), (23, "m3", 4, 4), (60, "m1", 4, 4), (80, "m1", 4, 5),
    ):  # fmt: skip
        traffic.epoch(kind, *step)
    rows = traffic.rows(tmp_path, "rebalances")
    assert told(rows) == [
        (1, "joined", "app-1", 1),
        (2, "joined", "app-2", 2),
        (3, "joined", "app-3", 3),
        (4, "left", "app-2", 2),
        (5, "session timeout", "app-3", 1),
    ]
    assert {row["group_type"] for row in rows} == {kind}


def test_members_of_the_classic_protocol_have_the_epochs_of_their_group(tmp_path: Path) -> None:
    """An epoch of which only they hear is of the same kind; REBALANCE_IN_PROGRESS goes on until they have their partitions."""
    traffic = GroupTraffic("g")
    traffic.epoch("consumer", 0, "m1", 0, 1)
    traffic.epoch("consumer", 5, "m1", 1, 1)
    for at, member, generation in ((7, "m2", 2), (8, "m3", 3), (10.6, "m2", 3), (19.6, "m2", 4)):
        traffic.join(at, member, generation)
        traffic.sync(at + 0.1, member, generation, ["t-1"])
    for at, member, generation in ((10.5, "m2", 2), (11, "m3", 3), (16, "m3", 3), (19.5, "m2", 3)):
        traffic.told_to_rebalance(at, member, generation)
    for step in ((10, "m1", 1, 3), (15, "m1", 3, 3), (19, "m4", 0, 4), (20, "m1", 3, 4)):
        traffic.epoch("consumer", *step)
    rows = traffic.rows(tmp_path, "rebalances")
    assert [(row["generation_to"], row["cause"], row["client_id"], row["members_after"]) for row in rows] == [
        (1, "joined", "app-1", 1), (2, "joined", "app-2", 2), (3, "joined", "app-3", 3), (4, "joined", "app-4", 4)
    ]  # fmt: skip
    assert [row["began_at"].second for row in rows] == [0, 7, 8, 19]
    assert {row["group_type"] for row in rows} == {"consumer"}


def test_a_static_member_that_is_stopped_counts_until_its_session_ends(tmp_path: Path) -> None:
    traffic = GroupTraffic("g")
    for step in ((1, "m2", 0, 1), (10, "m2", 1, 1), (12, "m2", -2, -2)):
        traffic.epoch("consumer", *step, instance="worker-2")
    for at in range(14, 80, 5):
        before, after = (3 if at > 60 else 2 if at > 14 else 0), (3 if at > 55 else 2)
        traffic.epoch("consumer", at, "m4", before, after)
    assert told(traffic.rows(tmp_path, "rebalances")) == [
        (1, "joined", "app-2", 1), (2, "joined", "app-4", 2), (3, "session timeout", "app-2", 1)
    ]  # fmt: skip


def test_members_with_one_client_id_that_join_in_one_rebalance_count_each(tmp_path: Path) -> None:
    traffic = GroupTraffic("g")
    for number, member in enumerate(("m1", "m2", "m3")):
        everybody = ["m1", "m2", "m3"] if member == "m1" else []
        traffic.join(number / 10, member, 1, members=everybody, leader="m1", client_id="orders")
    for member in ("m1", "m2", "m3"):
        traffic.sync(3, member, 1, ["t-0"], leads=member == "m1", client_id="orders")
    rows = traffic.rows(tmp_path, "rebalances")
    assert [(row["joined"], row["members_after"]) for row in rows] == [(3, 3)]
    assert rows[0]["evidence"].endswith("also: orders joined (2 members)")
    assert "1 rebalance of 1 group, by cause: 1 joined; 3 members joined" in fill(
        library.load()["rebalances"].header.verdict, rows
    )


def two_members() -> GroupTraffic:
    traffic = GroupTraffic("g")
    traffic.round(1, 1, "m1")
    traffic.round(5, 2, "m1", "m2")
    return traffic


def test_the_last_members_that_leave_have_a_row(tmp_path: Path) -> None:
    traffic = two_members()
    traffic.leave(20, "m2")
    traffic.leave(20.1, "m1")
    rows = traffic.rows(tmp_path, "rebalances")
    assert told(rows) == [(1, "joined", "app-1", 1), (2, "joined", "app-2", 2), (None, "left", "app-2", 0)]
    assert (rows[2]["members_before"], rows[2]["pause_ms"], rows[2]["generation_from"]) == (2, None, 2)
    assert "app-1 left" in rows[2]["evidence"]
    verdict = fill(library.load()["rebalances"].header.verdict, rows)
    assert verdict.startswith("3 rebalances of 1 group, by cause: 2 joined, 1 left; 2 members joined")


@pytest.mark.parametrize("kind", sampled(KEYS, ["consumer"]))
def test_the_last_member_of_an_epoch_that_leaves_has_a_row(tmp_path: Path, kind: str) -> None:
    traffic = GroupTraffic("g")
    for step in ((0, "m1", 0, 1), (5, "m2", 0, 2), (6, "m1", 1, 2), (8, "m1", -1, -1), (8.2, "m2", -1, -1)):
        traffic.epoch(kind, *step)
    assert told(traffic.rows(tmp_path, "rebalances"))[2:] == [(None, "left", "app-1", 0)]


def test_a_member_that_stays_keeps_the_group_from_being_empty(tmp_path: Path) -> None:
    traffic = two_members()
    traffic.leave(20, "m2")
    traffic.round(21, 3, "m1")
    assert told(traffic.rows(tmp_path, "rebalances"))[2:] == [(3, "left", "app-2", 1)]


def test_members_of_a_group_that_was_empty_move_nothing(tmp_path: Path) -> None:
    traffic = two_members()
    traffic.leave(20, "m2")
    traffic.leave(20.1, "m1")
    traffic.round(30, 4, "m3")
    row = traffic.rows(tmp_path, "rebalances")[-1]
    assert (row["generation_to"], row["cause"], row["members_before"], row["moved"]) == (4, "joined", 0, 0)


def test_a_group_that_is_deleted_and_used_again_begins_anew(tmp_path: Path) -> None:
    traffic = two_members()
    traffic.leave(20, "m2")
    traffic.leave(20.1, "m1")
    traffic.delete(30, "a9")
    traffic.round(40, 1, "m3")
    traffic.round(45, 2, "m3", "m4")
    assert told(traffic.rows(tmp_path, "rebalances"))[2:] == [
        (None, "left", "app-2", 0), (1, "joined", "app-3", 1), (2, "joined", "app-4", 2),
    ]  # fmt: skip


def test_a_group_that_expired_counts_from_one_again(tmp_path: Path) -> None:
    traffic = two_members()
    traffic.round(800, 1, "m3")
    assert told(traffic.rows(tmp_path, "rebalances"))[2:] == [
        (None, "went silent", "app-1", 0), (1, "joined", "app-3", 1),
    ]  # fmt: skip


def test_what_another_capture_shows_ten_days_later_does_not_make_the_first_one_silent(tmp_path: Path) -> None:
    """Files of other days may be read as one capture: nobody knows what the members did meanwhile."""
    traffic = two_members()
    traffic.round(900_000, 1, "m3")
    assert told(traffic.rows(tmp_path, "rebalances"))[2:] == [(1, "joined", "app-3", 1)]


def silent(until: float) -> GroupTraffic:
    """m1 and m2 are in the group; m2 is heard of last at 14 s, m1 at 16 s, and others' traffic goes on."""
    traffic = two_members()
    traffic.beat(14, "m2", 2)
    traffic.beat(16, "m1", 2)
    traffic.metadata(until, "m9", "AAAA")
    return traffic


def test_the_last_members_that_fall_silent_have_a_row(tmp_path: Path) -> None:
    rows = silent(60).rows(tmp_path, "rebalances")
    assert told(rows)[2:] == [(None, "went silent", "app-1", 0)]
    row = rows[2]
    assert (row["members_before"], row["generation_from"], row["duration_ms"]) == (
        2,
        2,
        12_000.0,
    )  # 14 s to 16 s + 10 s
    assert "since its last Heartbeat, its connection stayed open" in row["evidence"]
    assert row["evidence"].endswith("also: app-2 went silent")


def test_members_whose_coordinator_is_gone_did_not_fall_silent(tmp_path: Path) -> None:
    traffic = silent(60)
    for member in ("m1", "m2"):
        traffic.send(17, member, ApiKey.HEARTBEAT, {"group_id": "g", "member_id": member, "generation_id": 2}, None)
    assert len(traffic.rows(tmp_path, "rebalances")) == 2


def test_a_share_group_assigns_partitions_in_the_epochs_after_its_members_joined(tmp_path: Path) -> None:
    """As of Kafka 4.3: one epoch later, once their state is made, or the interval of assignments is over."""
    traffic = GroupTraffic("g")
    for step in (
        (0, "m1", 0, 2), (5, "m1", 2, 3), (6, "m2", 0, 3), (10, "m1", 3, 4), (11, "m2", 3, 4),
        (20, "m2", -1, -1), (25, "m1", 4, 5),
    ):  # fmt: skip
        traffic.epoch("share", *step)
    causes = [(row["generation_to"], row["cause"]) for row in traffic.rows(tmp_path, "rebalances")]
    assert causes == [(2, "joined"), (3, "joined"), (4, "follow-up"), (5, "left")]


@pytest.mark.parametrize("until", [20, 25.9])
def test_a_capture_that_ends_before_the_session_timeout_knows_no_silence(tmp_path: Path, until: float) -> None:
    assert len(silent(until).rows(tmp_path, "rebalances")) == 2


def test_a_group_that_goes_on_after_the_silence_of_one_member_was_not_silent(tmp_path: Path) -> None:
    traffic = silent(60)
    traffic.round(26, 3, "m1")
    traffic.beat(55, "m1", 3)
    assert told(traffic.rows(tmp_path, "rebalances"))[2:] == [(3, "session timeout", "app-2", 1)]


def test_members_that_come_long_after_find_an_empty_group(tmp_path: Path) -> None:
    traffic = silent(60)
    traffic.round(50, 4, "m3")
    rows = traffic.rows(tmp_path, "rebalances")
    assert [(row["generation_to"], row["cause"]) for row in rows][2:] == [(None, "went silent"), (4, "joined")]
    assert (rows[3]["members_before"], rows[3]["moved"]) == (0, 0)


def test_a_member_that_waits_for_its_join_keeps_the_group(tmp_path: Path) -> None:
    traffic = silent(60)
    traffic.unanswered_join(24, "m1")
    assert len(traffic.rows(tmp_path, "rebalances")) == 2


@pytest.mark.parametrize("kind", sampled(KEYS, ["consumer"]))
def test_epochs_whose_members_fall_silent_have_a_row_after_45_s(tmp_path: Path, kind: str) -> None:
    for until, causes in ((50, []), (52, ["went silent"])):
        traffic = GroupTraffic("g")
        for step in ((0, "m1", 0, 1), (5, "m1", 1, 1), (6, "m1", 1, 1)):
            traffic.epoch(kind, *step)
        traffic.metadata(until, "m9", "AAAA")
        folder = tmp_path / str(until)
        folder.mkdir()
        assert [row["cause"] for row in traffic.rows(folder, "rebalances")[1:]] == causes


BROKERS = "10.0.0.99:9092", "10.0.1.99:9092"


@pytest.mark.parametrize(
    ("brokers", "ids"), [(BROKERS, ("AAAA", "BBBB")), (BROKERS, (None, None)), (BROKERS[:1] * 2, ("AAAA", "BBBB"))]
)
def test_groups_of_the_same_name_in_two_clusters_are_two(
    tmp_path: Path, brokers: tuple[str, str], ids: tuple[str | None, str | None]
) -> None:
    found = []
    for n, (broker, cluster) in enumerate(zip(brokers, ids, strict=True)):
        traffic = GroupTraffic("g", capture=f"capture-{n}", broker=broker)
        first, second = f"m{2 * n + 1}", f"m{2 * n + 2}"
        if cluster:
            traffic.metadata(0.5, first, cluster)
        traffic.round(1 + n / 10, 1, first)
        traffic.round(5 + n / 10, 2, first, second)
        found.append(traffic)
    rows = found[0].beside(found[1]).rows(tmp_path, "rebalances")
    assert told(rows) == [
        (1, "joined", "app-1", 1), (2, "joined", "app-2", 2), (1, "joined", "app-3", 1), (2, "joined", "app-4", 2),
    ]  # fmt: skip
    shown = [row["cluster"] for row in rows]
    wanted = [ids[n] or f"brokers at {brokers[n]}" for n in (0, 1)]
    assert shown == [wanted[0], wanted[0], wanted[1], wanted[1]]


def test_groups_and_topics_of_two_clusters_are_apart_everywhere(tmp_path: Path) -> None:
    found = []
    for n, cluster in enumerate(("AAAA", "BBBB")):
        traffic = GroupTraffic("g", capture=cluster)
        traffic.metadata(1, f"m{n}", cluster)
        traffic.commit(2, f"m{n}", 10 + n)
        found.append(traffic)
    both = found[0].beside(found[1])
    lag = both.rows(tmp_path, "lag")
    assert sorted((row["cluster"], row["committed_offset"], row["is_last"]) for row in lag) == [
        ("AAAA", 10, True), ("BBBB", 11, True),
    ]  # fmt: skip


def test_one_group_in_two_captures_of_a_cluster_is_one(tmp_path: Path) -> None:
    first, second = GroupTraffic("g", capture="1"), GroupTraffic("g", capture="2", broker="10.0.0.98:9092")
    first.metadata(0.5, "m1", "AAAA")
    first.round(1, 1, "m1")
    second.metadata(5, "m2", "AAAA")
    second.round(6, 2, "m1", "m2")
    rows = first.beside(second).rows(tmp_path, "rebalances")
    assert told(rows) == [(1, "joined", "app-1", 1), (2, "joined", "app-2", 2)]


def test_a_static_member_that_another_process_replaces_is_told_so(tmp_path: Path) -> None:
    traffic = GroupTraffic("g")
    traffic.join(1, "m1", 1, members=["m1"], leader="m1", instance="i1")
    traffic.sync(1.2, "m1", 1, ["t-0"], leads=True)
    traffic.join(10, "m2", 1, members=["m2"], leader="m1", instance="i1")
    traffic.beat(11, "m1", 1, error=82, instance="i1")  # FENCED_INSTANCE_ID
    rows = traffic.rows(tmp_path, "rebalances")
    assert told(rows) == [(1, "joined", "app-1", 1), (1, "static member replaced", "app-2", 1)]


@pytest.mark.parametrize("instance", [None, "i2"])
def test_a_member_that_an_administrator_removes_did_not_leave(tmp_path: Path, instance: str | None) -> None:
    traffic = GroupTraffic("g")
    traffic.join(1, "m1", 1, members=["m1", "m2"], leader="m1")
    traffic.join(1.1, "m2", 1, instance=instance)
    traffic.sync(2, "m1", 1, ["t-0"], leads=True)
    traffic.sync(2.1, "m2", 1, ["t-1"])
    traffic.leave(20, "m2", sender="a9", instance=instance)
    traffic.round(21, 2, "m1")
    rows = traffic.rows(tmp_path, "rebalances")
    assert told(rows) == [(1, "joined", "app-1", 2), (2, "removed by an administrator", "app-2", 1)]
    assert "by app-9 at 10.0.0.9" in rows[1]["evidence"]


def crashing(restarts: int) -> GroupTraffic:
    """m1 stays; another client comes and goes so often."""
    traffic = GroupTraffic("g")
    traffic.round(1, 1, "m1")
    crashy = {"client_id": "crashy"}
    for n in range(2, 3 + restarts):
        second, generation, member = n * 10, n * 2, f"m{n}"
        traffic.join(second, member, generation, leader="m1", **crashy)
        traffic.join(second + 0.1, "m1", generation, leader="m1", members=["m1", member])
        traffic.sync(second + 0.3, "m1", generation, ["t-0"])
        traffic.sync(second + 0.3, member, generation, ["t-1"], **crashy)
        traffic.leave(second + 4, member, **crashy)
        traffic.join(second + 4.5, "m1", generation + 1, members=["m1"], leader="m1")
        traffic.sync(second + 4.7, "m1", generation + 1, ["t-0", "t-1"])
    return traffic


def test_one_member_that_crashes_again_and_again_is_no_deployment(tmp_path: Path) -> None:
    rows = crashing(4).rows(tmp_path, "rebalances")
    causes = [row["cause"] for row in rows]
    assert causes == ["joined", "joined", *["restart loop"] * 8, "left"]
    assert "one member was restarted 4 times" in rows[2]["evidence"]


def test_one_member_that_was_restarted_once_is_in_no_loop(tmp_path: Path) -> None:
    assert {row["cause"] for row in crashing(2).rows(tmp_path, "rebalances")} == {"joined", "left"}


def test_members_that_had_been_in_the_group_before_are_restarted_when_they_die(tmp_path: Path) -> None:
    """Two members leave, and come back under their ids a quarter of an hour later; then both are killed and started anew."""
    traffic = GroupTraffic("g")

    def beat(second: float, member: str, own: int, told: int, **who: str) -> None:
        asked = {"group_id": "g", "member_id": member, "member_epoch": own}
        traffic.send(second, member, KEYS["consumer"], asked, {"member_id": member, "member_epoch": told}, **who)

    steps = (  # second, who joins (+) or leaves (-); two that expire (*)
        (0, "+m9"), (1, "+m1"), (2, "+m2"), (10, "-m1"), (11, "-m2"), (900, "+m1"), (901, "+m2"), (1045, "*m1"),
        (1046, "*m2"), (1050, "+m11"), (1052, "+m12"),
    )  # fmt: skip
    clients = {"m11": {"client_id": "app-1"}, "m12": {"client_id": "app-2"}}
    for epoch, (second, step) in enumerate(steps, 1):
        kind, member = step[0], step[1:]
        if kind != "*":
            beat(second, member, 0 if kind == "+" else -1, epoch if kind == "+" else -1, **clients.get(member, {}))
        if member != "m9":
            beat(second + 0.5, "m9", max(epoch - 1, 1), epoch)
        if second == 901:
            beat(1000, "m1", 7, 7)
            beat(1000.1, "m2", 7, 7)
    rows = traffic.rows(tmp_path, "rebalances")
    causes = {row["generation_to"]: (row["cause"], row["trigger"]) for row in rows}
    assert causes[8] == ("deployment", "session timeout")
    assert causes[11][0] == "deployment"
    assert causes[7][0] == "joined"


def test_workers_of_connect_have_a_timeline(tmp_path: Path) -> None:
    traffic = GroupTraffic("connect-cluster", protocol_type="connect")
    traffic.round(1, 1, "m1")
    traffic.round(5, 2, "m1", "m2")
    traffic.round(30, 3, "m1", "m2")
    traffic.leave(40, "m2")
    traffic.round(41, 4, "m1")
    rows = traffic.rows(tmp_path, "rebalances")
    assert told(rows) == [
        (1, "joined", "app-1", 1), (2, "joined", "app-2", 2), (3, "asked for by the application", "app-1", 2),
        (4, "left", "app-2", 1),
    ]  # fmt: skip
    assert {row["pause_ms"] for row in rows} == {None}  # what they are assigned is not a consumer's


def test_consumers_that_only_commit_make_no_group_rebalance(tmp_path: Path) -> None:
    traffic = GroupTraffic("g")
    for second in range(5):
        traffic.commit(second, "m1", second)
    assert traffic.rows(tmp_path, "rebalances") == []


def test_a_commit_of_a_member_of_the_new_protocol_does_not_keep_its_place(tmp_path: Path) -> None:
    """It dies right after a commit; its session ends by its heartbeats, less than 5 s after the commit (KIP-848)."""
    traffic = GroupTraffic("g")
    for step in (
        (0, "m1", 0, 1),
        (0.1, "m2", 0, 2),
        (5, "m1", 1, 2),
        (5.1, "m2", 2, 2),
        (10, "m1", 2, 2),
        (15, "m1", 2, 3),
    ):
        traffic.epoch("consumer", *step)
    traffic.commit(10.2, "m2", 50, epoch=2)
    assert told(traffic.rows(tmp_path, "rebalances"))[2:] == [(3, "session timeout", "app-2", 1)]


def test_an_epoch_of_which_the_beginning_was_not_seen_is_not_explained(tmp_path: Path) -> None:
    traffic = GroupTraffic("g")
    for step in ((0, "m1", 7, 7), (1, "m2", 7, 7), (5, "m1", 7, 8), (6, "m2", 7, 8)):
        traffic.epoch("consumer", *step)
    assert told(traffic.rows(tmp_path, "rebalances")) == [(8, "unknown", None, 2)]
