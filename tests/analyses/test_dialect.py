"""Users' analyses may be in Spark SQL: what DuckDB refuses is translated, with the same answers."""

import re
from typing import Any

import duckdb
import pytest

from kproxy.analyses.dialect import in_duckdbs, prepare, tables_in
from kproxy.errors import ConfigError


def evaluated(sql: str, **parameters: Any) -> Any:
    with duckdb.connect(config={"autoload_known_extensions": "false"}) as connection:
        prepare(connection)
        return connection.execute(in_duckdbs(sql, "a.sql"), parameters or None).fetchall()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("unix_micros(timestamp_micros(1795236600177689))", 1795236600177689),
        ("element_at(array('a', 'b'), 1)", "a"),
        ("array_join(array('a', 'b'), ',')", "a,b"),
        ("size(array(1, 2, 3))", 3),
        ("7 DIV 2", 3),
    ],
)
def test_a_value_is_what_spark_says(expression: str, value: object) -> None:
    assert evaluated(f"SELECT {expression} AS x") == [(value,)]


def test_sets_and_lists_of_nothing_are_empty() -> None:
    found = evaluated("SELECT collect_set(x), size(collect_list(x)) FROM (VALUES (CAST(NULL AS STRING))) AS t(x)")
    assert found == [([], 0)]


def test_arrays_are_exploded_and_parameters_are_named() -> None:
    sql = "SELECT k, v FROM (SELECT :k AS k, array(3, 1) AS vs) AS t LATERAL VIEW explode(vs) AS v ORDER BY v"
    assert evaluated(sql, k="it's") == [("it's", 1), ("it's", 3)]


def test_nulls_are_the_least() -> None:
    values = "(VALUES (2), (NULL), (1)) AS t(x)"
    assert evaluated(f"SELECT x FROM {values} ORDER BY x") == [(None,), (1,), (2,)]
    assert evaluated(f"SELECT x FROM {values} ORDER BY x DESC") == [(2,), (1,), (None,)]


def test_what_duckdb_knows_stays_as_it_is() -> None:
    sql = "FROM exchanges SELECT list_sort(list(api_name)), $least LIMIT 3"
    assert in_duckdbs(sql, "a.sql") == sql


def test_tables_are_those_that_are_not_defined_in_the_query() -> None:
    assert tables_in("WITH a AS (FROM exchanges) SELECT * FROM a JOIN (SELECT * FROM Clients) b ON $x") == (
        "clients", "exchanges",
    )  # fmt: skip
    assert tables_in("SELECT (") == ()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT\n  1 +", r"a\.sql:2:\d+: .*syntax error"),
        ("SELECT no_such(1)", r"a\.sql:1:8: .*no_such"),
        ("SELECT 1; SELECT 2", "write one SELECT"),
        ("DROP TABLE exchanges", "write one SELECT"),
    ],
)
def test_a_mistake_has_its_place(sql: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        in_duckdbs(sql, "a.sql")
    assert re.search(message, "\n".join(caught.value.lines()))
