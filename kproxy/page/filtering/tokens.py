"""The tokens of a CEL expression."""

import re

from msgspec import Struct

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


class Token(Struct, frozen=True):
    """A token: its kind (text, number, name, sign), its text, and where it begins."""

    kind: str
    text: str
    at: int


def tokens_of(condition: str) -> tuple[Token, ...]:
    """Return the tokens, without spaces and comments."""
    tokens = (Token(str(one.lastgroup), one[0], one.start()) for one in TOKEN.finditer(condition))
    return tuple(token for token in tokens if token.kind != "space")
