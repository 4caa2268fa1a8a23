"""Names and patterns of options ("orders-*"), and the rules that they choose."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Protocol, TypeVar

from kproxy.encryption.made_once import MadeOnce

MOST_TOPICS = 10_000  # remembered at a time: clients may make topics up


class TopicRule(Protocol):
    """A rule about some topics."""

    @property
    def topics(self) -> tuple[str, ...]:
        """They, by name or pattern."""


Rule = TypeVar("Rule", bound=TopicRule)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name is one of these, or matches one."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def rule_of(rules: Iterable[Rule], topic: str) -> Rule | None:
    """Return the first rule that names a topic."""
    return next((rule for rule in rules if matches(topic, rule.topics)), None)


def rules_by_topic(rules: Sequence[Rule]) -> MadeOnce[str, Rule | None]:
    """Return the rule of each topic that it is asked for."""
    return MadeOnce(partial(rule_of, rules), MOST_TOPICS)
