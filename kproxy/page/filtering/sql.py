"""Conditions as SQL: comparisons of columns, which select among columns of many different values in one scan.

All other conditions are answered by CEL, once for each distinct combination of the values that they name (filter.py). Those are
few for names, texts and lists; numbers and times have almost as many values as there are rows, so their comparisons are here.

    NAME OPERATOR literal, literal OPERATOR NAME    of numbers and times; of texts and null only == and !=
    NAME + literal * NAME OPERATOR literal ...      of integers, with + - * / % and brackets on both sides
    NAME in [literal, ...]                          of integers and texts
    literal in NAME                                 of lists of texts
    NAME.METHOD(literal)                            of texts and times; also of items: NAME.exists(x, x.METHOD(literal))

In CEL the order of null and a value is an error, for which a row is not selected; in SQL it is NULL. Null equals null alone.
A time is the text of the decoded log.
"""

import functools
import re
from collections.abc import Sequence

from kproxy.page.columns import COLUMNS, IN_FILTERS, Column
from kproxy.page.filtering.parts import CLOSING, Token, closing, tokens_of, tops

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
EQUALITIES = {"==": "IS NOT DISTINCT FROM", "!=": "IS DISTINCT FROM"}
SEARCHES = {"contains": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}
# Text in any case, as parts.py writes it: Rust's regex and RE2 agree about letters, digits and escaped signs
ANY_CASE = re.compile(r"\"(\(\?i\)(?:[A-Za-z0-9_ ]|\\\\[.:/@#%+*~$-])+)\"")
PLAIN_TEXT = re.compile(r"\"[^\"\\\0\r]*\"|'[^'\\\0\r]*'")
MOST_DIGITS = 15  # an integer of so many is exact as a double
TEXT_OF_TIME = (  # of nanoseconds, as kproxy.output.times.render_instant
    "CASE WHEN {0} % 1000 = 0 THEN strftime(make_timestamp({0} // 1000), '%Y-%m-%dT%H:%M:%S.%fZ')"
    " ELSE strftime(make_timestamp_ns({0}), '%Y-%m-%dT%H:%M:%S.%nZ') END"
)

Known = tuple[frozenset[str], str]  # names of columns, and the condition as SQL


@functools.lru_cache(maxsize=1024)
def condition_sql(text: str) -> Known | None:
    """Return the names of columns in a condition that CEL has compiled, and the condition as SQL; None where only CEL will do.

    The SQL is true, false, or NULL where CEL fails.
    """
    tokens = _signed(tokens_of(text))
    signs = [at for at in tops(tokens) if tokens[at].text in MIRRORED]
    if len(signs) == 1:
        (at,) = signs
        return _comparison(tokens[:at], tokens[at].text, tokens[at + 1 :])
    if len(tokens) == 3 and tokens[1].text == "in" and (literal := _text(tokens[0])) is not None:
        column = _column(tokens[2])
        is_list = column is not None and column.type == "texts"
        return _known(column, f"list_contains({column.sql}, {literal})") if column is not None and is_list else None
    if len(tokens) > 5 and [one.text for one in (tokens[1], tokens[3], tokens[-1])] == [".", "(", ")"]:
        column = _column(tokens[0])
        return None if column is None else _known(column, _called(column, tokens[2:]))
    if len(tokens) > 4 and [one.text for one in (tokens[1], tokens[2], tokens[-1])] == ["in", "[", "]"]:
        column, commas = _column(tokens[0]), tokens[4:-1:2]
        if column is None or column.type not in ("integer", "text") or any(one.text != "," for one in commas):
            return None
        values = [_value(column, token) for token in tokens[3:-1:2]]
        listed = None if None in values else ", ".join(filter(None, values))
        return None if listed is None else _known(column, f"coalesce({column.sql} IN ({listed}), false)")
    return None


def _signed(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens, with a minus before a number as a part of it."""
    signed: list[Token] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 2] if at > 1 else None
        is_sign = before is None or before.text == "in" or (before.kind == "sign" and before.text not in CLOSING)
        if token.kind == "number" and signed and signed[-1].text == "-" and is_sign:
            signed[-1] = Token("number", f"-{token.text}", signed[-1].at)
        else:
            signed.append(token)
    return signed


def _column(token: Token) -> Column | None:
    return COLUMNS.get(token.text) if token.kind == "name" and token.text in IN_FILTERS else None


def _known(column: Column, sql: str | None) -> Known | None:
    return None if sql is None else (frozenset({column.name}), f"({sql})")


def _comparison(left: Sequence[Token], operator: str, right: Sequence[Token]) -> Known | None:
    for one, sign, other in ((left, operator, right), (right, MIRRORED[operator], left)):
        column = _column(one[0]) if len(one) == len(other) == 1 else None
        known = None if column is None else _known(column, _compared(column, sign, other[0]))
        if known is not None:
            return known
    if operator in EQUALITIES and any(len(side) == 1 and side[0].kind == "name" for side in (left, right)):
        return None  # a column that may be null, which is equal to null alone; in sums, null is an error
    one_sum, other_sum = _integer(left), _integer(right)
    if one_sum is None or other_sum is None or not one_sum[0] | other_sum[0]:
        return None
    sign = {"==": "=", "!=": "<>"}.get(operator, operator)
    return one_sum[0] | other_sum[0], f"({one_sum[1]} {sign} {other_sum[1]})"


def _integer(tokens: Sequence[Token]) -> Known | None:
    """Return names and SQL of an integer; the SQL is NULL where CEL fails: for null, for more than 64 bits, and for / 0."""
    for signs in ("+-", "*/%"):
        places = [at for at in tops(tokens) if tokens[at].text in signs]
        if places:
            left, right = _integer(tokens[: places[-1]]), _integer(tokens[places[-1] + 1 :])
            if left is None or right is None:
                return None
            sign = tokens[places[-1]].text
            divisor = f"NULLIF({right[1]}, 0)" if sign in "/%" else right[1]
            whole = f"{left[1]}::HUGEINT {'//' if sign == '/' else sign} {divisor}::HUGEINT"
            return left[0] | right[0], f"TRY_CAST(({whole}) AS BIGINT)"
    if len(tokens) > 2 and tokens[0].text == "(" and closing(tokens, 0) == len(tokens) - 1:
        return _integer(tokens[1:-1])
    column = _column(tokens[0]) if len(tokens) == 1 else None
    if column is not None:
        return (frozenset({column.name}), column.sql) if column.type == "integer" else None
    value = _value(COLUMNS["apiKey"], tokens[0]) if len(tokens) == 1 else None
    return None if value is None else (frozenset(), f"({value})")


def _compared(column: Column, operator: str, literal: Token) -> str | None:
    if literal.text == "null":
        return {"==": f"{column.sql} IS NULL", "!=": f"{column.sql} IS NOT NULL"}.get(operator)
    value = _value(column, literal)
    if value is None or (column.type == "text" and operator not in EQUALITIES):
        return None
    return f"{_sql(column)} {EQUALITIES.get(operator, operator)} {value}"


def _sql(column: Column) -> str:
    return TEXT_OF_TIME.format(column.sql) if column.type == "time" else column.sql


def _called(column: Column, tokens: Sequence[Token]) -> str | None:
    """Return SQL for ``METHOD(literal)`` of a text, or ``exists(x, x.METHOD(literal))`` of a list of texts."""
    if column.type in ("text", "time") and len(tokens) == 4:
        return _searched(_sql(column), tokens[0].text, tokens[2])
    words = [token.text for token in tokens]
    if column.type != "texts" or len(tokens) != 11 or words[0] != "exists" or tokens[2].kind != "name":
        return None
    if [words[at] for at in (1, 3, 5, 7, 9)] != ["(", ",", ".", "(", ")"] or words[4] != words[2]:
        return None
    searched = _searched("v", words[6], tokens[8])
    return None if searched is None else f"len(list_filter({column.sql}, lambda v: {searched})) > 0"


def _searched(text: str, method: str, literal: Token) -> str | None:
    if method in SEARCHES and (wanted := _text(literal)) is not None:
        return f"{SEARCHES[method]}({text}, {wanted})"
    pattern = ANY_CASE.fullmatch(literal.text) if method == "matches" else None
    return None if pattern is None else f"regexp_matches({text}, '{pattern[1]}')".replace("\\\\", "\\")


def _value(column: Column, literal: Token) -> str | None:
    """Return a literal of the column's type as SQL; None if it has another type."""
    if column.type in ("text", "time"):
        return _text(literal)
    digits = literal.text.removeprefix("-")
    if literal.kind != "number" or column.type not in ("integer", "number"):
        return None
    if digits.isdecimal() and len(digits) <= MOST_DIGITS:
        return f"{literal.text}::{'BIGINT' if column.type == 'integer' else 'DOUBLE'}"
    is_decimal = re.fullmatch(r"\d*\.\d+(e[+-]?\d{1,2})?|\d+e[+-]?\d{1,2}", digits, re.IGNORECASE)
    return f"{float(literal.text)!r}::DOUBLE" if is_decimal and column.type == "number" else None


def _text(literal: Token) -> str | None:
    if literal.kind != "text" or not PLAIN_TEXT.fullmatch(literal.text) or "\n" in literal.text:
        return None
    return "'" + literal.text[1:-1].replace("'", "''") + "'"
