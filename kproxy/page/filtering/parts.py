"""Take a CEL condition apart at &&, || and !: each part is answered alone, and SQL joins the answers.

CEL and SQL agree on how truths combine, if an error of CEL is SQL's NULL: false && error is false, true || error is true, and
all else is an error, for which a row is not selected. Only tokens are read here: CEL has
checked the whole condition before.
"""

from typing import TypeAlias

from msgspec import Struct

from kproxy.page.filtering.tokens import Token, tokens_of

OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


class Leaf(Struct, frozen=True):
    """A part without connectives at its top."""

    text: str
    tokens: tuple[Token, ...]


class Not(Struct, frozen=True):
    """The negation of a part: !."""

    text: str
    part: "Part"


class Every(Struct, frozen=True):
    """All of the parts: &&."""

    text: str
    parts: tuple["Part", ...]


class Either(Struct, frozen=True):
    """Any of the parts: ||."""

    text: str
    parts: tuple["Part", ...]


Part: TypeAlias = Leaf | Not | Every | Either


def take_apart(condition: str) -> Part:
    """Return the parts of a condition that CEL has compiled."""
    return _parse(condition, tokens_of(condition))


def leaves(part: Part) -> list[Leaf]:
    """Return the leaves of a part, from left to right."""
    if isinstance(part, Leaf):
        return [part]
    inner = (part.part,) if isinstance(part, Not) else part.parts
    return [leaf for one in inner for leaf in leaves(one)]


def conjuncts(part: Part) -> list[Part]:
    """Return the parts that all have to be true."""
    return [one for inner in part.parts for one in conjuncts(inner)] if isinstance(part, Every) else [part]


def _parse(condition: str, tokens: tuple[Token, ...]) -> Part:
    tops = _tops(tokens)
    text = condition[tokens[0].at : tokens[-1].at + len(tokens[-1].text)] if tokens else ""
    if not any(tokens[at].text == "?" for at in tops):
        for sign, kind in (("||", Either), ("&&", Every)):
            places = [at for at in tops if tokens[at].text == sign]
            if places:
                ends = [*places, len(tokens)]
                starts = [0, *(at + 1 for at in places)]
                return kind(text, tuple(_parse(condition, tokens[a:b]) for a, b in zip(starts, ends, strict=True)))
        if len(tokens) > 2 and tokens[0].text == "(" and _closing(tokens, 0) == len(tokens) - 1:
            return _parse(condition, tokens[1:-1])
        signs = next((at for at, token in enumerate(tokens) if token.text != "!"), 0)
        if (
            signs and tokens[signs].text == "(" and _closing(tokens, signs) == len(tokens) - 1
        ):  # it binds closer than operators
            inner = _parse(condition, tokens[signs:])
            return Not(text, inner) if signs % 2 else inner  # to CEL two of them are none: !!1 is 1
    return Leaf(text, tokens)


def _tops(tokens: tuple[Token, ...]) -> list[int]:
    """Return the indexes of the tokens outside of all brackets."""
    outside, depth = [], 0
    for at, token in enumerate(tokens):
        if token.kind == "sign" and token.text in OPENING:
            depth += 1
        elif token.kind == "sign" and token.text in CLOSING:
            depth -= 1
        elif depth == 0:
            outside.append(at)
    return outside


def _closing(tokens: tuple[Token, ...], start: int) -> int:
    """Return the index of the bracket that closes the one at *start*; -1 if none does."""
    depth = 0
    for at in range(start, len(tokens)):
        if tokens[at].kind == "sign":
            depth += (tokens[at].text in OPENING) - (tokens[at].text in CLOSING)
            if depth == 0:
                return at
    return -1
