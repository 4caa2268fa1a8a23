"""kproxy sql: rows in each form, exit codes, and what is said of wrong usage."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kproxy.analyses.duck import Database
from kproxy.analyses.facts import FACTS_TABLES, arrow_table
from kproxy.analyses.queries import Queries
from kproxy.output.tables import TABLES
from kproxy.protocol import facts
from tests.cli.conftest import Kproxy, Output
from tests.support.corpus import CAPTURES, ROOT
from tests.support.tables import MANIFEST

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
COUNT = "SELECT api_name, count(*) AS n FROM exchanges GROUP BY ALL ORDER BY n DESC, api_name LIMIT 2"


Sql = Callable[..., Output]


@pytest.fixture
def sql(kproxy: Kproxy) -> Sql:
    return partial(kproxy, "sql")


def test_a_table(sql: Sql) -> None:
    assert sql(ORDERS, COUNT) == (0, "api_name     n\nApiVersions  5\nFetch        3\n", "")


@pytest.mark.slow
def test_a_query_may_be_longer_than_the_name_of_a_file(sql: Sql) -> None:
    assert sql(ORDERS, f"{COUNT} -- {'x' * 5000}") == sql(ORDERS, COUNT)
    assert sql(ORDERS, "SELECT\n1\nAS\nn") == (0, "n\n1\n", "")


def test_a_query_may_begin_with_a_comment(sql: Sql) -> None:
    assert sql(ORDERS, "--of one line\nSELECT 1 AS one")[:2] == (0, "one\n  1\n")


def test_csv(sql: Sql) -> None:
    _, out, _ = sql(
        "--format", "csv", ORDERS, "SELECT client_ids, requests, user_name, true AS t FROM connections LIMIT 1"
    )
    (row,) = csv.DictReader(io.StringIO(out))
    assert (json.loads(row["client_ids"]), row["user_name"], row["t"]) == (["orders-producer"], "", "true")
    assert int(row["requests"]) > 0


@pytest.mark.parametrize(("form", "text"), [("table", "a  a_1\n1    2\n"), ("json", '[\n{"a":1,"a_1":2}\n]\n')])
def test_columns_of_one_name_are_numbered(sql: Sql, form: str, text: str) -> None:
    _, out, _ = sql("--format", form, ORDERS, "SELECT 1 AS a, x.a FROM (SELECT 2 AS a) x")
    assert out == text


def test_json_is_an_array(sql: Sql) -> None:
    assert json.loads(sql("--format", "json", ORDERS, COUNT)[1]) == [
        {"api_name": "ApiVersions", "n": 5},
        {"api_name": "Fetch", "n": 3},
    ]
    assert json.loads(sql("--format", "json", ORDERS, "SELECT 1 AS a WHERE false")[1]) == []


def test_explain_is_a_drawing(sql: Sql) -> None:
    code, out, _ = sql(ORDERS, "EXPLAIN SELECT 1")
    assert code == 0 and len(out.splitlines()) > 3


def test_records_are_filled_where_they_are_asked_for(sql: Sql) -> None:
    _, out, _ = sql("--format", "csv", ORDERS, "SELECT count(*) AS n FROM records WHERE direction = 'produce'")
    assert out == "n\n200\n"


def test_several_sources(sql: Sql) -> None:
    words = ("--format", "csv", ORDERS, CAPTURES / "05-admin.pcap")
    counted = "SELECT count(DISTINCT capture) AS n FROM connections"
    assert [sql(*more, *words, counted)[1] for more in ((), ("--separate",))] == ["n\n1\n", "n\n2\n"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a capture, a decoded log or a directory of tables"),
        (("gone.pcap", "SELECT 1"), "gone.pcap: no such file"),
        ((ORDERS, "gone.sql"), "gone.sql: no such file"),
        (("SELECT 1", ORDERS), 'sources come first, then one query: kproxy sql trace.pcapng "SELECT 1"'),
        (("SELECT 1",), "sources come first"),
        ((ORDERS, "SELECT 1", "SELECT 2"), "sources come first"),
        (("/dev/null", "SELECT 1"), "/dev/null: byte 0: the file is empty"),
        ((ORDERS, "SELECT nope FROM exchanges"), 'line 1, column 8: Binder Error: Referenced column "nope"'),
        ((ORDERS, "SELECT 1 +"), "line 1, column 10: Parser Error"),
        ((ORDERS, "DROP TABLE exchanges"), "DROP is not run"),
        ((ORDERS, "SELECT * FROM read_text('/etc/hostname')"), "disabled by configuration"),
    ],
)
def test_a_mistake_is_one_sentence(
    sql: Sql, words: tuple[object, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = sql(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("kproxy: ") and sentence in err


def test_damage_is_told_after_the_rows(sql: Sql, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(ORDERS.read_bytes()[:-1000])
    code, out, err = sql(cut, "SELECT count(*) > 10 AS enough FROM exchanges")
    assert (code, out) == (3, "enough\nyes\n")
    assert err.startswith("kproxy: ") and "cut.pcap" in err


def test_without_a_terminal_the_query_is_read_from_standard_input() -> None:
    program = [sys.executable, "-c", "from kproxy.cli import main; main()", "sql", str(ORDERS), "--format", "csv"]
    done = subprocess.run(
        program, input=b"SELECT count(*) AS n FROM exchanges;", capture_output=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"n\n23\n", b"")


def test_without_an_optional_package_it_names_the_extra(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert sql(ORDERS, "SELECT 1") == (2, "", "kproxy: this needs duckdb: pip install 'kproxy-kafka[sql]'\n")


def test_each_example_runs(sql: Sql) -> None:
    code, out, _ = sql("--examples")
    examples = [part.strip() for part in out.split(";")][:-1]
    assert code == 0 and len(examples) >= 20
    for capture, answered in ((ORDERS, 14), (CAPTURES / "04-transactions.pcap", 15)):
        with Database([capture]) as database:
            queries = Queries(database)
            rows = {example.splitlines()[0]: queries.run(example).read_all().to_pylist() for example in examples}
        assert sum(map(bool, rows.values())) >= answered
        (manifest,) = (row for row in MANIFEST if row["file"] == capture.name)
        keys = {api.name: key for key, api in facts().apis.items()}
        used = {
            f"{keys[row['api_name']]} v{row['api_version']}": row["requests"]
            for row in rows["-- Which APIs are used, at which versions, how often?"]
        }
        assert used == manifest["requests_by_api_and_version"]
        written = [
            row for row in rows["-- Who writes to each topic, and who reads it?"] if row["direction"] == "produce"
        ]
        assert sum(row["records"] for row in written) >= sum(manifest["expect"]["records_produced_acked"].values())


def test_tables_and_columns_say_what_they_mean(sql: Sql) -> None:
    """The tables of the manual and of help, not the views that analyses are built on; with what a column means, never cut."""
    names = [line.split()[0] for line in sql(ORDERS, "SHOW TABLES")[1].splitlines()[1:]]
    assert names == [*TABLES, "api_versions", "releases", "error_codes"]
    described = sql(ORDERS, "describe offsets;")[1].splitlines()
    assert described[0].split() == ["column_name", "column_type", "meaning"]
    assert [line.split()[0] for line in described[1:]] == [column.name for column in TABLES["offsets"].columns]
    assert described[5].endswith("offset in the response to ListOffsets, -1 for none")
    for fact in ("api_versions", "releases", "error_codes"):
        assert {*FACTS_TABLES[fact].meanings} == {*arrow_table(fact).column_names}
    assert sql(ORDERS, "describe releases")[1].splitlines()[1].endswith("major.minor, as 3.9")
