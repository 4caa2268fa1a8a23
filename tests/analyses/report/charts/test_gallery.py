"""The gallery: queries over a capture whose workload is known; which charts belong to what was asked for."""

import json
from typing import Any

import pytest

from kproxy.analyses.duck import Database
from kproxy.analyses.report.charts.gallery import CHARTS, chosen, draw_all, tables_of_charts
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


def test_only_the_charts_of_what_was_asked_for_are_drawn() -> None:
    assert [chart.name for chart in chosen(["latency"])] == ["latency_heat"]
    assert tables_of_charts(["latency"]) == {"exchanges"}
    assert chosen(["no_such"]) == []
