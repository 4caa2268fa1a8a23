"""Comparisons of a column with a literal as SQL, `in` too: those in which CEL and SQL do the same, value by value.

A column that is null has no order: CEL fails and SQL says NULL, which means the same here (parts.py). It is equal to
nothing but null, which is no error. Numbers of two kinds are compared as doubles, in CEL as here.
"""

import re

from kproxy.page.columns import COLUMNS, IN_FILTERS, Column
from kproxy.page.filtering.parts import Leaf, Token

ORDERS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}  # and what each is with its sides exchanged
EQUALS = {"==": "IS NOT DISTINCT FROM", "!=": "IS DISTINCT FROM"}
PLAIN_TEXT = re.compile(r"""(["'])([^\\]*)\1""", re.DOTALL)  # no prefix, no escapes
MOST_INT64 = (1 << 63) - 1
SECONDS = "strftime(make_timestamp({column} // 1000), '%Y-%m-%dT%H:%M:%S.%f')"
NANOS = "CASE WHEN {column} % 1000 = 0 THEN '' ELSE lpad(CAST({column} % 1000 AS VARCHAR), 3, '0') END"
INSTANT = f"{SECONDS} || {NANOS} || 'Z'"  # as kproxy.output.times has it


def comparison_sql(leaf: Leaf) -> tuple[str, str] | None:
    """The name that a leaf compares with a literal, and the comparison as SQL; None of any other leaf."""
    if len(leaf.tokens) == 3 and leaf.tokens[1].text == "in":
        return _contained(*leaf.tokens)
    found = _operands(leaf.tokens)
    if found is None:
        return None
    name, operator, literal = found
    column = COLUMNS.get(name)
    if column is None or name not in IN_FILTERS:
        return None
    sql = _compared(column, operator, literal)
    return None if sql is None else (name, sql)


def _contained(element: Token, _in: Token, owner: Token) -> tuple[str, str] | None:
    """``"orders" in topics``"""
    column, literal = COLUMNS.get(owner.text), _literal((element,))
    if column is None or owner.text not in IN_FILTERS or column.type != "texts" or literal is None:
        return None
    kind, text = literal
    return (
        (owner.text, f"list_contains({column.sql}, {_quoted(text)})") if kind == "text" and "\0" not in text else None
    )


def _operands(tokens: tuple[Token, ...]) -> tuple[str, str, tuple[str, str]] | None:
    """The name, the operator with the name on its left, the literal's kind and text."""
    for at, token in enumerate(tokens):
        if token.kind == "sign" and token.text in ORDERS.keys() | EQUALS.keys():
            left, right = tokens[:at], tokens[at + 1 :]
            break
    else:
        return None
    if _name(left) and (literal := _literal(right)):
        return left[0].text, token.text, literal
    if _name(right) and (literal := _literal(left)):
        return right[0].text, ORDERS.get(token.text, token.text), literal
    return None


def _name(tokens: tuple[Token, ...]) -> bool:
    return len(tokens) == 1 and tokens[0].kind == "name" and tokens[0].text not in ("true", "false", "null")


def _literal(tokens: tuple[Token, ...]) -> tuple[str, str] | None:
    negative = len(tokens) == 2 and tokens[0].text == "-" and tokens[1].kind == "number"
    if len(tokens) != 1 and not negative:
        return None
    token = tokens[-1]
    if token.kind == "name":
        return ("constant", token.text) if token.text in ("true", "false", "null") else None
    if token.kind == "number" and not token.text.endswith("u"):
        sign = "-" if negative else ""
        if token.text.isdecimal():
            return ("integer", sign + token.text) if int(token.text) <= MOST_INT64 else None
        return None if token.text.startswith("0x") else ("number", sign + token.text)
    if (
        token.kind == "text"
        and (found := PLAIN_TEXT.fullmatch(token.text))
        and not token.text.startswith(('"""', "'''"))
    ):
        return "text", found[2]
    return None


def _compared(column: Column, operator: str, literal: tuple[str, str]) -> str | None:
    kind, text = literal
    if operator in EQUALS:
        if kind == "constant" and text == "null":
            return f"({column.sql} IS {'NOT ' if operator == '!=' else ''}NULL)"
        if kind == "constant" and column.type == "truth":
            return f"({column.sql} {EQUALS[operator]} {text})"
    sql_operator = EQUALS.get(operator, operator)
    if kind == "text" and "\0" not in text and column.type in ("text", "time"):
        value = INSTANT.format(column=column.sql) if column.type == "time" else column.sql
        return f"(({value}) {sql_operator} {_quoted(text)})"
    if kind == "integer" and column.type == "integer":
        return f"({column.sql} {sql_operator} {text})"
    if kind in ("integer", "number") and column.type in ("integer", "number"):
        return f"(CAST({column.sql} AS DOUBLE) {sql_operator} CAST('{text}' AS DOUBLE))"
    return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
