"""Conditions as SQL give what CEL gives, value by value."""

from typing import Any

import cel
import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.times import render_instant
from kproxy.page.columns import COLUMNS
from kproxy.page.filtering.parts import leaves, take_apart
from kproxy.page.filtering.sql import condition_sql
from tests.page.filtering.judged import Judge
from tests.page.filtering.made_conditions import Maker

TYPES = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "truth": "BOOLEAN", "time": "BIGINT"}
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 5)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
TIMES = st.integers(0, 4_000_000_000_000_000_000)
VALUES: dict[str, Any] = {"integer": INTEGERS, "number": DOUBLES, "text": TEXTS, "truth": st.booleans(), "time": TIMES}
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
        other = data.draw(
            st.sampled_from([render_instant(data.draw(TIMES)), "2026", "" if value is None else render_instant(value)])
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


@pytest.mark.parametrize(
    "condition",
    ['apiName == "Fetch"', "5 < latencyMs", "latencyMs >= -1.5e3", "clientId != null", "expectsResponse == true", "apiKey == 3",
     'requestAt < "2026-11-22T10"', "correlationId == -1", 'apiName == "a\\n"', 'apiName == r"a"', "apiKey + 1 == 2",
     "-apiKey == 1", "apiKey % apiVersion == 0",
     "apiKey == apiVersion", "apiKey in [3]", 'apiName == """x"""', "apiKey == 0x10", "apiKey == 3 == true", "groups == ['a']",
     "latencyMs * 2.0 > double(requestSize)", "requestSize + correlationId > 5", "client + clientId == 'a'",
     'string(requestAt).contains("7")', "latencyMs > 1.0 ? apiKey > 2 : apiKey < 2", "client.matches('^10[.].*7$')",
     "topics.exists(t, t.endsWith('9') || size(t) > 3)", "clientId in topics", "topics[0] == clientId",
     "timestamp(responseAt) - timestamp(requestAt) > duration('1s')", "timestamp(requestAt).getHours() == 10",
     "uint(correlationId) % 100u == 7u",
     "[requestSize, correlationId].exists(n, n % 100 == 7)", "string(latencyMs).contains('7')"],
)  # fmt: skip
def test_what_people_write_is_sql(condition: str) -> None:
    assert condition_sql(condition) is not None


@pytest.mark.parametrize(
    "condition",
    ["request.x == 1", "topics.map(t, 1) == [1]",
     "a", "apiKey", "expectsResponse", "null", "b'a' == b'b'", "{'a': 1} == {}",
     "double(clientId) == 1.0", r"apiName == '\000'",
     r"clientId.matches('\\d')", "topics.exists(t, t[0] == 'a')", "topics.map(t, t) == []",
     "(apiKey > 1 ? clientId : null) == 'a'", "trailing == null", "1" + " + 1" * 1_500 + " > 0"],
)  # fmt: skip
def test_all_else_is_left_to_cel(condition: str) -> None:
    cel.compile(condition)
    assert condition_sql(condition) is None


@pytest.mark.parametrize("operator", ["==", "!=", "<", ">="])
@pytest.mark.parametrize(
    ("name", "other"),
    [("clientId", '"a"'), ("latencyMs", "1.5"), ("apiKey", "1"), ("requestAt", '"2026"'), ("apiKey", "1.5")],
)
def test_what_is_null_has_no_order_and_is_equal_to_null_alone(
    database: Any, operator: str, name: str, other: str
) -> None:
    condition = f"{name} {operator} {other}"
    found = condition_sql(condition)
    assert found is not None
    sql = found[1].replace(COLUMNS[name].sql, f"CAST(NULL AS {TYPES[COLUMNS[name].type]})")
    try:
        expected = cel.compile(condition).execute({name: None})
    except TypeError:
        expected = None
    assert database.execute(f"SELECT {sql}").fetchone() == (expected,)


def judged(seed: int, count: int) -> list[object]:
    """Made conditions, and their parts, of which SQL gives something else than CEL."""
    judge = Judge(seed)
    maker = Maker(seed, judge.rows)
    conditions = [maker.condition() for _ in range(count)]
    made = [leaf.text for one in conditions if len(one) < 3_000 for leaf in leaves(take_apart(one)) if leaf.tokens]
    as_sql = [text for text in made if condition_sql(text) is not None]
    assert len(as_sql) > len(made) / 3
    found: list[object] = [difference for text in as_sql for difference in judge.differences(text)]
    judge.close()
    return found


def test_made_conditions_are_what_cel_makes_of_them() -> None:
    assert judged(1, 80) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_thousands_of_made_conditions(seed: int) -> None:
    assert judged(seed, 3_000) == []
