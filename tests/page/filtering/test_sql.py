"""Conditions as SQL give what CEL gives, value by value."""

from typing import Any

import cel
import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.times import render_instant
from kproxy.page.columns import COLUMNS
from kproxy.page.filtering.sql import condition_sql

TYPES = {
    **{"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "truth": "BOOLEAN", "time": "BIGINT"},
    **{"texts": "VARCHAR[]"},
}
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 5)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
TIMES = st.integers(0, 4_000_000_000_000_000_000)
AT = 1_763_717_797_123_456_000
VALUES: dict[str, Any] = {
    **{"integer": INTEGERS, "number": DOUBLES, "truth": st.booleans(), "time": TIMES},
    **{"text": TEXTS, "texts": st.lists(TEXTS)},
}
NAMES = [name for name, column in COLUMNS.items() if column.in_log]


def literal(value: Any) -> str:
    if isinstance(value, str):
        return (
            '"' + value + '"'
            if '"' not in value and "\\" not in value and "\n" not in value and "\r" not in value
            else '""'
        )
    return (
        {True: "true", False: "false", None: "null"}.get(value, repr(value))
        if not isinstance(value, float)
        else repr(value)
    )


@pytest.fixture(scope="module")
def database() -> Any:
    with duckdb.connect() as connection:
        yield connection


@given(st.data())
def test_values_compare_as_in_cel(database: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    column = COLUMNS[name]
    value = data.draw(st.none() | VALUES[column.type])
    other = data.draw(
        st.one_of(st.none(), st.just(value), *(VALUES[kind] for kind in ("integer", "number", "text", "truth")))
    )
    if column.type == "time":
        near = render_instant(AT if value is None else value)
        other = data.draw(
            st.sampled_from(
                [render_instant(data.draw(TIMES)), "2026", "", near, near[:-4], near[:17], near[:-1] + "0Z"]
            )
        )
    operator = data.draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
    pair = [name, literal(other)]
    condition = f" {operator} ".join(pair if data.draw(st.booleans()) else pair[::-1])
    found = condition_sql(condition)
    if found is None:
        return
    assert found[0] == {name}
    seen = render_instant(value) if column.type == "time" and value is not None else value
    try:
        expected = cel.compile(condition).execute({name: seen})
    except TypeError:
        expected = None
    query = f"SELECT {found[1].replace(column.sql, 'v')} FROM (SELECT CAST($value AS {TYPES[column.type]}) AS v)"
    assert database.execute(query, {"value": value}).fetchone() == (expected,), (condition, query)


IN_SQL = [
    'apiName == "Fetch"', "5 < latencyMs", "latencyMs >= -1.5e3", "clientId != null", "apiKey == 3", "apiKey in [3, -4]",
    'requestAt < "2026-11-22T10"', "requestAt.startsWith('2026-11')", "correlationId == -1", "clientId in ['a', \"b'c\"]",
    '"orders" in topics', "null == layout", "requestSize + correlationId > 5", "(requestSize - 3) * 2 - 5 == correlationId % 7",
    "requestSize > responseSize",
]  # fmt: skip
LEFT_TO_CEL = [
    "request.x == 1", "a", "apiKey", "expectsResponse", "null", "{'a': 1} == {}", r"apiName == '\000'", "apiKey == 1.5",
    "apiKey == 0x10", "clientId < 'a'", "errorNames == null", "apiKey in []", "apiKey in [1, 'a']", "1 in topics",
    "latencyMs == 9007199254740993", "trailing == null", "apiKey == 3 == true", "apiKey == requestSize + 1", "1 + 1 > 1",
    "latencyMs + 1.0 > 2.0", "-apiKey > 1",
]  # fmt: skip


def test_what_people_write_is_sql_and_all_else_is_left_to_cel() -> None:
    assert [condition for condition in IN_SQL if condition_sql(condition) is None] == []
    assert [condition for condition in LEFT_TO_CEL if condition_sql(condition) is not None] == []
    for condition in LEFT_TO_CEL:
        cel.compile(condition)


def test_what_is_null_has_no_order_and_is_equal_to_null_alone(database: Any) -> None:
    for name, other in (
        ("clientId", '"a"'),
        ("latencyMs", "1.5"),
        ("apiKey", "1"),
        ("apiKey", "-1"),
        ("requestAt", '"2"'),
    ):
        for operator in ("==", "!=", "<", ">="):
            condition = f"{name} {operator} {other}"
            found = condition_sql(condition)
            assert (found is None) == (name == "clientId" and operator in ("<", ">=")), condition
            if found is not None:
                sql = found[1].replace(COLUMNS[name].sql, f"CAST(NULL AS {TYPES[COLUMNS[name].type]})")
                expected = operator == "!=" if operator in ("==", "!=") else None
                assert database.execute(f"SELECT {sql}").fetchone() == (expected,), condition


SUMS = st.recursive(
    st.sampled_from(["requestSize", "correlationId", "apiKey", "0", "3", "-2", "100000000000000"]),
    lambda inner: st.tuples(st.sampled_from(["{} {} {}", "({} {} {})"]), inner, st.sampled_from("+-*/%"), inner).map(
        lambda made: made[0].format(*made[1:])
    ),
    max_leaves=5,
)


@given(SUMS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), SUMS, st.tuples(*[st.none() | INTEGERS] * 3))
def test_sums_of_integers_are_those_of_cel(database: Any, left: str, operator: str, right: str, values: Any) -> None:
    condition, row = (
        f"{left} {operator} {right}",
        dict(zip(["requestSize", "correlationId", "apiKey"], values, strict=True)),
    )
    found = condition_sql(condition)
    if found is None:
        assert operator in ("==", "!=") or not any(name in condition for name in row)
        return
    try:
        expected = cel.compile(condition).execute(row)
    except (TypeError, RuntimeError, ValueError, ArithmeticError):
        expected = None
    columns = ", ".join(f"CAST(${name} AS BIGINT) AS {COLUMNS[name].sql.removeprefix('e.')}" for name in row)
    assert database.execute(f"SELECT {found[1]} FROM (SELECT {columns}) e", row).fetchone() == (expected,), condition


def test_lists_and_members(database: Any) -> None:
    values: dict[str, list[Any]] = {"clientId": ["a", "b'c", "", None], "topics": [["a"], [], ["b", "a"], None]}
    for condition in (
        "clientId.startsWith('a')",
        'clientId.matches("(?i)B")',
        "topics.exists(x, x.endsWith('b'))",
        'topics.exists(t, t.matches("(?i)A"))',
        'clientId.matches("(?i)\\\\:")',
        "clientId in ['a', \"b'c\"]",
        "'a' in topics",
        "clientId == null",
        "clientId != 'a'",
    ):
        found = condition_sql(condition)
        assert found is not None
        (name,) = found[0]
        kind = "VARCHAR[]" if name == "topics" else "VARCHAR"
        for value in values[name]:
            try:
                expected = cel.compile(condition).execute({name: value})
            except (TypeError, RuntimeError):
                expected = None
            query = f"SELECT {found[1].replace(COLUMNS[name].sql, 'v')} FROM (SELECT CAST($value AS {kind}) AS v)"
            assert database.execute(query, {"value": value}).fetchone() == (expected,), (condition, value)
