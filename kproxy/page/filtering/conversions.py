"""Conversions of CEL as SQL: string(), int(), uint(), double(), timestamp(), duration()."""

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from kproxy.page.filtering import instants
from kproxy.page.filtering.values import FAILED, NUMBERS, Value, may_fail

NO_NUMBERS = frozenset({"truth", "null", "stamp", "moment", "span"})  # types that CEL makes no number of
LONGEST_DOUBLE = 400  # characters of SQL, which are repeated in that of the text
# As Rust writes it: all digits, however many, and no exponent; DuckDB has the same digits (both the fewest that are exact)
DIGITS = "replace(regexp_extract({text}, '^-?([0-9.]+)e', 1), '.', '')"
EXPONENT = "CAST(regexp_extract({text}, 'e.([0-9]+)$', 1) AS INTEGER)"
OF_DOUBLE = (
    "(CASE WHEN contains({text}, 'e') THEN CASE WHEN {text}[1] = '-' THEN '-' ELSE '' END || CASE WHEN contains({text}, 'e-')"
    f" THEN '0.' || repeat('0', {EXPONENT} - 1) || {DIGITS} ELSE rpad({DIGITS}, {EXPONENT} + 1, '0') END"
    " WHEN ends_with({text}, '.0') THEN {text}[:-3] WHEN {text} IN ('nan', '-nan') THEN 'NaN' ELSE {text} END)"
)


def converted(function: str, of: Value) -> Value | None:
    """``function(of)``; None of what SQL does in another way."""
    convert = CONVERSIONS.get(function)
    return None if convert is None else convert(of)


def _to_text(of: Value) -> Value | None:
    fails = may_fail(of)
    if of.type in ("integer", "unsigned"):
        return Value(f"CAST({of.sql} AS VARCHAR)", "text", fails=fails, plain=True)
    if of.type == "text":
        return replace(of, nullable=False, fails=fails, literal=None)
    if of.type == "number" and len(of.sql) <= LONGEST_DOUBLE:
        return Value(OF_DOUBLE.format(text=f"CAST({of.sql} AS VARCHAR)"), "text", fails=fails, plain=True)
    if of.type in ("truth", "null"):
        return FAILED
    return instants.text_of(of) if of.type == "stamp" else None


def _to_double(of: Value) -> Value | None:
    if of.type not in NUMBERS:
        return FAILED if of.type in NO_NUMBERS else None
    sql = f"CAST({of.sql} AS DOUBLE)"
    return replace(of, sql=sql, type="number", nullable=False, fails=may_fail(of), literal=None)


def _to_integer(of: Value) -> Value | None:
    if of.type == "text":
        sql = f"(CASE WHEN regexp_full_match({of.sql}, '[+-]?[0-9]+') THEN TRY_CAST({of.sql} AS BIGINT) END)"
        return Value(sql, "integer", fails=True)
    inside = f"{of.sql} > -9223372036854775808.0::DOUBLE AND {of.sql} < 9223372036854775807.0::DOUBLE"
    return _to_whole(of, "integer", "BIGINT", inside)


def _to_unsigned(of: Value) -> Value | None:
    return _to_whole(of, "unsigned", "UBIGINT", f"{of.sql} >= 0 AND {of.sql} < 18446744073709551616.0::DOUBLE")


def _to_whole(of: Value, kind: Literal["integer", "unsigned"], in_sql: str, inside: str) -> Value | None:
    """As a type of whole numbers; *inside*: the condition, in SQL, that a double is among them."""
    if of.type == kind:
        return replace(of, nullable=False, fails=may_fail(of), literal=None)
    if of.type in ("integer", "unsigned"):
        return Value(f"TRY_CAST({of.sql} AS {in_sql})", kind, fails=True)
    if of.type == "number":  # what is no number is beyond all of them
        return Value(f"(CASE WHEN {inside} THEN CAST(trunc({of.sql}) AS {in_sql}) END)", kind, fails=True)
    return FAILED if of.type in NO_NUMBERS else None


CONVERSIONS: dict[str, Callable[[Value], Value | None]] = {
    "string": _to_text,
    "double": _to_double,
    "int": _to_integer,
    "uint": _to_unsigned,
    "timestamp": instants.stamp_of,
    "duration": instants.span_of,
    "dyn": lambda of: of,
}
