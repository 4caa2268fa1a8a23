"""Values of CEL as SQL: the text, its type, and what its NULL means.

A NULL is CEL's null, or an error of CEL (parts.py: an error is a row that is not selected). One that may be either is taken only
where null is an error too.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Type: TypeAlias = Literal["integer", "unsigned", "number", "text", "truth", "texts", "stamp", "moment", "span", "null"]
NUMBERS = ("integer", "unsigned", "number")
STAMPS = ("stamp", "moment")
SIMPLE = frozenset({*NUMBERS, "text", "truth", "null"})
LEAST = "CAST('-9223372036854775808' AS BIGINT)"
SIZED = {"integer": "BIGINT", "unsigned": "UBIGINT"}
WHOLE = "TRY_CAST({} AS {})"  # NULL beyond 64 bits, where CEL fails


class Value(Struct, frozen=True):
    """An expression. Stamps are nanoseconds since the epoch, from 0, in 64 bits; moments of any size; spans nanoseconds."""

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


def of_unsigned(value: int) -> Value:
    """A literal as ``5u``."""
    return Value(f"CAST('{value}' AS UBIGINT)", "unsigned", literal=value)


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
    return value if value.type == "number" else replace(value, sql=f"CAST({value.sql} AS DOUBLE)", type="number")


def _as_wide(value: Value) -> Value:
    """An integer that is compared with one of another size or sign."""
    return replace(value, sql=f"CAST({value.sql} AS HUGEINT)")


def may_fail(*values: Value) -> bool:
    """Whether an operation that takes no null fails for some rows."""
    return any(value.nullable or value.fails for value in values)


def comparable(left: Value, right: Value) -> tuple[Value, Value] | None:
    """Both as values of one type, where they have one in CEL."""
    if left.type in NUMBERS and right.type in NUMBERS:
        if left.type == right.type:
            return left, right
        convert = as_double if "number" in (left.type, right.type) else _as_wide
        return convert(left), convert(right)
    if left.type in STAMPS and right.type in STAMPS:
        return _as_wide(left), _as_wide(right)
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
    if failing and (nullable or pair is None or left.nan or right.nan):
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


def computed(operator: str, left: Value, right: Value) -> Value | None:  # noqa: PLR0911 - a case a pair of types
    """``left + right`` and the like; None of what SQL does in another way."""
    fails = may_fail(left, right)
    if left.type == right.type == "number" and operator in "+-*/":
        return Value(f"({left.sql} {operator} {right.sql})", "number", fails=fails, nan=True)
    if left.type == right.type and left.type in SIZED:
        return _whole(operator, left, right)
    if left.type == right.type == "text" and operator == "+":
        return Value(f"({left.sql} || {right.sql})", "text", fails=fails, plain=left.plain and right.plain)
    if (left.type, operator, right.type) == ("stamp", "-", "stamp"):
        return Value(f"({left.sql} - {right.sql})", "span", fails=fails)
    if (left.type, right.type) == ("stamp", "span") and operator in "+-":
        return Value(f"(CAST({left.sql} AS HUGEINT) {operator} CAST({right.sql} AS HUGEINT))", "moment", fails=fails)
    if left.type == right.type == "texts" and operator == "+" and not (left.fails or right.fails):
        both = f"{left.sql} IS NOT NULL AND {right.sql} IS NOT NULL"
        return Value(f"(CASE WHEN {both} THEN list_concat({left.sql}, {right.sql}) END)", "texts", fails=fails)
    return FAILED if {left.type, right.type} <= SIMPLE else None  # CEL converts nothing


def _whole(operator: str, left: Value, right: Value) -> Value:
    kind = SIZED[left.type]
    if operator in "/%" and right.literal not in (None, 0, -1):  # it cannot fail, and needs no more bits
        sql = f"({left.sql} {'//' if operator == '/' else operator} {right.sql})"
        return Value(sql, left.type, fails=may_fail(left))
    wide = "UHUGEINT" if left.type == "unsigned" and operator == "*" else "HUGEINT"  # 2^64 * 2^64 is beyond the other
    a, b = (f"CAST({value.sql} AS {wide})" for value in (left, right))
    if operator in "/%":
        b = f"NULLIF({b}, 0)"
    sql = WHOLE.format(f"({a} {'//' if operator == '/' else operator} {b})", kind)
    if operator == "%":  # it fails where the division fails: of the least number by -1
        sql = f"(CASE WHEN {WHOLE.format(f'({a} // {b})', kind)} IS NOT NULL THEN {sql} END)"
    return Value(sql, left.type, fails=True)


def opposite(of: Value) -> Value | None:
    """``-of``; None of what SQL does in another way."""
    if of.type == "number":
        return replace(of, sql=f"(-{of.sql})", nullable=False, fails=may_fail(of), literal=None)
    if of.type == "integer":  # in CEL that of the least number is itself
        sql = f"CAST(CASE WHEN {of.sql} = {LEAST} THEN {of.sql} ELSE -CAST({of.sql} AS HUGEINT) END AS BIGINT)"
        return Value(sql, "integer", fails=may_fail(of))
    return FAILED if of.type in SIMPLE else None


def _unless_nan(sql: str, otherwise: str, *values: Value) -> str:
    doubtful = [f"isnan({value.sql})" for value in values if value.nan]
    return f"(CASE WHEN {' OR '.join(doubtful)} THEN {otherwise} ELSE {sql} END)" if doubtful else sql


def unless_failing(values: Iterable[Value], found: Value) -> Value:
    """What is found where none of the values fails; it is an error where one does."""
    failing = [value.sql for value in values if value.fails]
    if not failing:
        return found
    whole = " AND ".join(f"{one} IS NOT NULL" for one in failing)
    return replace(found, sql=f"(CASE WHEN {whole} THEN {found.sql} END)", fails=True, literal=None, nanoseconds="")
