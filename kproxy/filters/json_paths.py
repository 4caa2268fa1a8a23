"""Paths into JSON, such as ``$.card.number``, ``$.people[*]['e-mail']``, ``$.lines[0].*``, combined into one automaton.

$.name ['any name'] ["any name"]   the member of an object
[0]                                an element of an array
[*] .*                             every member of an object, every element of an array
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

EVERY = -1
LEAF = -1  # in place of a state: the value is at the end of a path
MOST_STATES = 10_000
STEP = re.compile(r"""\.([A-Za-z_$][\w$-]*)|\['([^']*)'\]|\["([^"]*)"\]|\[(\d{1,9})\]|(\[\*\]|\.\*)""")

Path = tuple[str | int, ...]  # names, indexes, EVERY


class State(NamedTuple):
    """A state of the automaton, at an object or array: for each of its values the number of the next state, or LEAF."""

    names: dict[str, int]
    indexes: dict[int, int]
    every: int | None  # for all other names and indexes; None: nothing is looked for in them


def parse_path(path: str) -> Path:
    """Return the steps of a path. Raises ValueError."""
    at = 1
    steps: list[str | int] = []
    while path.startswith("$") and at < len(path):
        match = STEP.match(path, at)
        if match is None:
            break
        name, quoted, doubly, index, every = match.groups()
        steps.append(
            EVERY if every else int(index) if index else next(n for n in (name, quoted, doubly) if n is not None)
        )
        at = match.end()
    if not steps or at < len(path):
        raise ValueError(f"{path!r} is no JSON path: write $.name, $.list[*].name, $['a name'], $.list[0]")
    return tuple(steps)


def parse_paths(paths: Iterable[str]) -> list[State]:
    """Return the states of an automaton that finds the values at all paths; the first is the initial one. Raises ValueError."""
    begin = frozenset(map(parse_path, paths))
    numbers = {begin: 0}
    states: list[State] = []
    open_states = [begin]
    for left in open_states:  # what is left of the paths in a state; it grows meanwhile
        steps = {path[0] for path in left}
        leads = {step: _number(_behind(left, step), numbers) for step in sorted(steps, key=str)}
        names = {step: number for step, number in leads.items() if isinstance(step, str)}
        indexes = {step: number for step, number in leads.items() if isinstance(step, int) and step != EVERY}
        states.append(State(names, indexes, leads.get(EVERY)))
        open_states += list(numbers)[len(open_states) :]
    return states


def _behind(paths: frozenset[Path], step: str | int) -> frozenset[Path]:
    """Return what remains of the paths after a step."""
    return frozenset(path[1:] for path in paths if path[0] in (step, EVERY))


def _number(left: frozenset[Path], numbers: dict[frozenset[Path], int]) -> int:
    if () in left:  # the whole value; longer paths are in it
        return LEAF
    if len(numbers) >= MOST_STATES:
        raise ValueError(
            f"the paths have more than {MOST_STATES:,} combinations of names and wildcards: write fewer wildcards"
        )
    return numbers.setdefault(left, len(numbers))
