"""Trees of expressions bind as CEL does: what it says of constants."""

import operator
from collections.abc import Callable
from typing import Any

import cel
import pytest

from kproxy.page.filtering.syntax import (
    Binary,
    Call,
    Choice,
    Element,
    Items,
    Literal,
    Name,
    Node,
    Unary,
    Unknown,
    parse,
)
from kproxy.page.filtering.tokens import tokens_of

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "==": operator.eq, "<": operator.lt, "in": lambda a, b: a in b,
    "&&": lambda a, b: a and b, "||": lambda a, b: a or b, ">": operator.gt, "!=": operator.ne, "/": lambda a, b: int(a / b),
}  # fmt: skip


def value(node: Node) -> Any:  # noqa: PLR0911 - a case a node
    """The value of an expression of constants."""
    match node:
        case Literal():
            return node.value
        case Items():
            return [value(one) for one in node.items]
        case Unary():
            return not value(node.of) if node.operator == "!" else -value(node.of)
        case Binary():
            return OPERATORS[node.operator](value(node.left), value(node.right))
        case Choice():
            return value(node.then if value(node.condition) else node.otherwise)
        case Element():
            return value(node.of)[value(node.at)]
        case Call():
            return len(value(node.arguments[0]).encode())  # size
        case Name():
            raise AssertionError(node)


@pytest.mark.parametrize(
    "text",
    ["1 + 2 * 3", "(1 + 2) * 3", "10 - 3 - 2", "12 / 3 / 2", "-2 + 5", "- 2 * -3", "--4", "!!1", "!true || true",
     "!(true || true)", "true || false && false", "1 < 2 == true", "1 + 1 == 2 && 3 > 2", "true ? 1 : false ? 2 : 3",
     "false ? 1 : false ? 2 : 3", "1 < 2 ? 'a' : 'b'", "[1, 2, 3,][1]", "2 in [1, 2] == true", "size('é')", "'é'.size() + 1",
     r"'a\x41\n\u00e9' + r'\n'", "'''it's''' + \"\"\"b\"\"\"", "0x1F", "-9223372036854775808", ".5 + 1e3", "null == null",
     r"'\101\'\?'", "true // no"],
)  # fmt: skip
def test_constants_have_the_value_that_cel_gives(text: str) -> None:
    assert value(parse(tokens_of(text))) == cel.compile(text).execute({})


@pytest.mark.parametrize(
    "text",
    [
        "-1u",
        "18446744073709551616u",
        "{'a': 1}",
        "a.b",
        "b'a'",
        "",
        "1 +",
        "(1",
        r"'a\q'",
        "a.?b",
        "'",
        "1 2",
        "18446744073709551616",
        r"'\ud800'",
    ],
)
def test_what_has_no_node(text: str) -> None:
    with pytest.raises(Unknown):
        parse(tokens_of(text))
