"""Spark SQL on DuckDB: values of the constructs where the two differ are those that Spark documents."""

from typing import Any

import duckdb
import pytest

from kproxy.analyses.translate import MACROS, parameters_in, tables_in, to_duckdb


def evaluated(sql: str, **parameters: Any) -> Any:
    with duckdb.connect(config={"autoload_known_extensions": "false"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for macro in MACROS:
            connection.execute(macro)
        return connection.execute(to_duckdb(sql), parameters or None).fetchall()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("round(2.675D, 2)", 2.68),  # Spark: the decimal text, half up; in binary it is a little less
        ("round(-2.675D, 2)", -2.68),
        ("round(1e300, 2)", 1e300),
        ("round(2.5D)", 3.0),
        ("7 DIV 2", 3),
        ("7 / 2", 3.5),
        ("7 / nullif(0, 0)", None),
        ("unix_micros(timestamp_micros(1795236600177689))", 1795236600177689),
        ("element_at(array('a', 'b'), 1)", "a"),
        ("array('a', 'b')[0]", "a"),
        ("size(array(1, 2, 3))", 3),
        ("array_contains(array('a'), 'a')", True),
        ("array_join(array('a', 'b'), ',')", "a,b"),
        ("concat_ws('-', 'a', 'b')", "a-b"),
        ("count_if(true)", 1),
        ("NULL <=> NULL", True),
    ],
)
def test_a_value_is_what_spark_says(expression: str, value: object) -> None:
    assert evaluated(f"SELECT {expression} AS x") == [(value,)]


def test_percentiles_interpolate() -> None:
    numbers = "(VALUES (1.0D), (2.0D), (4.0D), (8.0D)) AS t(x)"
    assert evaluated(f"SELECT round(percentile(x, 0.5), 3), percentile(x, 0.9) FROM {numbers}") == [
        (3.0, pytest.approx(6.8))
    ]


def test_sets_and_lists_of_nothing_are_empty() -> None:
    found = evaluated("SELECT collect_set(x), size(collect_list(x)) FROM (VALUES (CAST(NULL AS STRING))) AS t(x)")
    assert found == [([], 0)]


def test_nulls_are_the_least() -> None:
    values = "(VALUES (2), (NULL), (1)) AS t(x)"
    assert evaluated(f"SELECT x FROM {values} ORDER BY x") == [(None,), (1,), (2,)]
    assert evaluated(f"SELECT x FROM {values} ORDER BY x DESC") == [(2,), (1,), (None,)]


def test_arrays_are_exploded() -> None:
    sql = "SELECT k, v FROM (SELECT 'a' AS k, array(3, 1) AS vs) AS t LATERAL VIEW explode(vs) AS v ORDER BY v"
    assert evaluated(sql) == [("a", 1), ("a", 3)]


def test_parameters_are_named() -> None:
    assert evaluated("SELECT :low + 1, :name AS name", low=1, name="it's") == [(2, "it's")]
    assert parameters_in("SELECT :low + 1 FROM x WHERE y > :high") == {"low", "high"}


def test_tables_are_those_that_are_not_defined_in_the_query() -> None:
    assert tables_in("WITH a AS (SELECT * FROM exchanges) SELECT * FROM a JOIN (SELECT * FROM Clients) b ON true") == (
        "clients", "exchanges",
    )  # fmt: skip
