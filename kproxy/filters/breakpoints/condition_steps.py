"""ConditionSteps: how many steps evaluating a condition takes at most, as CEL's library cannot interrupt an evaluation.

A loop (``all``, ``exists``, ``exists_one``) takes a step for each item of a list; ``map`` and ``filter`` copy their result for
each item that they add. For a loop inside another one, or one that uses a whole list for each item, these numbers multiply:
``topics.all(a, topics.exists(b, b == a))`` takes a million steps for 1,000 topics. They do not multiply for a loop over a part of
the outer loop's item, as in ``request.topics.all(t, t.partitions.all(p, p.index == 0))``: it visits each partition once.
"""

import re
from typing import Any

from kproxy.protocol.vocabulary import names_of_type

LISTS = names_of_type("texts", "objects", "object")  # fields that are or have lists
COPIES = frozenset(("map", "filter"))
MATCH_STEPS = 100  # of one ``matches``, which compiles its pattern each time
TOKEN = re.compile(
    r"""
      //[^\n]* | (?s:\"{3}.*?\"{3} | '{3}.*?'{3}) | "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*'   # comments and texts
    | \.\s*(?P<loop>all|exists|exists_one|existsOne|map|filter)\s*\(\s*(?P<variable>[A-Za-z_]\w*)\s*,
    | (?P<name>(?<![\w.])[A-Za-z_]\w*) (?P<path>(?:\s*\.\s*[A-Za-z_]\w*(?!\w*\s*\())*)
    | (?P<sign>[()\[\],])
    """,
    re.VERBOSE,
)


class ConditionSteps:
    """The steps of one condition, which must be CEL that compiles."""

    def __init__(self, text: str) -> None:
        self._power = 0  # exponent of the number of items
        self._loops = 0
        self._literals = 1  # items of lists that are written in the condition
        self._each = MATCH_STEPS if re.search(r"\bmatches\s*\(", text) else 1
        # For each open parenthesis: the power inside it, and the variable of its loop
        around: list[tuple[int, str]] = [(0, "")]
        owner = ""  # the first name in the value over which the next token may loop
        for token in TOKEN.finditer(text):
            power, variable = around[-1]
            if token["loop"]:
                self._loops += 1
                is_below = owner != "" and owner == variable
                power += (0 if is_below else 1) + (token["loop"] in COPIES)
                around.append((power, token["variable"]))
                self._power = max(self._power, power)
            elif token["name"]:
                self._power = max(self._power, power + (token["name"] in LISTS))
            elif token["sign"] in ("(", "["):
                around.append((power, variable))
            elif token["sign"] in (")", "]"):
                del around[max(len(around) - 1, 1) :]
            elif token["sign"] == ",":
                self._literals += 1
            owner = token["name"] or ""

    def most(self, items: int) -> int:
        """Return the largest number of steps, if the lists in the fields have so many items."""
        at_most: int = max(items, self._literals, 1) ** self._power
        return at_most * max(self._loops, 1) * self._each


def count_items(value: Any) -> int:
    """Return how many items the lists in the value of a field have in all."""
    if isinstance(value, dict):
        return sum(map(count_items, value.values()))
    if isinstance(value, list):
        return len(value) + sum(map(count_items, value)) if value and isinstance(value[0], dict | list) else len(value)
    return 0
