"""Loading: every kind of source gives the same rows; what older files lack is NULL; two sources are told apart."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.analyses.spans import parse_span
from kproxy.cli import main
from tests.support.traffic import CAPTURES

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
MANIFEST: dict[str, Any] = {
    row["file"]: row for row in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}

INSIDE = "FROM exchanges JOIN sides USING (connection_id) WHERE request_at >= from_at AND request_at < to_at"


def rows(database: Database, sql: str) -> list[Any]:
    return database.connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def orders() -> Any:
    with Database([ORDERS]) as database:
        yield database


def test_tables_of_a_directory_give_the_same_rows(orders: Database, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["decode", "-q", "--format", "parquet", "-o", str(tmp_path / "tables"), str(ORDERS)])
    with Database([tmp_path / "tables"]) as database:
        for analysis in library.load().values():
            assert database.run(analysis).to_pylist() == orders.run(analysis).to_pylist()


def test_sources_of_both_kinds_are_put_together(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["decode", "-q", "--format", "parquet", "-o", str(tmp_path / "tables"), str(ORDERS)])
    with Database([tmp_path / "tables", CAPTURES / "05-admin.pcap"]) as database:
        counted = dict(rows(database, "SELECT capture, sum(requests) FROM connections GROUP BY capture"))
    assert counted == {
        name: sum(MANIFEST[name]["requests_by_api_and_version"].values()) for name in (ORDERS.name, "05-admin.pcap")
    }


def test_columns_that_an_older_kproxy_did_not_write_are_null(tmp_path: Path) -> None:
    folder = tmp_path / "tables" / "connections"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"connection_id": ["a"], "requests": [7], "strange": [1]}), folder / "part-0.parquet")
    with Database([tmp_path / "tables"]) as database:
        assert rows(database, "SELECT connection_id, requests, user_name FROM connections") == [("a", 7, None)]
        assert "strange" not in [row[0] for row in rows(database, "DESCRIBE connections")]
        assert rows(database, "SELECT count(*) FROM exchanges") == [(0,)]


def test_damage_is_told_and_what_comes_before_it_is_there(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(ORDERS.read_bytes()[:-1000])
    with Database([cut]) as database:
        assert len(database.damages) == 1
        assert rows(database, "SELECT count(*) > 10 FROM exchanges") == [(True,)]


def test_two_sources_are_the_sides_of_a_diff() -> None:
    with Database([ORDERS, ORDERS], compare=True) as database:
        counted = rows(
            database,
            f"SELECT side, count(*) {INSIDE} GROUP BY side ORDER BY side",
        )
    requests = sum(MANIFEST[ORDERS.name]["requests_by_api_and_version"].values())
    assert counted == [("after", requests), ("before", requests)]


def test_two_ranges_of_time_are_the_sides_of_a_diff() -> None:
    spans = parse_span("--before", "/2026-11-21T04:49:58.7Z"), parse_span("--after", "2026-11-21T04:49:58.7Z/")
    with Database([ORDERS], spans=spans) as database:
        counted = [
            rows(database, f"SELECT count(*) {INSIDE} AND side = '{side}'")[0][0] for side in ("before", "after")
        ]
        expected = rows(
            database,
            "SELECT count(*) FILTER (request_at < TIMESTAMPTZ '2026-11-21 04:49:58.7Z'), count(*) FROM exchanges",
        )[0]
    assert counted == [expected[0], expected[1] - expected[0]]
    assert 0 < counted[0] < expected[1]
