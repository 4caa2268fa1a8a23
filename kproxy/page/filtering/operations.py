"""Operations of conditions on values as SQL taking more than values.py knows. All raise Unknown for what SQL does otherwise."""

from collections.abc import Iterable

from kproxy.page.filtering import instants
from kproxy.page.filtering.lists import Listed
from kproxy.page.filtering.patterns import is_common
from kproxy.page.filtering.syntax import Unknown
from kproxy.page.filtering.values import FAILED, Value, equal, may_fail, ordered, unless_failing

SEARCHES = {"contains": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}


def known(value: Value | None) -> Value:
    """The value. Raises Unknown for None."""
    if value is None:
        raise Unknown
    return value


def distinct(value: Value) -> Value:
    """The value, whose NULL is either null or an error. Raises Unknown of one whose NULL may be both."""
    if value.nullable and value.fails:
        raise Unknown
    return value


def whole(values: Iterable[Value], found: Value) -> Value:
    """What is found where none of the values fails; it is an error where one does."""
    values = list(values)
    if found.nullable and any(value.fails for value in values):
        raise Unknown
    return unless_failing(values, found)


def are_equal(left: Value, right: Value) -> Value:
    """``left == right``"""
    return equal(distinct(left), distinct(right))


def compared(operator: str, left: Value, right: Value) -> Value:
    """``left < right`` and the like."""
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
    if left.nanoseconds and isinstance(right.literal, str):
        return instants.compared_with(operator, left, right.literal)
    if right.nanoseconds and isinstance(left.literal, str):
        return instants.compared_with(mirrored, right, left.literal)
    if FAILED in (left, right):
        return FAILED
    if left.type == "truth" or right.type == "truth":
        raise Unknown
    return ordered(operator, left, right)


def contained(left: Value, right: Value) -> Value:
    """``left in list``"""
    if right.type != "texts" or distinct(left).type != "text":
        raise Unknown
    if left.fails and right.nullable:
        raise Unknown
    sql = f"list_contains({right.sql}, {left.sql})"
    if left.nullable:  # null is in no list of texts
        sql = f"(CASE WHEN {right.sql} IS NOT NULL THEN coalesce({sql}, false) END)"
    return Value(sql, "truth", fails=may_fail(right) or left.fails)


def same_texts(left: Value, listed: Listed) -> Value:
    """``topics == ["a", "b"]``"""
    if left.type != "texts" or left.fails or listed.kept is not None:
        raise Unknown
    if any(not isinstance(item.literal, str) for item in listed.items):
        raise Unknown
    texts = ", ".join(item.sql for item in listed.items)
    return Value(f"({left.sql} IS NOT DISTINCT FROM [{texts}]::VARCHAR[])", "truth")


def chosen(condition: Value, then: Value, otherwise: Value) -> Value:
    """``condition ? then : otherwise``"""
    kinds = {then.type, otherwise.type} - {"null"}
    fails = may_fail(condition) or then.fails or otherwise.fails
    nullable = then.nullable or otherwise.nullable
    if condition.type != "truth" or len(kinds) != 1:
        raise Unknown
    sql = f"(CASE {condition.sql} WHEN true THEN {then.sql} WHEN false THEN {otherwise.sql} END)"
    nan, plain = then.nan or otherwise.nan, then.plain and otherwise.plain
    return Value(sql, kinds.pop(), nullable=nullable, fails=fails, nan=nan, plain=plain)


def searched(function: str, text: Value, of: Value) -> Value:
    """``text.contains(of)`` and the like."""
    if not text.type == of.type == "text":
        raise Unknown
    fails = may_fail(text, of)
    if function in SEARCHES:
        return Value(f"{SEARCHES[function]}({text.sql}, {of.sql})", "truth", fails=fails)
    if function == "matches" and isinstance(of.literal, str) and is_common(of.literal, plain=text.plain):
        return Value(f"regexp_matches({text.sql}, {of.sql})", "truth", fails=fails)
    raise Unknown
