"""Read a filter: its tokens, its parts, and its free text.

A CEL condition is taken apart at &&, || and !: each part is answered alone, and SQL joins the answers. CEL and SQL agree on how
truths combine, if an error of CEL is SQL's NULL: false && error is false, true || error is true, and all else is an error, for
which a row is not selected. Only tokens are read here: CEL has checked the whole condition before.

Free text finds the exchanges that contain it, and becomes CEL before all else. A filter is CEL conditions joined by ``&&``. One
of them may be text in place of a condition:

    orders                               exchanges with "orders" in a name, address or error, in any case
    billing 10.0.0.7                     with both words
    "two words" && latencyMs > 20        with that text, and slow

Text is words without operators, quotes or brackets that are no condition on known names, or one string literal. It is searched
in the API's name, client id, addresses, topics, groups, user, error names, and why something is unanswered or undecoded.
"""

import json
import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from kproxy.output.where import NAMES
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.expressions import Expression

TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
    | (?P<text>
        [bB]?[rR][bB]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\r\n]*"|'[^'\r\n]*')
        | [bB]?(?:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3}|"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'))
    | (?P<number>0x[0-9a-fA-F]+[uU]?|\d*\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+[uU]?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>&&|\|\||[=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


OPENING, CLOSING = {"(", "[", "{"}, {")", "]", "}"}
JOINTS: tuple[Literal["||", "&&"], ...] = ("||", "&&")  # the one that binds least first
WORDS = re.compile(r"[\w.:/@#%+*~$-]+(?:\s+[\w.:/@#%+*~$-]+)*")
STRING = re.compile(r'"[^"\\]*"|\'[^\'\\]*\'')
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TEXTS = ("apiName", "clientId", "client", "broker", "principal", "unanswered", "undecoded")
LISTS = ("topics", "groups")


class Token(Struct, frozen=True):
    """A token: its kind (text, number, name, sign), its text, and where it begins."""

    kind: str
    text: str
    at: int


def tokens_of(condition: str) -> tuple[Token, ...]:
    """Return the tokens, without spaces and comments."""
    tokens = (Token(str(one.lastgroup), one[0], one.start()) for one in TOKEN.finditer(condition))
    return tuple(token for token in tokens if token.kind != "space")


class Part(Struct, frozen=True):
    """A part of a condition: ``parts`` joined by ``joint``, or one part negated; without a joint it is whole."""

    text: str
    joint: Literal["&&", "||", "!", ""] = ""
    parts: tuple["Part", ...] = ()


def take_apart(condition: str) -> Part:
    """Return the parts of a condition that CEL has compiled."""
    return _parse(condition, tokens_of(condition))


def leaves(part: Part) -> list[Part]:
    """Return the parts without joints, from left to right."""
    return [leaf for one in part.parts for leaf in leaves(one)] if part.joint else [part]


def conjuncts(part: Part) -> list[Part]:
    return [one for inner in part.parts for one in conjuncts(inner)] if part.joint == "&&" else [part]


def _parse(condition: str, tokens: tuple[Token, ...]) -> Part:
    outside = tops(tokens)
    text = condition[tokens[0].at : tokens[-1].at + len(tokens[-1].text)] if tokens else ""
    if any(tokens[at].text == "?" for at in outside):
        return Part(text)
    for joint in JOINTS:
        places = [at for at in outside if tokens[at].text == joint]
        if places:
            starts, ends = [0, *(at + 1 for at in places)], [*places, len(tokens)]
            return Part(text, joint, tuple(_parse(condition, tokens[a:b]) for a, b in zip(starts, ends, strict=True)))
    signs = next((at for at, token in enumerate(tokens) if token.text != "!"), 0)
    if len(tokens) > signs + 2 and tokens[signs].text == "(" and closing(tokens, signs) == len(tokens) - 1:
        inner = _parse(condition, tokens[signs + 1 : -1])
        return Part(text, "!", (inner,)) if signs % 2 else inner  # to CEL two of them are none: !!1 is 1
    return Part(text)


def tops(tokens: Sequence[Token]) -> list[int]:
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


def closing(tokens: Sequence[Token], start: int) -> int:
    """Return the index of the bracket that closes the one at *start*; -1 if none does."""
    depth = 0
    for at in range(start, len(tokens)):
        if tokens[at].kind == "sign":
            depth += (tokens[at].text in OPENING) - (tokens[at].text in CLOSING)
            if depth == 0:
                return at
    return -1


def as_cel(condition: str) -> str:
    """Return a filter with its free text as CEL; what has none is returned as it is."""
    parts = _conjuncts(condition)
    written = [part if text is None else " && ".join(map(_having, text)) for part, text in parts]
    return condition if all(text is None for _, text in parts) else " && ".join(part.strip() for part in written)


def searched_texts(condition: str) -> list[str]:
    return [text for _, texts in _conjuncts(condition) for text in texts or ()]


def _conjuncts(condition: str) -> list[tuple[str, list[str] | None]]:
    """Return the conditions that ``&&`` joins outside of brackets, each with the texts that it searches for; None: it is CEL."""
    tokens = tokens_of(condition)
    outside = [tokens[at] for at in tops(tokens)]
    if any(token.text == "||" for token in outside):
        return [(condition, _texts(condition))]
    places = [token.at for token in outside if token.text == "&&"]
    starts, ends = [0, *(at + 2 for at in places)], [*places, len(condition)]
    return [(part, _texts(part)) for part in (condition[a:b] for a, b in zip(starts, ends, strict=True))]


def _texts(part: str) -> list[str] | None:
    text = part.strip()
    if STRING.fullmatch(text):
        return [text[1:-1]] if len(text) > 2 else None
    if not WORDS.fullmatch(text) or NUMBER.fullmatch(text):
        return None
    try:
        Expression(text, NAMES, "where")
    except ValueError:  # it is no CEL
        return text.split()
    return None


def _having(text: str) -> str:
    pattern = json.dumps("(?i)" + re.sub(r"([^\w\s])", r"\\\1", text), ensure_ascii=False)
    parts = [f"{name}.matches({pattern})" for name in TEXTS]
    parts += [f"{name}.exists(x, x.matches({pattern}))" for name in LISTS]
    codes = [int(code) for name, code in ErrorCode.__members__.items() if text.upper() in name and code]
    parts += [f"errors.exists(x, x.code in {codes})"] if codes else []
    return f"({' || '.join(parts)})"
