"""Patterns that are taken match the same texts in CEL as in DuckDB."""

from random import Random

import cel
import duckdb
import pytest

from kproxy.page.filtering.patterns import is_common

PIECES = ["a", "b", "1", ".", "-", "é", "*", "+", "?", "*?", "{2}", "{1,3}", "{2,}", "^", "$", "(", "(?:", ")", "|", "[ab]",
          "[^a1]", "[a-c.]", r"\.", r"\-", r"\d", r"\w", r"\b", r"\s", "(?i)", "[", "{", "\\", "[0-9]"]  # fmt: skip
TEXTS = ["", "a", "b", "aa", "ab", "a1", "1-a", "a.b", "aab", "-1", "b1a", "AB", "a b", "bbb-1", "a1a1", "[a]", "aaaa"]
OTHERS = ["é", "aé", "日本", "٣", "a\nb", "b\n", "\u212a", "a\u00a0b"]  # texts that are not plain


def made(source: Random) -> str:
    return "".join(source.choice(PIECES) for _ in range(source.randrange(1, 7)))


def matched(database: duckdb.DuckDBPyConnection, pattern: str, texts: list[str]) -> tuple[list[bool], list[bool]]:
    """In DuckDB, and in CEL. The pattern is a constant, as in filters."""
    constant = "'" + pattern.replace("'", "''") + "'"
    query = f"SELECT regexp_matches(t, {constant}) FROM (SELECT unnest($texts) AS t)"
    rows = database.execute(query, {"texts": texts}).fetchall()
    program = cel.compile("t.matches(p)")
    return [row[0] for row in rows], [program.execute({"t": text, "p": pattern}) for text in texts]


def test_patterns_made_at_random_match_the_same() -> None:
    source, taken = Random(5), 0
    with duckdb.connect() as database:
        for _ in range(1_200):
            pattern = made(source)
            for plain in (True, False):
                if is_common(pattern, plain=plain):
                    taken += 1
                    ours, theirs = matched(database, pattern, TEXTS if plain else TEXTS + OTHERS)
                    assert ours == theirs, pattern
    assert taken > 200


@pytest.mark.parametrize(
    "pattern",
    [
        "^10[.].*7$",
        "^c.*[0-9]$",
        "consumer-(a|b)-",
        "9092",
        "x{2,5}",
        "[A-Za-z_]+",
        "a|b|c",
        "(?:ab)+?",
        r"\.internal$",
    ],
)
def test_what_people_write_is_taken(pattern: str) -> None:
    assert is_common(pattern, plain=False)


@pytest.mark.parametrize(
    "pattern",
    [r"\d", "(?i)a", "[[:alpha:]]", "[a&&b]", "(?P<n>a)", "a{1001}", "a**", "(", ")", "a)", "x{3,2}", "[z-a]", "a{,2}",
     r"\pL", "(a{2}){2}", "*a", "a\\", "x" * 201, "^*", r"\x41"],
)  # fmt: skip
def test_what_may_differ_is_left_to_cel(pattern: str) -> None:
    assert not is_common(pattern, plain=False)


@pytest.mark.parametrize("pattern", [r"\d+$", "(?i)ab", r"\bapi\b", r"^\w+-\d"])
def test_classes_are_taken_of_plain_texts(pattern: str) -> None:
    assert is_common(pattern, plain=True)
