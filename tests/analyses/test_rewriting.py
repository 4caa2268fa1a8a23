"""What sqlglot is asked for: one SELECT of Spark SQL with the place of a mistake, and the tables of a person's query."""

import re

import pytest

from kproxy.analyses.rewriting import tables_in_duckdb, translated
from kproxy.errors import ConfigError


def test_a_translation_has_tables_parameters_and_the_query() -> None:
    found = translated("WITH own AS (SELECT * FROM Exchanges) SELECT count(*) AS n FROM own, errors WHERE n > :least")
    assert (found.tables, found.parameters) == (["errors", "exchanges"], ["least"])
    assert found.duckdb.endswith('WHERE "n" > $least')


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT\n  1 +", r"a\.sql:2:\d+: "),
        ("SELECT 'open", r"a\.sql:1:1: it is no SQL: "),
        ("SELECT 1; SELECT 2", "write one SELECT"),
        ("DROP TABLE exchanges", "write one SELECT"),
    ],
)
def test_a_mistake_has_its_place(sql: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        translated(sql, "a.sql")
    assert re.search(message, "\n".join(caught.value.lines()))


def test_the_tables_of_a_query_in_duckdbs_sql() -> None:
    assert tables_in_duckdb("FROM Exchanges JOIN errors USING (connection_id)") == {"exchanges", "errors"}
    assert tables_in_duckdb("SELECT (") == set()
