"""DuckDB over sources: what is a source, how it is loaded, ranges of time, scratch directories, Ctrl-C."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kproxy.analyses import duck, library, loading
from kproxy.analyses.analysis import bind
from kproxy.analyses.duck import Database, ends_at_interrupt
from kproxy.analyses.loading import ALWAYS, Kind, identify_source, parse_span, table_files
from kproxy.analyses.scratch import LOCK, PREFIX, ScratchDirectory
from kproxy.cli import main
from kproxy.errors import ConfigError, UsageError
from kproxy.output.tables import TABLES
from kproxy.output.tables.parquet import MARKER, marker_text
from tests.support.corpus import CAPTURES

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


def test_of_a_healthy_capture_the_only_gated_analysis_that_runs_is_rebalances(orders: Database) -> None:
    gated = [one for one in library.load().values() if one.header.default and one.header.only_if]
    assert [one.id for one in gated if orders._selects_any(one, bind(one, {}))] == ["rebalances"]


def test_without_more_the_sides_of_a_diff_are_halves_of_the_time(orders: Database) -> None:
    orders.make_all()
    found = rows(orders, "SELECT side, count(*), min(from_at), max(to_at) FROM sides GROUP BY side ORDER BY side DESC")
    (before, connections, first, middle), (after, _, again, last) = found
    assert (before, after, connections) == ("before", "after", 5)
    assert middle == again
    assert abs((middle - first) - (last - middle)).total_seconds() < 1e-5


@pytest.mark.parametrize(
    ("value", "complaint"), [("no_such", "no_such"), ("CAST('2020-13-01' AS DATE)", "date field value")]
)
def test_sql_that_duckdb_refuses_names_its_file(value: str, complaint: str, orders: Database, tmp_path: Path) -> None:
    text = f"/*\nid: mine\ntitle: T\nseverity: info\nmeaning: M\n*/\nSELECT {value} AS n FROM exchanges"
    (tmp_path / "mine.sql").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"mine\.sql:7:8: .*{complaint}"):
        orders.run(library.load([tmp_path])["mine"])


def test_only_if_of_a_user_is_asked_first_and_its_mistake_is_named(orders: Database, tmp_path: Path) -> None:
    text = (
        "/*\nid: mine\ntitle: T\nseverity: info\nmeaning: M\ncolumns: {n: number}\nonly_if: FROM errors WHERE {}\n*/\n"
        "SELECT 1 AS n"
    )
    found = []
    for number, condition in enumerate(("error_code = 99", "error_code = 15", "no_such = 1")):
        path = tmp_path / str(number) / "mine.sql"
        path.parent.mkdir()
        path.write_text(text.replace("{}", condition), encoding="utf-8")
        try:
            found.append(orders.run(library.load([path.parent])["mine"]).to_pydict())
        except ConfigError as error:
            found.append(error.lines()[0].partition("mine.sql:")[2][:40])
    assert found == [{"n": []}, {"n": [1]}, "1:1: only_if: Binder Error: Referenced c"]  # FindCoordinator got 15 once


@pytest.mark.slow
def test_a_large_source_has_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are computed in another way: views once, rows as Python values, one thread."""
    analyses = [one for one in library.load().values() if one.header.default]
    answers = []
    for most in (duck.FEW_ROWS, 0):
        monkeypatch.setattr(duck, "FEW_ROWS", most)
        with Database([CAPTURES / "04-transactions.pcap"]) as database:
            answers.append({one.id: database.run(one).to_pylist() for one in analyses})
    assert answers[0] == answers[1]


def test_a_capture_and_a_log_are_sources_of_events(tmp_path: Path) -> None:
    assert identify_source(CAPTURES / "05-admin.pcap").kind is Kind.EVENTS
    log = tmp_path / "kafka.jsonl"
    log.write_text('{"event":"exchange"}\n', encoding="utf-8")
    assert identify_source(log).kind is Kind.EVENTS
    assert identify_source(Path("-")).kind is Kind.EVENTS


def test_a_directory_with_parquet_files_is_one_of_tables(tmp_path: Path) -> None:
    part = tmp_path / "exchanges" / "day=2026-11-22" / "part-0.parquet"
    part.parent.mkdir(parents=True)
    part.touch()
    (tmp_path / MARKER).write_text(marker_text("a test", {}))
    assert identify_source(tmp_path).kind is Kind.TABLES
    assert table_files(tmp_path) == {"exchanges": [part]}


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        identify_source(tmp_path / "gone.pcap")


@pytest.mark.parametrize(("log", "kind"), [("_delta_log", "Delta"), ("metadata", "Iceberg")])
def test_tables_of_delta_and_iceberg_are_refused(tmp_path: Path, log: str, kind: str) -> None:
    """Read as plain Parquet they would have rows that were removed."""
    (tmp_path / "offsets" / log).mkdir(parents=True)
    (tmp_path / "offsets" / "part-0.parquet").touch()
    with pytest.raises(UsageError, match=f"has tables of {kind}: kproxy-spark report reads them"):
        identify_source(tmp_path)


def test_a_uri_is_told_from_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="kproxy-spark report reads object stores, too"):
        identify_source(Path("s3a://bucket/tables"))


INSIDE = "FROM exchanges JOIN sides USING (connection_id) WHERE request_at >= from_at AND request_at < to_at"


def test_tables_of_a_directory_give_the_same_rows(orders: Database, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["decode", "-q", "--format", "parquet", "-o", str(tmp_path / "tables"), str(ORDERS)])
    with Database([tmp_path / "tables"]) as database:
        for table in TABLES:
            if not TABLES[table].optional:
                every = f"SELECT * FROM {table} ORDER BY ALL"
                assert rows(database, every) == rows(orders, every), table


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
    (folder.parent / MARKER).write_text(marker_text("a test", {}))
    with Database([tmp_path / "tables"]) as database:
        assert rows(database, "SELECT connection_id, requests, user_name FROM connections") == [("a", 7, None)]
        assert "strange" not in [row[0] for row in rows(database, "DESCRIBE connections")]
        assert rows(database, "SELECT count(*) FROM exchanges") == [(0,)]


def test_what_needs_more_memory_gets_one_thread_then_more_and_both_are_restored() -> None:
    query = "SELECT CAST(current_setting('threads') AS BIGINT), current_setting('memory_limit')"
    seen: list[tuple[int, str]] = []
    with Database([ORDERS], memory=48) as database:
        database.connection.execute("SET threads = 2")

        def run() -> None:
            seen.extend(rows(database, query))
            if len(seen) < 3:
                raise duckdb.OutOfMemoryException("more")

        database._with_more_memory(run)
        assert seen == [(2, "45.7 MiB"), (1, "45.7 MiB"), (1, "122.0 MiB")]  # 48 MB, 128 MB
        assert rows(database, query) == seen[:1]
        seen.clear()
        database.connection.execute("SET threads = 1")
        database._with_more_memory(run)
        assert seen == [(1, "45.7 MiB"), (1, "122.0 MiB"), (1, "488.2 MiB")]


def test_what_one_thread_restores_another_still_has() -> None:
    query = "SELECT current_setting('memory_limit')"
    other_has_more, restored = threading.Event(), threading.Event()
    calls: list[str] = []

    def needs_more() -> str:
        calls.append("")
        if len(calls) < 3:
            raise duckdb.OutOfMemoryException("more")
        other_has_more.set()
        assert restored.wait(60)
        return str(second.connection.execute(query).fetchall()[0][0])

    def needs_less() -> None:
        if not calls.count("less"):
            calls.append("less")
            raise duckdb.OutOfMemoryException("one thread")

    with Database([ORDERS], memory=48) as first, ThreadPoolExecutor(1) as thread:
        first.connection.execute("SET threads = 2")
        second = first.over(first.connection.cursor())
        limit = thread.submit(second._with_more_memory, needs_more)
        assert other_has_more.wait(60)
        first._with_more_memory(needs_less)
        restored.set()
        assert limit.result(60) == "122.0 MiB"
        assert rows(first, query) == [("45.7 MiB",)]


@pytest.mark.parametrize("most_held", [loading.MOST_HELD, 1_000])  # in memory, and in a file: few rows may be large
def test_two_threads_find_the_rows_that_one_finds(monkeypatch: pytest.MonkeyPatch, most_held: int) -> None:
    monkeypatch.setattr(loading, "MOST_HELD", most_held)
    analyses = [analysis for analysis in library.load().values() if analysis.header.default]
    with Database([ORDERS]) as one, Database([ORDERS]) as both:
        both.look_ahead(analyses, {})
        for analysis in analyses:
            assert both.run(analysis).equals(one.run(analysis)), analysis.id
    with Database([ORDERS]) as left:  # at once: the second thread ends too
        left.look_ahead(analyses, {})


def test_tables_of_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["decode", "-q", "--format", "parquet", "-o", str(tmp_path / "tables"), str(ORDERS)])
    marker = tmp_path / "tables" / "_kproxy.json"
    said = json.loads(marker.read_text())
    said["tables"]["exchanges"]["contract"] -= 1
    marker.write_text(json.dumps(said))
    with pytest.raises(
        UsageError, match=r"tables was written by another kproxy: its exchanges has version \d+, this kproxy has"
    ):
        Database([tmp_path / "tables"])


def test_tables_that_are_not_complete_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["decode", "-q", "--format", "parquet", "-o", str(tmp_path), str(ORDERS)])
    (tmp_path / "exchanges" / "part-00000.parquet").unlink()
    with pytest.raises(UsageError, match="is not complete: its table exchanges is gone"):
        Database([tmp_path])
    (tmp_path / MARKER).unlink()
    with pytest.raises(UsageError, match=r"is not complete: it has no _kproxy\.json, which is written last"):
        Database([tmp_path])


def test_damage_is_told_and_what_comes_before_it_is_there(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(ORDERS.read_bytes()[:-1000])
    with Database([cut]) as database:
        assert len(database.damages) == 1
        assert rows(database, "SELECT count(*) > 10 FROM exchanges") == [(True,)]


def test_two_sources_are_the_sides_of_a_diff() -> None:
    with Database([ORDERS, ORDERS], compare=True) as database:
        counted = rows(database, f"SELECT side, count(*) {INSIDE} GROUP BY side ORDER BY side")
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


def test_both_ends_are_instants() -> None:
    assert parse_span("--before", "1970-01-01T00:00:01Z/1970-01-01T01:00:02.5+01:00") == (1_000_000, 2_500_000)
    assert parse_span("--before", "1970-01-02/1970-01-03") == (86_400_000_000, 172_800_000_000)


def test_an_end_may_be_left_out() -> None:
    assert parse_span("--after", "1970-01-01T00:00:01Z/") == (1_000_000, ALWAYS[1])
    assert parse_span("--after", "/") == ALWAYS


@pytest.mark.parametrize(
    ("text", "words"), [("now", "wants FROM/TO"), ("x/", "is no time"), ("1971-01-01/1970-01-01", "ends before")]
)
def test_what_is_no_range_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"--after.*{words}"):
        parse_span("--after", text)


OPENED = """
import sys
from kproxy.analyses.duck import Database
with Database([]) as database:
    database.connection.execute("CREATE TABLE large AS SELECT range AS n FROM range(100000)")
    print("there", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, of this process and of those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process with a database that is open."""
    process = subprocess.Popen([sys.executable, "-c", OPENED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        yield process
        process.kill()


def test_a_killed_process_leaves_nothing_for_long(folder: Path, other: subprocess.Popen[bytes]) -> None:
    (left,) = folder.iterdir()
    with Database([]):
        assert left.is_dir(), "it lives, and so does its directory"
    other.kill()
    other.wait(30)
    assert left.is_dir()
    with Database([]):
        assert not left.exists()
    assert list(folder.iterdir()) == []


def test_what_is_not_ours_stays(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (folder / f"{PREFIX}link").symlink_to(elsewhere)
    (folder / f"{PREFIX}file").touch()
    (folder / f"{PREFIX}begun").mkdir()  # by a process that has not come to its lock yet
    (folder / f"{PREFIX}linked").mkdir()
    (folder / f"{PREFIX}linked" / LOCK).symlink_to(elsewhere / LOCK)
    before = sorted(folder.rglob("*"))
    ScratchDirectory().cleanup()
    assert sorted(folder.rglob("*")) == before
    os.utime(folder / f"{PREFIX}begun", (0, 0))  # it will not come any more
    ScratchDirectory().cleanup()
    assert {*before} - {*folder.rglob("*")} == {folder / f"{PREFIX}begun"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_another_users_stays(folder: Path) -> None:
    theirs = folder / f"{PREFIX}theirs"
    theirs.mkdir()
    (theirs / LOCK).touch()
    os.chown(theirs, 65_534, 65_534)
    ScratchDirectory().cleanup()
    assert theirs.is_dir()


ENDLESS = "SELECT sum(a.range * b.range) AS total FROM range(10000000) AS a, range(10000000) AS b"


def test_a_query_that_is_interrupted() -> None:
    ended = threading.Event()
    with duckdb.connect() as connection:

        def interrupt() -> None:
            while not ended.wait(0.05):
                connection.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt), ends_at_interrupt():
                connection.execute(ENDLESS).fetchall()
        finally:
            ended.set()
            thread.join()


def test_what_duckdb_says_of_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), ends_at_interrupt():
        raise RuntimeError("Query interrupted")


def test_what_a_program_ends_itself_in_another_thread_is_no_ctrl_c() -> None:
    found: list[BaseException] = []

    def query() -> None:
        try:
            with ends_at_interrupt():
                raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=query)
    thread.start()
    thread.join()
    assert [type(error) for error in found] == [duckdb.InterruptException]


def test_other_errors_are_themselves() -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.CatalogException), ends_at_interrupt():
        connection.execute("FROM nowhere")
