"""Comparisons in a condition that can never hold, because the two sides are of different types.

For CEL, ``apiKey == "3"`` is no mistake: values of different types are not equal, so it is false for every exchange,
which is never what was meant. Checked are comparisons with a literal: a name of the decoded log, or ``code`` or ``name``
of an element of ``errors``.
"""

import re
from collections.abc import Iterator

from kproxy.errors import OptionError

NUMBERS = {
    *("connection", "apiKey", "apiVersion", "correlationId", "latencyMs", "requestSize", "responseSize"),
    *("requestInProxyMs", "brokerMs", "responseInProxyMs", "assumedVersion", "size", "skipped"),
}
TEXTS = {
    *("event", "client", "broker", "apiName", "clientId", "requestAt", "responseAt", "unanswered", "undecoded"),
    *("principal", "layout", "bodies", "at", "direction", "reason", "kind", "what"),
}
TRUTHS = {"expectsResponse"}
LISTS = {"topics", "groups"}  # of texts
SIDES = {"trailing"}  # objects with a number by side
_WORDS = {"number": "a number", "text": "a text", "truth": "true or false", "sides": "an object", "list": "a list"}
_TYPES = (
    dict.fromkeys(NUMBERS, "number")
    | dict.fromkeys(TEXTS, "text")
    | dict.fromkeys(TRUTHS, "truth")
    | dict.fromkeys(SIDES, "sides")
    | dict.fromkeys(LISTS, "list")
)
_OF_ERRORS = {"code": "number", "name": "text", "path": "text"}
_ELEMENT = re.compile(r"\berrors\s*\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")

_TOKEN = re.compile(
    r"""
    (?P<text>[rb]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    | (?P<number>(?:\d+\.?\d*(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+)u?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator>[=!<>]=|[<>])
    | (?P<other>\S)
    """,
    re.VERBOSE,
)
_OPERATORS = {"==", "!=", "<", "<=", ">", ">=", "in"}
_MORE = {".", "[", "(", "+", "-", "*", "/", "%", "?"}  # what makes something else of an operand
Token = tuple[str, str]  # kind, text


def check_types(expression: str) -> None:
    """Raise OptionError, with what to write instead, for a name compared with a literal of another type."""
    tokens = [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(expression)]
    elements = set(_ELEMENT.findall(expression))
    for name, kind, literal in _comparisons(tokens, elements):
        if literal[0] != kind:
            hint = f"; write {literal[1]} in {name}" if (kind, literal[0]) == ("list", "text") else _hint(kind, literal)
            raise OptionError(
                f"where {expression!r}: {name} is {_WORDS[kind]} and {literal[1]} is {_WORDS[literal[0]]}, "
                f"which are never equal{hint}"
            )


def _comparisons(tokens: list[Token], elements: set[str]) -> Iterator[tuple[str, str, Token]]:
    """Names with their types, and the literals they are compared with."""
    padded = [("other", ""), ("other", ""), ("other", ""), *tokens, ("other", ""), ("other", "")]
    for at in range(3, len(padded) - 2):
        if padded[at][1] not in _OPERATORS:
            continue
        left, right, after = padded[at - 1], padded[at + 1], padded[at + 2]
        if (
            left[1] == ")"
            and after[1] not in _MORE
            and (sized := _sized(padded, at - 1))
            and (literal := _literal(right))
        ):
            yield sized, "number", literal
        if right[1] == "[" and padded[at][1] == "in":
            right, after = after, ("other", "")
        if after[1] in _MORE:
            continue
        kind, literal = _type(padded, at - 1, elements), _literal(right)
        if kind is not None and literal is not None:
            yield left[1], kind, literal
        kind, literal = _TYPES.get(right[1]), _literal(left)
        if kind == "list" and padded[at][1] == "in":
            kind = "text"  # of an element
        if kind is not None and literal is not None and padded[at - 2][1] not in _MORE - {"("}:
            yield right[1], kind, literal


def _type(tokens: list[Token], at: int, elements: set[str]) -> str | None:
    """The type of the operand that ends at a token; None where it is not known."""
    name, before = tokens[at][1], tokens[at - 1][1]
    if tokens[at][0] != "name":
        return None
    if before == ".":
        owner = tokens[at - 2][1]
        return _OF_ERRORS.get(name) if owner in elements and tokens[at - 3][1] != "." else None
    return None if before in _MORE - {"("} else _TYPES.get(name)


def _sized(tokens: list[Token], end: int) -> str | None:
    """``size(x)`` or ``x.size()`` of a name, where it ends at a bracket; None of anything else."""
    texts = [token[1] for token in tokens[max(end - 4, 0) : end + 1]]
    if texts[1:3] == ["size", "("] and tokens[end - 1][0] == "name" and texts[0] not in _MORE - {"("}:
        return f"size({texts[3]})"
    if (
        texts[1:] == [".", "size", "(", ")"]
        and tokens[end - 4][0] == "name"
        and tokens[end - 5][1] not in _MORE - {"("}
    ):
        return f"{texts[0]}.size()"
    return None


def _literal(token: Token) -> Token | None:
    """A literal with its type; None of what is none. Null equals nothing but null, which any name may be."""
    if token[0] in ("text", "number"):
        return token
    return ("truth", token[1]) if token[1] in ("true", "false") else None


def _hint(kind: str, literal: Token) -> str:
    if kind == "sides":
        return "; name a side, as in trailing.request > 0"
    text = literal[1].strip("rb").strip("'\"")
    if kind == "number" and literal[0] == "text":
        return f"; write {text}" if re.fullmatch(r"\d+(\.\d+)?", text) else ""
    return f'; write "{text}"' if kind == "text" else ""
