"""The tree of a CEL expression, of which SQL is made. What is valid CEL is for CEL to say: it has compiled the text before.

What the tree has no node for (objects, bytes, fields, optional access) raises Unknown: such a text is CEL's alone.
The grammar and its precedence: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax
"""

import re
from typing import TypeAlias

from msgspec import Struct

from kproxy.page.filtering.tokens import Token

LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))  # loosest first
ESCAPE = re.compile(
    r"""\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([abfnrtv\\?"'`])|(.?))""", re.DOTALL
)
ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
TEXT = re.compile(r"""([rR]?)("{3}|'{3}|"|')(.*)\2""", re.DOTALL)
MOST_INT64, MOST_UINT64 = (1 << 63) - 1, (1 << 64) - 1


class Unknown(Exception):
    """There is no node for this."""


class Literal(Struct, frozen=True):
    """A text, an integer, a number, true, false or null."""

    value: str | int | float | bool | None


class Unsigned(Struct, frozen=True):
    """An unsigned integer, as ``5u``."""

    value: int


class Name(Struct, frozen=True):
    """A name, of a column or bound by a macro."""

    name: str


class Unary(Struct, frozen=True):
    """``!x`` or ``-x``"""

    operator: str
    of: "Node"


class Binary(Struct, frozen=True):
    """``left operator right``"""

    operator: str
    left: "Node"
    right: "Node"


class Choice(Struct, frozen=True):
    """``condition ? then : otherwise``"""

    condition: "Node"
    then: "Node"
    otherwise: "Node"


class Call(Struct, frozen=True):
    """``function(arguments)``; of a method its owner is the first of them."""

    function: str
    arguments: tuple["Node", ...]
    is_method: bool


class Element(Struct, frozen=True):
    """``of[at]``"""

    of: "Node"
    at: "Node"


class Items(Struct, frozen=True):
    """``[a, b]``"""

    items: tuple["Node", ...]


Node: TypeAlias = Literal | Unsigned | Name | Unary | Binary | Choice | Call | Element | Items


def parse(tokens: tuple[Token, ...]) -> Node:
    """The tree of an expression. Raises Unknown."""
    parser = _Parser(tokens)
    found = parser.expression()
    if parser.next is not None:
        raise Unknown
    return found


class _Parser:
    """A parser by descent: a method a rule of the grammar."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def expression(self) -> Node:
        condition = self._binary(0)
        if not self._takes("?"):
            return condition
        then = self._binary(0)
        self._must(":")
        return Choice(condition, then, self.expression())

    def _binary(self, level: int) -> Node:
        if level == len(LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while (operator := self._takes(*LEVELS[level])) is not None:
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> Node:
        operator = self._takes("!", "-")
        if operator is None:
            return self._member(self._primary())
        odd = True
        while self._takes(operator):  # CEL takes two of them as none: !!1 is 1
            odd = not odd
        token = self.next
        if odd and operator == "-" and token is not None and token.kind == "number":
            self._at += 1
            return self._member(Literal(_number("-" + token.text)))
        of = self._member(self._primary())
        return Unary(operator, of) if odd else of

    def _member(self, owner: Node) -> Node:
        while True:
            if self._takes("."):
                name = self._taken("name")
                self._must("(")
                owner = Call(name, (owner, *self._list(")")), is_method=True)
            elif self._takes("["):
                owner = Element(owner, self.expression())
                self._must("]")
            else:
                return owner

    def _primary(self) -> Node:
        token = self.next
        if token is None:
            raise Unknown
        self._at += 1
        if token.kind == "text":
            return Literal(_text(token.text))
        if token.kind == "number":
            return _numeral(token.text)
        if token.kind == "name":
            return self._named(token.text)
        if token.text == "(":
            inner = self.expression()
            self._must(")")
            return inner
        if token.text == "[":
            return Items(self._list("]"))
        raise Unknown

    def _named(self, name: str) -> Node:
        if name in ("true", "false", "null"):
            return Literal({"true": True, "false": False}.get(name))
        return Call(name, self._list(")"), is_method=False) if self._takes("(") else Name(name)

    def _list(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._takes(end):
            if items:
                self._must(",")
                if self._takes(end):  # a comma may stand behind the last one
                    break
            items.append(self.expression())
        return tuple(items)

    def _takes(self, *texts: str) -> str | None:
        token = self.next
        if token is None or token.kind not in ("sign", "name") or token.text not in texts:
            return None
        self._at += 1
        return token.text

    def _must(self, text: str) -> None:
        if self._takes(text) is None:
            raise Unknown

    def _taken(self, kind: str) -> str:
        token = self.next
        if token is None or token.kind != kind:
            raise Unknown
        self._at += 1
        return token.text


def _numeral(text: str) -> Literal | Unsigned:
    if not text.endswith(("u", "U")):
        return Literal(_number(text))
    value = int(text[:-1], 16 if "0x" in text.lower() else 10)
    if value > MOST_UINT64:
        raise Unknown
    return Unsigned(value)


def _number(text: str) -> int | float:
    if text.endswith(("u", "U")):  # behind a minus
        raise Unknown
    if "0x" in text.lower():
        value = int(text, 16)
    elif text.lstrip("-").isdecimal():
        value = int(text)
    else:
        return float(text)
    if not -MOST_INT64 - 1 <= value <= MOST_INT64:
        raise Unknown
    return value


def _text(literal: str) -> str:
    found = TEXT.fullmatch(literal)
    if found is None or "\r" in found[3]:
        raise Unknown
    return found[3] if found[1] else ESCAPE.sub(_escaped, found[3])


def _escaped(found: re.Match[str]) -> str:
    for digits, base in ((found[1], 16), (found[2], 16), (found[3], 16), (found[4], 8)):
        if digits is not None:
            code = int(digits, base)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise Unknown
            return chr(code)
    if found[5] is None:
        raise Unknown
    return ESCAPED.get(found[5], found[5])
