"""Users' queries read the tables and nothing else; the prompt completes them."""

from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kproxy.analyses.duck import Database
from kproxy.analyses.prompt import HELP, SqlCompleter, run_prompt
from kproxy.analyses.queries import Queries, check_query, mistake_of, rows_of
from kproxy.cli import main
from kproxy.errors import UsageError
from tests.support.corpus import CAPTURES

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"


@pytest.fixture(scope="module")
def queries() -> Any:
    with Database([ORDERS]) as database:
        yield Queries(database)


def answer(queries: Queries, query: str) -> list[dict[str, Any]]:
    return list(rows_of(queries.run(query)))


def test_tables_facts_and_views_are_there(queries: Queries) -> None:
    assert answer(queries, "SELECT count(*) AS n FROM exchanges") == [{"n": 23}]
    assert answer(queries, "FROM error_codes SELECT name WHERE code = 16;") == [{"name": "NOT_COORDINATOR"}]
    assert len(answer(queries, "FROM clients")) == 5
    assert queries.columns()["clients"][0] == "connection_id"
    assert "exchanges" in queries.columns()
    assert "count" in queries.functions()


def test_views_of_ones_own_last_for_the_session(queries: Queries) -> None:
    assert answer(queries, "CREATE VIEW mine AS SELECT 7 AS seven") == []
    assert answer(queries, "FROM mine") == [{"seven": 7}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM 'https://127.0.0.1/x.parquet'",
        "CREATE TABLE stolen AS SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM ORDERS",  # a variable of this module
    ],
)
def test_files_network_and_variables_are_out_of_reach(queries: Queries, query: str) -> None:
    with pytest.raises(UsageError, match=r"disabled by configuration|does not exist"):
        answer(queries, query)


@pytest.mark.parametrize(
    "query",
    [
        "COPY exchanges TO 'x.csv'",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "SET memory_limit = '1MB'",
        "EXPORT DATABASE 'x'",
        "PRAGMA version",
    ],
)
def test_what_writes_or_configures_is_not_run(query: str) -> None:
    with pytest.raises(UsageError, match="is not run: a query reads the tables"):
        check_query(query)


def test_parquet_files_are_read_and_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["decode", "-q", "--format", "parquet", "-o", str(tmp_path / "tables"), str(ORDERS)])
    with Database([tmp_path / "tables"]) as database:
        queries = Queries(database)
        assert answer(queries, "SELECT count(*) AS n FROM exchanges") == [{"n": 23}]
        with pytest.raises(UsageError, match="disabled by configuration"):
            answer(queries, f"SELECT * FROM read_text('{tmp_path / 'tables' / '_kproxy.json'}')")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT 1 +", "line 1, column 10: Parser Error: syntax error"),
        (
            "SELECT api_name,\n  nope FROM exchanges",
            'line 2, column 3: Binder Error: Referenced column "nope" not found',
        ),
        ("FROM exchange", "line 1, column 6: Catalog Error: Table with name exchange does not exist!"),
        ("SELECT CAST('x' AS INT)", "Conversion Error"),
        ("SELECT 1; SELECT 2", "write one statement"),
        ("  ", "the query is empty"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(queries: Queries, query: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        answer(queries, query)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_tables_of_a_query_are_known_before_it_is_run() -> None:
    assert check_query("SELECT * FROM Exchanges e JOIN (FROM clients) USING (connection_id)") == {
        "exchanges",
        "clients",
    }


def test_messages_of_duckdb_are_harmless() -> None:
    assert mistake_of(ValueError("a\x1b[31m\nb\n\nLINE 12: xx y\n            ^")) == "line 12, column 4: a\\x1b[31m b"


COLUMNS = {"connections": ["connection_id", "capture"], "exchanges": ["connection_id", "api_name", "latency_ms"]}


def completed(text: str) -> list[str]:
    completer = SqlCompleter(COLUMNS, ["latest_of"])
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM ex", ["exchanges"]),
        ("SELECT * FROM ", ["connections", "exchanges"]),
        ("SELECT 1 FROM exchanges JOIN c", ["connections"]),
        ("SELECT exchanges.lat", ["latency_ms"]),
        ("SELECT 1 FROM exchanges AS e WHERE e.", ["connection_id", "api_name", "latency_ms"]),
        ("FROM exchanges SELECT lat", ["latency_ms", "latest_of"]),
        ("FROM connections SELECT api", []),
        ("SEL", ["SELECT"]),
        ("SELECT nothing.x", []),
        ("SELECT ", []),
    ],
)
def test_completion(text: str, found: list[str]) -> None:
    assert completed(text) == found


def typed(text: str) -> tuple[list[str], list[str]]:
    """What was run and what was said after someone typed the text."""
    run: list[str] = []
    said: list[str] = []

    def show(query: str) -> None:
        if "wrong" in query:
            raise UsageError("line 1, column 1: wrong")
        run.append(query)

    with create_pipe_input() as keys:
        keys.send_text(text)
        run_prompt(COLUMNS, [], show, said.append, terminal=(keys, DummyOutput()))
    return run, said


def test_a_query_ends_at_a_semicolon_and_may_have_lines() -> None:
    run, said = typed("SELECT 1\rFROM exchanges;\rSELECT 2;\r\x04")
    assert [" ".join(query.split()) for query in run] == ["SELECT 1 FROM exchanges;", "SELECT 2;"]
    assert said == [HELP]


def test_a_mistake_is_said_and_the_prompt_goes_on() -> None:
    run, said = typed("wrong;\rSELECT 3;\rexit\r")
    assert run == ["SELECT 3;"]
    assert said[1:] == ["line 1, column 1: wrong"]


def test_commands_describe_the_tables() -> None:
    _, said = typed("\\d\r\\d exchanges\r\\d nope\r\\x\r\\q\r")
    assert said[1].splitlines()[1].split() == ["exchanges", "3", "columns"]
    assert said[2:] == ["connection_id\napi_name\nlatency_ms", "there is no table 'nope'; \\d lists them", HELP]
