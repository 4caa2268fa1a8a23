"""Lists of CEL as SQL: those that are written out in a condition, item by item; those of columns by DuckDB's functions of lists.

CEL takes the items one after the other. exists() ends with the first for which the condition is true, all() with the first for
which it is false; an item before that for which it fails makes all of it an error.
"""

from collections.abc import Sequence

from msgspec import Struct

from kproxy.page.filtering.values import Value, comparable, equal, may_fail, unless_failing

COUNTS = {"exists": "> 0", "all": "= 0", "exists_one": "= 1", "existsOne": "= 1"}
ENDS = {"exists": "true", "all": "false"}  # the truth of an item with which the macro ends


class Listed(Struct, frozen=True):
    """A list that is written out, or made of such a one: ``[a, b]``, ``[a, b].map(x, x + 1)``.

    Args:
        items: its items; of filter() all that may be in it.
        kept: of filter() for each item whether it is; None where all are.
    """

    items: tuple[Value, ...]
    kept: tuple[Value, ...] | None = None


def quantified(macro: str, items: Sequence[Value], conditions: Sequence[Value]) -> Value:
    """``[a, b].exists(x, condition)`` and the like, of the condition of each item."""
    if macro not in ENDS:
        ones = " + ".join(f"CAST({condition.sql} AS INTEGER)" for condition in conditions) or "0"
        return unless_failing(items, Value(f"({ones} = 1)", "truth", fails=may_fail(*conditions)))
    end, otherwise = ENDS[macro], "false" if macro == "exists" else "true"
    if not may_fail(*conditions):
        joined = (" OR " if macro == "exists" else " AND ").join(condition.sql for condition in conditions)
        return unless_failing(items, Value(f"({joined or otherwise})", "truth"))
    cases = "".join(
        f" WHEN {'' if end == 'true' else 'NOT '}{condition.sql} THEN {end}"
        f"{f' WHEN {condition.sql} IS NULL THEN NULL' if condition.fails or condition.nullable else ''}"
        for condition in conditions
    )
    return unless_failing(items, Value(f"(CASE{cases} ELSE {otherwise} END)", "truth", fails=True))


def quantified_texts(macro: str, of: Value, name: str, condition: Value) -> Value | None:
    """``topics.exists(t, condition)`` and the like; *name* is what the condition calls an item in SQL."""
    if not may_fail(condition):
        kept = f"NOT {condition.sql}" if macro == "all" else condition.sql
        return Value(f"(len({_filtered(of, name, kept)}) {COUNTS[macro]})", "truth", fails=may_fail(of))
    if macro not in ENDS:
        return None
    end = ENDS[macro]
    decided = f"CASE {condition.sql} WHEN {end} THEN 1 WHEN {'true' if end == 'false' else 'false'} THEN 0 ELSE 2 END"
    first = f"list_filter(list_transform({of.sql}, lambda {name}: {decided}), lambda {name}d: {name}d > 0)[1]"
    sql = (
        f"(CASE WHEN {of.sql} IS NOT NULL THEN CASE {first} WHEN 1 THEN {end} WHEN 2 THEN NULL ELSE NOT {end} END END)"
    )
    return Value(sql, "truth", fails=True)


def kept_texts(of: Value, name: str, condition: Value) -> Value | None:
    """``topics.filter(t, condition)``, of a condition that cannot fail."""
    return None if may_fail(condition) else Value(_filtered(of, name, condition.sql), "texts", fails=may_fail(of))


def _filtered(of: Value, name: str, condition: str) -> str:
    return f"list_filter({of.sql}, lambda {name}: {condition})"


def among(left: Value, listed: Listed) -> Value | None:
    """``left in [a, b]``"""
    if listed.kept is not None:
        return None
    if all(item.literal is not None for item in listed.items) and not left.nan and left.type != "null":
        pairs = [pair for item in listed.items if (pair := comparable(left, item)) is not None]
        if pairs and len({(pair[0].type, pair[0].sql) for pair in pairs}) == 1:
            sql = f"({pairs[0][0].sql} IN ({', '.join(pair[1].sql for pair in pairs)}))"
            return Value(f"coalesce({sql}, false)" if left.nullable else sql, "truth", fails=left.fails)
    found = " OR ".join(equal(left, item).sql for item in listed.items) or "false"
    return unless_failing([left, *listed.items], Value(f"({found})", "truth"))


def same(left: Listed, right: Listed) -> Value | None:
    """``[a, b] == [c, d]``"""
    if left.kept is not None or right.kept is not None:
        return None
    every = [*left.items, *right.items]
    if len(left.items) != len(right.items):
        return unless_failing(every, Value("false", "truth"))
    found = " AND ".join(equal(a, b).sql for a, b in zip(left.items, right.items, strict=True)) or "true"
    return unless_failing(every, Value(f"({found})", "truth"))


def size(listed: Listed) -> Value:
    """``size([a, b])``"""
    if listed.kept is None:
        return unless_failing(listed.items, Value(f"CAST({len(listed.items)} AS BIGINT)", "integer"))
    ones = " + ".join(f"CAST({one.sql} AS BIGINT)" for one in listed.kept) or "CAST(0 AS BIGINT)"
    return unless_failing([*listed.items, *listed.kept], Value(f"({ones})", "integer", fails=may_fail(*listed.kept)))
