"""ConditionSteps: how many steps a condition takes at most, before it is asked. CEL's library cannot stop one that it is at.

A loop (``all``, ``exists``, ``exists_one``) takes a step for each item of a list; ``map`` and ``filter`` copy what they have
found for each item that they add. In a loop that stands in another one, or that looks at a whole list for each item, these
multiply: ``topics.all(a, topics.exists(b, b == a))`` takes a million steps for 1,000 topics. A loop over what the item of the
loop around it has, as in ``request.topics.all(t, t.partitions.all(p, p.index == 0))``, does not: it sees each item once.
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
    """Those of one condition, which is CEL that can be compiled."""

    def __init__(self, text: str) -> None:
        self._power = 0  # of the number of items
        self._loops = 0
        self._literals = 1  # items of lists that are written in the condition
        self._each = MATCH_STEPS if re.search(r"\bmatches\s*\(", text) else 1
        around: list[tuple[int, str]] = [(0, "")]  # of each open parenthesis: the power in it, the variable of its loop
        owner = ""  # of the value that the next token may loop over: the name at its begin
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
        """With so many items in the lists that it names."""
        at_most: int = max(items, self._literals, 1) ** self._power
        return at_most * max(self._loops, 1) * self._each


def items_in(value: Any) -> int:
    """How many items a value has that a condition names, with those of all lists in it."""
    if isinstance(value, dict):
        return sum(map(items_in, value.values()))
    if isinstance(value, list):
        return len(value) + sum(map(items_in, value)) if value and isinstance(value[0], dict | list) else len(value)
    return 0
