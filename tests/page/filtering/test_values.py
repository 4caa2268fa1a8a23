"""Operations on values as SQL give what CEL gives for integers and doubles at their edges."""

from typing import Any

import cel
import duckdb
import pytest

from kproxy.page.filtering.values import FAILED, NULL, Value, computed, equal, of_literal, opposite, ordered, quoted

INTEGERS = [0, 1, -1, 7, -7, 2, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1, 3_037_000_500]
DOUBLES = [0.0, -0.0, 1.5, -2.5, 1e308, -1e308, 9007199254740992.0, 5e-324]


@pytest.fixture(scope="module")
def database() -> Any:
    with duckdb.connect() as connection:
        yield connection


def in_cel(text: str, **values: Any) -> Any:
    """A value; None of an error."""
    try:
        return cel.compile(text).execute(values)
    except (ArithmeticError, TypeError):
        return None


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize("values", [INTEGERS, DOUBLES], ids=["integers", "doubles"])
def test_arithmetic(database: Any, operator: str, values: list[Any]) -> None:
    for a in values:
        for b in values:
            found = computed(operator, of_literal(a), of_literal(b))
            if found is None:
                assert operator == "%" and values is DOUBLES
                continue
            (answer,) = database.execute(f"SELECT {found.sql}").fetchone()
            expected = in_cel(f"a {operator} b", a=a, b=b)
            assert repr(answer) == repr(expected), (a, operator, b)


@pytest.mark.parametrize("operator", ["==", "<", "<=", ">", ">="])
def test_numbers_of_both_kinds_compare(database: Any, operator: str) -> None:
    not_a_number = Value("CAST('nan' AS DOUBLE)", "number", nan=True)
    operands = [(value, of_literal(value)) for value in INTEGERS + DOUBLES] + [(float("nan"), not_a_number)]
    for a, left in operands:
        for b, right in operands:
            found = equal(left, right) if operator == "==" else ordered(operator, left, right)
            assert database.execute(f"SELECT {found.sql}").fetchone() == (in_cel(f"a {operator} b", a=a, b=b),), (a, b)


def test_null_is_equal_to_null_alone_and_an_error_to_nothing(database: Any) -> None:
    text, missing = of_literal("it's"), Value("NULL::VARCHAR", "text", nullable=True)
    failed = Value("NULL::BIGINT", "integer", fails=True)
    for left, right, expected in (
        (missing, NULL, True), (missing, text, False), (missing, missing, True), (text, NULL, False), (text, text, True),
        (failed, text, None), (failed, NULL, None), (missing, failed, None), (failed, of_literal(1), None),
        (of_literal(1), text, False), (missing, Value("NULL::BIGINT", "integer", nullable=True), True),
    ):  # fmt: skip
        for pair in ((left, right), (right, left)):
            assert database.execute(f"SELECT {equal(*pair).sql}").fetchone() == (expected,), pair
    assert ordered("<", text, of_literal(1)) == FAILED
    assert quoted("it's") == "'it''s'"


def test_opposites(database: Any) -> None:
    for value in INTEGERS + DOUBLES:
        found = opposite(of_literal(value))
        assert found is not None
        assert repr(database.execute(f"SELECT {found.sql}").fetchone()) == repr((in_cel("-a", a=value),))
    assert opposite(of_literal("a")) == FAILED
    assert opposite(Value("x", "span")) is None
