"""The gallery: queries over a capture whose workload is known; which charts belong to what was asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses.duck import Database
from kproxy.analyses.report.charts.gallery import CHARTS, chosen, draw_all, tables_of_charts
from tests.support.scenes import Rows
from tests.support.scenes.rows import moment
from tests.support.traffic import CAPTURES

REBALANCE = CAPTURES / "03-classic-rebalance-range.pcap"
MANIFEST: dict[str, Any] = {
    row["file"]: row for row in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}


@pytest.fixture(scope="module")
def database() -> Any:
    with Database([REBALANCE], wanted=tables_of_charts(None)) as opened:
        yield opened


def rows(database: Database, name: str) -> list[dict[str, Any]]:
    (chart,) = (chart for chart in CHARTS if chart.name == name)
    found: list[dict[str, Any]] = database.select(chart.view).to_pylist()
    return found


def test_the_map_has_the_records_of_the_manifest(database: Database) -> None:
    read = MANIFEST[REBALANCE.name]["expect"]["records_consumed_by_group_and_topic"]
    found = {
        f"{row['party'].removeprefix('group ')}/{row['topic']}": row["records"] for row in rows(database, "map_graph")
    }
    assert found == read


def test_traffic_sums_to_all_bytes(database: Database) -> None:
    found = rows(database, "traffic")
    sums = database.connection.execute("SELECT sum(request_bytes + response_bytes) FROM connections").fetchall()
    assert sum(row["bytes"] for row in found) == sums[0][0]
    assert {row["client"] for row in found} == set(MANIFEST[REBALANCE.name]["client_ids"])


def test_groups_do_what_the_workload_did(database: Database) -> None:
    """Three members joined one by one, and left."""
    found = rows(database, "rebalances")
    assert {row["group_id"] for row in found} == {"g-range"}
    assert sum(row["event"] == "leave" for row in found) == 3
    assert max(row["generation"] or 0 for row in found) == 4


def test_latency_counts_the_answered_requests(database: Database) -> None:
    counted = database.connection.execute(
        "SELECT count(*) FROM exchanges WHERE latency_ms IS NOT NULL AND api_key NOT IN (1, 11, 14, 78)"
    ).fetchall()
    assert sum(row["requests"] for row in rows(database, "latency_heat")) == counted[0][0]


def test_each_chart_is_drawn_wide_and_narrow(database: Database) -> None:
    drawings = draw_all(database, None, (1795235451000, 1795235465000))
    assert len(drawings) == len(CHARTS)
    assert all(each.wide.startswith("<svg ") and each.narrow.startswith("<svg ") for each in drawings)


def test_charts_tell_clusters_apart(tmp_path: Path) -> None:
    """The same producer, consumer, group and topic in two clusters: each has its own nodes and lines."""
    tables = Rows()
    client = tables.client("app")
    client.fetch(1, "t", 0, end=5)
    client.commit(2, "g", "t", 0)
    client.group(3, "join", "g", member_id="m1")
    where = {
        "connection_id": client.id,
        "minute": moment(0),
        "topic": "t",
        "partition": 0,
        "client_id": "app",
        "records": 7,
    }
    tables.add("topic_activity", direction="produce", **where)
    tables.repeat_in_another_cluster()
    with Database([tables.write(tmp_path / "tables")], wanted=tables_of_charts(None)) as opened:
        drawings = {each.title: each for each in draw_all(opened, None, (0, 10_000))}
    assert len(drawings) == len(CHARTS)
    for chart, names in zip(
        CHARTS, (("t (1)", "app (2)"), ("app (1)", "app (2)"), ("g (1)", "g (2)"), ("t (1)", "t (2)")), strict=False
    ):
        shown = drawings[chart.title]
        assert all(name in shown.wide for name in names), chart.name
        assert shown.note.endswith("the cluster: (1) is brokers at 10.0.0.9:9092, (2) is brokers at 10.9.9.9:9092.")


def test_a_client_id_in_several_groups_shows_each(tmp_path: Path) -> None:
    """Two hosts with one client id and a group each, and one host that reads each topic for another group."""
    tables = Rows()
    for address, topic, group in (
        ("10.0.0.5", "t", "g1"),
        ("10.0.0.6", "t", "g2"),
        ("10.0.0.7", "t", "g3"),
        ("10.0.0.7", "u", "g4"),
    ):
        client = tables.client("app", address)
        client.commit(1, group, topic, 5)
        tables.add(
            "topic_activity", connection_id=client.id, minute=moment(0), topic=topic, partition=0, client_id="app",
            direction="fetch", records=1,
        )  # fmt: skip
    both = tables.client("app", "10.0.0.8")
    for group in ("a", "b", "c", "d"):
        both.commit(2, group, "v", 5)
    tables.add(
        "topic_activity", connection_id=both.id, minute=moment(0), topic="v", partition=0, client_id="app",
        direction="fetch", records=1,
    )  # fmt: skip
    with Database([tables.write(tmp_path / "tables")], wanted=tables_of_charts(None)) as opened:
        found = {(row["party"], row["topic"]) for row in rows(opened, "map_graph")}
    assert found == {
        ("group g1", "t"), ("group g2", "t"), ("group g3", "t"), ("group g4", "u"), ("groups a, b and 2 more", "v"),
    }  # fmt: skip


def test_of_many_members_those_that_fail_are_shown_and_the_rest_is_told(tmp_path: Path) -> None:
    """Three hundred members join and sync; long after, one leaves and another is told that it is not known."""
    tables = Rows()
    client = tables.client("app")
    for number in range(300):
        for event in ("join", "sync"):
            client.event(number, 1, event, "g", member_id=f"m-{number:03}", response_generation=1, error_code=0)
    client.event(900, 1, "leave", "g", member_id="m-250", error_code=0)
    client.event(901, 1, "heartbeat", "g", member_id="m-299", error_code=25)
    for number in range(5_000):
        client.event(1000 + number, 1, "heartbeat", "g", member_id="m-000", error_code=0)
    with Database([tables.write(tmp_path / "tables")], wanted=tables_of_charts(None)) as opened:
        found = rows(opened, "rebalances")
        (drawing,) = draw_all(opened, ["rebalances"], (0, 10_000_000))
    assert len(found) == 4_000
    assert len({row["member_id"] for row in found}) == 40
    assert {row["member_id"]: row["event"] for row in found if row["event"] in ("leave", "error")} == {
        "m-250": "leave", "m-299": "error",
    }  # fmt: skip
    assert drawing.note.endswith(
        "Shown are 40 of 300 members, those with the most errors, leaves and joins, and 4,000 of 5,602 events; all are in the "
        "table group_events."
    )


def test_only_the_charts_of_what_was_asked_for_are_drawn() -> None:
    assert [chart.name for chart in chosen(["latency"])] == ["latency_heat"]
    assert tables_of_charts(["latency"]) == {"exchanges"}
    assert tables_of_charts(["lag"]) == {"offsets", "exchanges", "connections"}
    assert chosen(["no_such"]) == []
