"""Patterns that mean the same to CEL (Rust's regex) as to DuckDB (RE2).

Both are of one family. They differ in classes of characters (``\\d`` is of all scripts in the one, of ASCII in the other), in
what may be written inside ``[]``, in limits, and in what is an error. So only what is plainly the same is taken; CEL evaluates
the rest.
https://docs.rs/regex/latest/regex/#syntax https://github.com/google/re2/wiki/Syntax
"""

import re

LONGEST = 200
MOST_REPEATED = 50
ATOM = re.compile(
    r"""
    (?P<repeat>[*+?]\??|\{(?P<least>\d{1,3})(?P<more>,(?P<most>\d{1,3})?)?\}\??)
    | (?P<edge>[\^$])
    | (?P<open>\((?:\?:)?(?!\?))
    | (?P<close>\))
    | (?P<either>\|)
    | (?P<one>\.|\\[.^$*+?()\[\]{}|/\\-]|[^\\*+?{}()\[\]|^$.\x00-\x1f])
    | (?P<set>\[\^?(?:(?:[A-Za-z0-9_ ./:@%,;=#']|\\[\].\\/^-]|[A-Z]-[A-Z]|[a-z]-[a-z]|[0-9]-[0-9])+)\])
    | (?P<class>\\[dDwWsS])
    | (?P<border>\\[bB])
    """,
    re.VERBOSE,
)
RANGE = re.compile(r"(.)-(.)")
REPEATABLE = frozenset({"one", "set", "class", "close"})
OF_PLAIN = frozenset({"class", "border"})


def is_common(pattern: str, *, plain: bool) -> bool:
    """Whether a pattern means the same to both. *plain*: it is asked of ASCII without control characters."""
    if len(pattern) > LONGEST:
        return False
    if plain and pattern.isascii():
        pattern = pattern.removeprefix("(?i)")
    kinds = _kinds(pattern)
    return kinds is not None and (plain or OF_PLAIN.isdisjoint(kinds)) and _is_whole(kinds)


def _kinds(pattern: str) -> list[str] | None:
    """What the pattern consists of; None where there is something else in it."""
    kinds: list[str] = []
    at = 0
    while at < len(pattern):
        found = ATOM.match(pattern, at)
        if found is None or not _is_count(found) or not _is_set(found):
            return None
        kinds.append(_kind(found))
        at = found.end()
    return kinds


def _kind(found: re.Match[str]) -> str:
    name = next(name for name, text in found.groupdict().items() if text is not None)
    return "count" if found["least"] is not None else name


def _is_whole(kinds: list[str]) -> bool:
    """Whether brackets are closed, what is repeated can be, and at most once by a number; nothing is empty."""
    depth = 0
    for before, kind in zip(["start", *kinds], [*kinds, "end"], strict=True):
        depth += (kind == "open") - (kind == "close")
        empty = before in ("start", "open", "either") and kind in ("close", "either")
        if depth < 0 or empty or (kind in ("repeat", "count") and before not in REPEATABLE):
            return False
    return depth == 0 and kinds[-1:] != ["either"] and kinds.count("count") <= 1


def _is_count(found: re.Match[str]) -> bool:
    if found["least"] is None:
        return True
    return int(found["least"]) <= int(found["most"] or found["least"]) <= MOST_REPEATED


def _is_set(found: re.Match[str]) -> bool:
    return found["set"] is None or all(low <= high for low, high in RANGE.findall(found["set"].replace(r"\-", "")))
