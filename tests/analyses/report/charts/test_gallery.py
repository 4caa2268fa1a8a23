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


def test_only_the_charts_of_what_was_asked_for_are_drawn() -> None:
    assert [chart.name for chart in chosen(["latency"])] == ["latency_heat"]
    assert tables_of_charts(["latency"]) == {"exchanges"}
    assert tables_of_charts(["lag"]) == {"offsets", "exchanges", "connections"}
    assert chosen(["no_such"]) == []
