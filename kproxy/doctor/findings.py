"""Finding: what was looked at, how it is, and what to do about it."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """How what was looked at is."""

    GOOD = "good"
    NOTE = "note"  # not looked at, or for information
    WARNING = "warning"  # works, and may cause trouble
    PROBLEM = "problem"  # does not work, or not as it is meant


class Finding(NamedTuple):
    """One result of `kproxy doctor`.

    *subject*: what was looked at ("orders: kafka-1:9092"); *what*: how it is, a clause; *advice*: what to do, "" for nothing.
    """

    state: State
    subject: str
    what: str
    advice: str = ""


def good(subject: str, what: str) -> Finding:
    """Nothing is wrong with it."""
    return Finding(State.GOOD, subject, what)


def note(subject: str, what: str, advice: str = "") -> Finding:
    """It was not looked at, or is for information."""
    return Finding(State.NOTE, subject, what, advice)


def warning(subject: str, what: str, advice: str = "") -> Finding:
    """It works, and may cause trouble."""
    return Finding(State.WARNING, subject, what, advice)


def problem(subject: str, what: str, advice: str = "") -> Finding:
    """It does not work, or not as it is meant."""
    return Finding(State.PROBLEM, subject, what, advice)


def count(findings: Iterable[Finding], state: State) -> int:
    """How many are in that state."""
    return sum(one.state is state for one in findings)
