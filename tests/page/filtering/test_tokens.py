"""Tokens of CEL: texts of all kinds, numbers, and what is passed over."""

import pytest

from kproxy.page.filtering.tokens import tokens_of


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a&&!b // what\n||c", ["a", "&&", "!", "b", "||", "c"]),
        (r"r'\' + '\''", [r"r'\'", "+", r"'\''"]),
        ("'''it's''' + \"\"\"a\"b\"\"\"", ["'''it's'''", "+", '"""a"b"""']),
        ("'//' == x", ["'//'", "==", "x"]),
        (".5+1e3-0x1Fu", [".5", "+", "1e3", "-", "0x1Fu"]),
        ("a[0].b", ["a", "[", "0", "]", ".", "b"]),
        ("'open", ["'", "open"]),
    ],
)
def test_tokens(condition: str, expected: list[str]) -> None:
    tokens = tokens_of(condition)
    assert [token.text for token in tokens] == expected
    assert all(condition[token.at :].startswith(token.text) for token in tokens)
