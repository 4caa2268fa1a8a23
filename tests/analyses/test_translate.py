"""Spark SQL becomes DuckDB's, with the same answers; translations are kept between runs."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kproxy.analyses.rewriting import tables_in_duckdb, translated
from kproxy.analyses.translate import MACROS, Cache, Translation, tables_in, to_duckdb, users_cache
from kproxy.errors import ConfigError


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


def test_tables_are_those_that_are_not_defined_in_the_query() -> None:
    assert tables_in("WITH a AS (SELECT * FROM exchanges) SELECT * FROM a JOIN (SELECT * FROM Clients) b ON true") == (
        "clients", "exchanges",
    )  # fmt: skip


ONE = Translation(["exchanges"], "SELECT 1")


def test_what_was_put_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.json"
    cache = Cache(path)
    assert cache.get("SELECT one") is None
    cache.put("SELECT one", ONE)
    cache.save()
    assert Cache(path).get("SELECT one") == ONE
    assert Cache(path).get("SELECT two") is None
    assert [entry.name for entry in path.parent.iterdir()] == ["cache.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff"])
def test_a_damaged_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cache.json"
    path.write_bytes(content)
    cache = Cache(path)
    assert cache.get("SELECT one") is None
    cache.put("SELECT one", ONE)
    cache.save()
    assert Cache(path).get("SELECT one") == ONE


def test_without_a_place_to_write_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (None, tmp_path / "file" / "cache.json"):
        cache = Cache(path)
        cache.put("SELECT one", ONE)
        cache.save()


def test_another_translator_has_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for text in ("old", "new"):
        (tmp_path / "translate.py").write_text(text, encoding="utf-8")
        cache = users_cache(tmp_path / "translate.py")
        assert cache.get("SELECT one") is None
        cache.put("SELECT one", ONE)
        cache.save()
    assert len(list((tmp_path / "kproxy").iterdir())) == 2


def test_a_translation_has_tables_and_the_query() -> None:
    found = translated("WITH own AS (SELECT * FROM Exchanges) SELECT count(*) AS n FROM own, errors WHERE n > :least")
    assert found.tables == ["errors", "exchanges"]
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
