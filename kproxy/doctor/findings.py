"""Finding: what was looked at, how it is, and what to do about it."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

MOST_NAMED = 5  # of a list in one sentence


class State(StrEnum):
    """The result of one check."""

    GOOD = "good"
    NOTE = "note"  # not looked at, or for information
    WARNING = "warning"  # works, and may cause trouble
    PROBLEM = "problem"  # does not work, or not as it is meant


class Finding(NamedTuple):
    """One result of `kproxy doctor`.

    *subject*: what was checked ("orders: kafka-1:9092"); *what*: the result, a clause; *advice*: what to do, "" for nothing.
    """

    state: State
    subject: str
    what: str
    advice: str = ""


class Words(NamedTuple):
    """What is wrong, and what to do about it."""

    what: str
    advice: str


good = partial(Finding, State.GOOD)
note = partial(Finding, State.NOTE)
warning = partial(Finding, State.WARNING)
problem = partial(Finding, State.PROBLEM)


def count(findings: Iterable[Finding], state: State) -> int:
    return sum(one.state is state for one in findings)


def listed(names: Sequence[object], most: int = MOST_NAMED) -> str:
    """Name the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
