"""Finding: what was looked at, how it is, and what to do about it."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
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


def good(subject: str, what: str) -> Finding:
    """Make a finding: all is well."""
    return Finding(State.GOOD, subject, what)


def note(subject: str, what: str, advice: str = "") -> Finding:
    """Make a finding: it was not examined, or is for information only."""
    return Finding(State.NOTE, subject, what, advice)


def warning(subject: str, what: str, advice: str = "") -> Finding:
    """Make a finding: it works, but may cause trouble."""
    return Finding(State.WARNING, subject, what, advice)


def problem(subject: str, what: str, advice: str = "") -> Finding:
    """Make a finding: it does not work, or not as intended."""
    return Finding(State.PROBLEM, subject, what, advice)


def count(findings: Iterable[Finding], state: State) -> int:
    return sum(one.state is state for one in findings)


def listed(names: Sequence[object], most: int = MOST_NAMED) -> str:
    """Name the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
