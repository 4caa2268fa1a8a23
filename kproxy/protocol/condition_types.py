"""Find comparisons in a condition that can never hold, because the two sides have different types.

For CEL, ``apiKey == "3"`` is no mistake: values of different types are not equal, so it is false for every exchange,
which is never what was meant. Comparisons of a field with a literal are checked: of a field of the vocabulary, or of
an element of one of its lists, as in ``errors.exists(e, e.code == "6")``.
"""

import re
from collections.abc import Iterator

from kproxy.protocol.expressions import BOUND
from kproxy.protocol.vocabulary import ELEMENTS, VOCABULARY, WORDS, FieldType

_BINDING = re.compile(
    rf"\b({'|'.join(ELEMENTS)})\s*\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,"
)
_TEXT_IN = {"errors": "errorNames"}  # list of objects -> the list of texts that was meant

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
_LITERAL_TYPES: dict[str, FieldType] = {"text": "text", "number": "number", "truth": "truth"}
_OPERATORS = {"==", "!=", "<", "<=", ">", ">=", "in"}
_MORE = {".", "[", "(", "+", "-", "*", "/", "%", "?"}  # an operand next to one of these is part of a larger one
Token = tuple[str, str]  # kind, text
Types = dict[str, FieldType]  # types of fields, without names that a macro binds as variables
Elements = dict[str, str]  # variable of a macro -> the list whose elements it stands for


def check_types(expression: str, about: str) -> None:
    """Check that no field is compared with a literal of another type.

    Args:
        expression: a CEL expression that compiles.
        about: what the expression is; the message begins with it.

    Raises ValueError, one sentence with what to write instead.
    """
    tokens = [(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(expression)]
    bound = set(BOUND.findall(expression))
    types = {name: field.type for name, field in VOCABULARY.items() if name not in bound}
    elements = {variable: owner for owner, variable in _BINDING.findall(expression)}
    for name, kind, literal in _comparisons(tokens, types, elements):
        literal_type = _LITERAL_TYPES[literal[0]]
        if literal_type != kind:
            raise ValueError(
                f"{about} {expression!r}: {name} is {WORDS[kind]} and {literal[1]} is {WORDS[literal_type]}, "
                f"which are never equal{_hint(name, kind, literal)}"
            )


def _comparisons(tokens: list[Token], types: Types, elements: Elements) -> Iterator[tuple[str, FieldType, Token]]:
    """Yield each field that is compared with a literal: its name, its type and the literal."""
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
        kind, literal = _type(padded, at - 1, types, elements), _literal(right)
        if kind is not None and literal is not None:
            yield left[1], kind, literal
        kind, literal = types.get(right[1]), _literal(left)
        if padded[at][1] == "in" and kind in ("texts", "object"):
            kind = "text" if kind == "texts" else None  # the type of an element; an object may have any keys
        if kind is not None and literal is not None and padded[at - 2][1] not in _MORE - {"("}:
            yield right[1], kind, literal


def _type(tokens: list[Token], at: int, types: Types, elements: Elements) -> FieldType | None:
    """Return the type of the operand that ends at a token; None if it is not known."""
    name, before = tokens[at][1], tokens[at - 1][1]
    if tokens[at][0] != "name":
        return None
    if before == ".":
        variable = tokens[at - 2][1]
        if variable not in elements or tokens[at - 3][1] == ".":
            return None
        known = ELEMENTS[elements[variable]].get(name)
        return None if known is None else known[0]
    return None if before in _MORE - {"("} else types.get(name)


def _sized(tokens: list[Token], end: int) -> str | None:
    """Return ``size(x)`` or ``x.size()`` if that ends at the bracket at *end*, else None."""
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
    """Return the token with its type if it is a literal. Null does not count, as any field may be null."""
    if token[0] in ("text", "number"):
        return token
    return ("truth", token[1]) if token[1] in ("true", "false") else None


def _hint(name: str, kind: FieldType, literal: Token) -> str:
    """Return what to write instead, as the end of the sentence; "" if that is unknown."""
    if kind == "texts":
        return f"; write {literal[1]} in {name}" if literal[0] == "text" else ""
    if kind == "objects":
        return f"; write {literal[1]} in {_TEXT_IN[name]}" if name in _TEXT_IN and literal[0] == "text" else ""
    if name == "trailing":
        return "; name a side, as in trailing.request > 0"
    text = literal[1].strip("rb").strip("'\"")
    if kind == "number" and literal[0] == "text":
        return f"; write {text}" if re.fullmatch(r"\d+(\.\d+)?", text) else ""
    return f'; write "{text}"' if kind == "text" else ""
