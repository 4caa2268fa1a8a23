"""Values of CEL as SQL: the text, its type, and what its NULL means.

A NULL is CEL's null, or an error of CEL; never either of them (parts.py: an error is a row that is not selected).
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Type: TypeAlias = Literal["integer", "number", "text", "truth", "texts", "stamp", "span", "null"]
NUMBERS = ("integer", "number")
LEAST = "CAST('-9223372036854775808' AS BIGINT)"
WHOLE = "TRY_CAST({} AS BIGINT)"  # NULL beyond 64 bits, where CEL fails


class Value(Struct, frozen=True):
    """An expression. Stamps are nanoseconds since the epoch, spans nanoseconds."""

    sql: str
    type: Type
    nullable: bool = False  # NULL is null
    fails: bool = False  # NULL is an error
    nan: bool = False  # may be no number
    plain: bool = False  # ASCII without control characters
    nanoseconds: str = ""  # of a time as text: the time itself
    literal: str | int | float | bool | None = None


FAILED = Value("NULL::BOOLEAN", "truth", fails=True)
NULL = Value("NULL", "null", nullable=True)


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def of_literal(value: str | float | bool | None) -> Value:
    """A literal."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return Value("true" if value else "false", "truth", literal=value)
    if isinstance(value, int):
        return Value(f"CAST('{value}' AS BIGINT)", "integer", literal=value)
    if isinstance(value, float):
        return Value(f"CAST('{value!r}' AS DOUBLE)", "number", literal=value)
    plain = value.isascii() and value.isprintable()
    return Value(quoted(value), "text", plain=plain, literal=value)


def as_double(value: Value) -> Value:
    """A number as a double."""
    return replace(value, sql=f"CAST({value.sql} AS DOUBLE)", type="number") if value.type == "integer" else value


def may_fail(*values: Value) -> bool:
    """Whether an operation that takes no null fails for some rows."""
    return any(value.nullable or value.fails for value in values)


def comparable(left: Value, right: Value) -> tuple[Value, Value] | None:
    """Both as values of one type, where they have one in CEL."""
    if left.type in NUMBERS and right.type in NUMBERS:
        return (left, right) if left.type == right.type else (as_double(left), as_double(right))
    return (left, right) if left.type == right.type != "null" else None


def equal(left: Value, right: Value) -> Value:
    """``left == right``. Null is equal to null alone; values of two types are not equal."""
    pair = comparable(left, right)
    nullable = left.nullable or right.nullable
    failing = [value.sql for value in (left, right) if value.fails]
    if pair is not None:
        sql = f"({pair[0].sql} {'IS NOT DISTINCT FROM' if nullable else '='} {pair[1].sql})"
        sql = _unless_nan(sql, "false", *pair)
    else:
        sql = f"({left.sql} IS NULL AND {right.sql} IS NULL)" if left.nullable and right.nullable else "false"
    if failing and (nullable or pair is None):
        whole = " AND ".join(f"{one} IS NOT NULL" for one in failing)
        sql = f"(CASE WHEN {whole} THEN {sql} END)"
    return Value(sql, "truth", fails=bool(failing))


def ordered(operator: str, left: Value, right: Value) -> Value:
    """``left < right`` and the like."""
    pair = comparable(left, right)
    if pair is None or left.type in ("truth", "texts"):
        return FAILED
    sql = _unless_nan(f"({pair[0].sql} {operator} {pair[1].sql})", "NULL", *pair)
    return Value(sql, "truth", fails=may_fail(left, right) or pair[0].nan or pair[1].nan)


def computed(operator: str, left: Value, right: Value) -> Value | None:
    """``left + right`` and the like; None of what SQL does in another way."""
    fails = may_fail(left, right)
    if left.type == right.type == "number" and operator in "+-*/":
        return Value(f"({left.sql} {operator} {right.sql})", "number", fails=fails, nan=True)
    if left.type == right.type == "integer":
        return _whole(operator, left, right)
    if left.type == right.type == "text" and operator == "+":
        return Value(f"({left.sql} || {right.sql})", "text", fails=fails, plain=left.plain and right.plain)
    if (left.type, operator, right.type) == ("stamp", "-", "stamp"):
        return Value(f"({left.sql} - {right.sql})", "span", fails=fails)
    return None


def _whole(operator: str, left: Value, right: Value) -> Value:
    a, b = (f"CAST({value.sql} AS HUGEINT)" for value in (left, right))
    if operator in "/%":
        b = f"NULLIF({b}, 0)"
    sql = WHOLE.format(f"({a} {'//' if operator == '/' else operator} {b})")
    if operator == "%":  # it fails where the division fails: of the least number by -1
        sql = f"(CASE WHEN {WHOLE.format(f'({a} // {b})')} IS NOT NULL THEN {sql} END)"
    return Value(sql, "integer", fails=True)


def opposite(of: Value) -> Value | None:
    """``-of``; None of what has none."""
    if of.type == "number":
        return replace(of, sql=f"(-{of.sql})", nullable=False, fails=may_fail(of), literal=None)
    if of.type == "integer":  # in CEL that of the least number is itself
        sql = f"CAST(CASE WHEN {of.sql} = {LEAST} THEN {of.sql} ELSE -CAST({of.sql} AS HUGEINT) END AS BIGINT)"
        return Value(sql, "integer", fails=may_fail(of))
    return None


def _unless_nan(sql: str, otherwise: str, *values: Value) -> str:
    doubtful = [f"isnan({value.sql})" for value in values if value.nan]
    return f"(CASE WHEN {' OR '.join(doubtful)} THEN {otherwise} ELSE {sql} END)" if doubtful else sql
