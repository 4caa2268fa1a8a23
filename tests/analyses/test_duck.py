"""DuckDB over sources: every kind of source gives the same rows, and they are what the workloads counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.errors import ConfigError, UsageError

CAPTURES = Path(__file__).parents[2] / "captures"
ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
MANIFEST = {
    row["file"]: row for row in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines())
}


def rows(database: Database, sql: str) -> list[Any]:
    return database.connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def orders() -> Any:
    with Database([ORDERS]) as database:
        yield database


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_requests_are_those_of_the_manifest(name: str) -> None:
    with Database([CAPTURES / name], wanted=["exchanges"]) as database:
        counted = rows(
            database,
            "SELECT api_key || ' v' || api_version, count(*) FROM exchanges WHERE request_at IS NOT NULL GROUP BY 1",
        )
    expected = (
        MANIFEST[name].get("requests_by_api_and_version") or MANIFEST[name]["broker_log_requests_by_api_and_version"]
    )
    found = dict(counted)
    assert {key: found.get(key) for key in expected} == expected


def test_an_analysis_runs_with_its_parameters(orders: Database, tmp_path: Path) -> None:
    (tmp_path / "apis.sql").write_text(
        "/*\nid: apis\ntitle: T\nseverity: info\nmeaning: M\nparameters:\n  least: {default: 1, meaning: M}\n*/\n"
        "SELECT api_name, count(*) AS requests FROM exchanges GROUP BY api_name HAVING count(*) >= :least ORDER BY api_name",
        encoding="utf-8",
    )
    apis = library.load([tmp_path])["apis"]
    assert {row["api_name"]: row["requests"] for row in orders.run(apis).to_pylist()} == {
        "ApiVersions": 5, "Fetch": 3, "FindCoordinator": 2, "InitProducerId": 2, "JoinGroup": 2, "LeaveGroup": 1,
        "ListOffsets": 1, "Metadata": 3, "OffsetCommit": 1, "OffsetFetch": 1, "Produce": 1, "SyncGroup": 1,
    }  # fmt: skip
    assert [row["api_name"] for row in orders.run(apis, least="5").to_pylist()] == ["ApiVersions"]
    with pytest.raises(UsageError, match="apis has no parameter 'most'"):
        orders.run(apis, most=1)


def test_without_more_the_sides_of_a_diff_are_halves_of_the_time(orders: Database) -> None:
    orders.make_all()
    found = rows(orders, "SELECT side, count(*), min(from_at), max(to_at) FROM sides GROUP BY side ORDER BY side DESC")
    (before, connections, first, middle), (after, _, again, last) = found
    assert (before, after, connections) == ("before", "after", 5)
    assert middle == again
    assert abs((middle - first) - (last - middle)).total_seconds() < 1e-5


def test_sql_that_duckdb_refuses_names_its_file(orders: Database, tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text(
        "/*\nid: mine\ntitle: T\nseverity: info\nmeaning: M\n*/\nSELECT no_such FROM exchanges", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r"mine\.sql:7:8: .*no_such"):
        orders.run(library.load([tmp_path])["mine"])
