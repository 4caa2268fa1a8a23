"""Conditions as SQL: comparisons of a column with a literal, which select among columns of many different values in one scan.

All other conditions are answered by CEL, once for each distinct combination of the values that they name (filter.py). Those are
few for names, texts and lists; numbers and times have almost as many values as there are rows, so their comparisons are here.

    NAME OPERATOR literal, literal OPERATOR NAME    of numbers and times; of texts and null only == and !=
    NAME in [literal, ...]                          of integers and texts
    literal in NAME                                 of lists of texts
    NAME.METHOD(literal)                            of texts; also of the items of a list: NAME.exists(x, x.METHOD(literal))

In CEL the order of null and a value is an error, for which a row is not selected; in SQL it is NULL. Null equals null alone.
"""

import functools
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kproxy.page.columns import COLUMNS, IN_FILTERS, Column
from kproxy.page.filtering.tokens import Token, tokens_of

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
EQUALITIES = {"==": "IS NOT DISTINCT FROM", "!=": "IS DISTINCT FROM"}
SEARCHES = {"contains": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}
# Text in any case, as free_text.py writes it: Rust's regex and RE2 agree about letters, digits and escaped signs
ANY_CASE = re.compile(r"\"(\(\?i\)(?:[A-Za-z0-9_ ]|\\\\[.:/@#%+*~$-])+)\"")
PLAIN_TEXT = re.compile(r"\"[^\"\\\0\r]*\"|'[^'\\\0\r]*'")
MOST_DIGITS = 15  # an integer of so many is exact as a double
SECOND = 1_000_000_000
WHOLE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
INSTANT = re.compile(rf"({WHOLE.pattern})\.([0-9]{{6}}|[0-9]{{9}})Z")
FRACTION = re.compile(r"\.([0-9]{1,6})")
EMPTY = "0000-01-01T00:00:00"

Known = tuple[frozenset[str], str]  # names of columns, and the condition as SQL


@functools.lru_cache(maxsize=1024)
def condition_sql(text: str) -> Known | None:
    """Return the names of columns in a condition that CEL has compiled, and the condition as SQL; None where only CEL will do.

    The SQL is true, false, or NULL where CEL fails.
    """
    tokens = _signed(tokens_of(text))
    if len(tokens) == 3 and tokens[1].text in MIRRORED:
        left, operator, right = tokens
        if right.kind == "name" and _column(left) is None:
            left, operator, right = right, Token("sign", MIRRORED[operator.text], 0), left
        column = _column(left)
        return None if column is None else _known(column, _compared(column, operator.text, right))
    if len(tokens) == 3 and tokens[1].text == "in" and (literal := _text(tokens[0])) is not None:
        column = _column(tokens[2])
        is_list = column is not None and column.type == "texts"
        return _known(column, f"list_contains({column.sql}, {literal})") if column is not None and is_list else None
    if len(tokens) > 5 and [one.text for one in (tokens[1], tokens[3], tokens[-1])] == [".", "(", ")"]:
        column = _column(tokens[0])
        return None if column is None else _known(column, _called(column, tokens[2:]))
    if len(tokens) > 4 and [one.text for one in (tokens[1], tokens[2], tokens[-1])] == ["in", "[", "]"]:
        column = _column(tokens[0])
        return None if column is None else _known(column, _among(column, tokens[3:-1]))
    return None


def _signed(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens, with a minus before a number as a part of it."""
    signed: list[Token] = []
    for at, token in enumerate(tokens):
        is_sign = at < 2 or tokens[at - 2].kind == "sign" or tokens[at - 2].text == "in"
        if token.kind == "number" and signed and signed[-1].text == "-" and is_sign:
            signed[-1] = Token("number", f"-{token.text}", signed[-1].at)
        else:
            signed.append(token)
    return signed


def _column(token: Token) -> Column | None:
    return COLUMNS.get(token.text) if token.kind == "name" and token.text in IN_FILTERS else None


def _known(column: Column, sql: str | None) -> Known | None:
    return None if sql is None else (frozenset({column.name}), f"({sql})")


def _compared(column: Column, operator: str, literal: Token) -> str | None:
    if literal.text == "null":
        return {"==": f"{column.sql} IS NULL", "!=": f"{column.sql} IS NOT NULL"}.get(operator)
    if column.type == "time":
        return _time_compared(column, operator, literal)
    value = _value(column, literal)
    if value is None or (column.type == "text" and operator not in EQUALITIES):
        return None
    return f"{column.sql} {EQUALITIES.get(operator, operator)} {value}"


def _among(column: Column, tokens: Sequence[Token]) -> str | None:
    values = [_value(column, token) for token in tokens[::2]]
    if any(comma.text != "," for comma in tokens[1::2]) or column.type not in ("integer", "text") or None in values:
        return None
    return f"coalesce({column.sql} IN ({', '.join(filter(None, values))}), false)"


def _called(column: Column, tokens: Sequence[Token]) -> str | None:
    """Return SQL for ``METHOD(literal)`` of a text, or ``exists(x, x.METHOD(literal))`` of a list of texts."""
    if column.type == "text" and len(tokens) == 4:
        return _searched(column.sql, tokens[0].text, tokens[2])
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
    if column.type == "text":
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


def _time_compared(column: Column, operator: str, literal: Token) -> str | None:
    """Return SQL that compares a time, which CEL sees as the text of the decoded log, with a text."""
    if _text(literal) is None:
        return None
    text = literal.text[1:-1]
    if operator in EQUALITIES:
        at = _instant(text)
        return ("false" if operator == "==" else "true") if at is None else f"{column.sql} {EQUALITIES[operator]} {at}"
    first = _first_not_before(text)
    if first is None:
        return None
    return f"{column.sql} {'>=' if operator[0] == '>' else '<'} {first}"


def _instant(text: str) -> int | None:
    """Return the time whose text this is; None if no time has it."""
    instant = INSTANT.fullmatch(text)
    if instant is None or (len(instant[2]) > 6 and instant[2].endswith("000")):
        return None
    try:
        at = datetime.fromisoformat(instant[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(at.timestamp()) * SECOND + int(instant[2].ljust(9, "0"))


def _first_not_before(text: str) -> int | None:
    """Return the first time, in nanoseconds, whose text sorts after *text*; None where texts are not in the order of times.

    The text of a time is longer than the beginnings taken here, so that none is equal to one. A ``Z`` sorts after ``.`` and
    after all digits: the times of its second, or of the part of a second, are before it.
    """
    beginning, ends = text.removesuffix("Z"), text.endswith("Z")
    seconds, fraction = beginning[:19], beginning[19:]
    digits = FRACTION.fullmatch(fraction)
    if (fraction and digits is None) or len(seconds) not in ((19,) if ends else (4, 7, 10, 13, 16, 19)):
        return None
    if not WHOLE.fullmatch(seconds + EMPTY[len(seconds) :]) or (ends and len(fraction) > 6):
        return None
    try:
        at = datetime.fromisoformat(seconds + EMPTY[len(seconds) :]).replace(tzinfo=UTC)
    except ValueError:
        return None
    if not 1971 <= at.year <= 2200:
        return None
    unit = SECOND // 10 ** (len(fraction) - 1) if fraction else SECOND
    return int(at.timestamp()) * SECOND + (int(digits[1]) * unit if digits else 0) + (unit if ends else 0)
