"""Breakpoint: which requests or responses are stopped, as a condition in CEL.

It may name what conditions of other filters may (kproxy.filters.conditions); of a response also ``response``, its body, and
``errors``, the names of the errors in it. A condition with ``topic`` is asked for each topic of the request by itself.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from kproxy.filters.breakpoints.credentials import why_api_is_refused
from kproxy.filters.conditions import NAMES, Condition, Subject, fields_of
from kproxy.filters.contract import Direction, Request
from kproxy.filters.named_resources import errors_of
from kproxy.filters.turns import Turn
from kproxy.protocol import MessageStruct, request_message
from kproxy.protocol.expressions import Expression, Wrong, located
from kproxy.protocol.facts import facts

OF_RESPONSES = ("response", "errors")
STATIC = ("api", "apiKey", "apiVersion")  # what is known of a frame before it is read
LONGEST_CONDITION = 4_000  # characters
MOST_BREAKPOINTS = 50
AT_ONCE = 500  # topics that are asked about before other connections have their turn


class Breakpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person sets."""

    condition: str
    direction: Literal["request", "response"] = "request"


class Met:
    """A breakpoint in use. Raises ValueError, one sentence, for a condition that cannot be used."""

    def __init__(self, breakpoint_: Breakpoint) -> None:
        text = breakpoint_.condition
        if len(text) > LONGEST_CONDITION:
            raise ValueError(f"a condition has at most {LONGEST_CONDITION:,} characters")
        self.breakpoint = breakpoint_
        self.direction = Direction.REQUEST if breakpoint_.direction == "request" else Direction.RESPONSE
        names = NAMES if self.direction == Direction.REQUEST else (*NAMES, *OF_RESPONSES)
        self._condition = Condition(text, "condition", names)
        self._expression = Expression(text, names, "condition")
        self._may_meet = functools.cache(self._may_meet_now)
        if not isinstance(self._given(next(iter(facts().apis)), 0), bool | None):
            raise ValueError("the condition must give true or false")

    def may_meet(self, api_key: int, api_version: int) -> bool:
        """Whether it can hold for a message of an API at a version: it is asked with nothing else known."""
        return self._may_meet(api_key, api_version)

    def _may_meet_now(self, api_key: int, api_version: int) -> bool:
        return self._given(api_key, api_version) is not False

    def _given(self, api_key: int, api_version: int) -> Any:
        """What it gives where nothing else is known; None where it depends on that."""
        known = dict(zip(STATIC, (facts().apis[api_key].name, api_key, api_version), strict=True))
        try:
            return self._expression.evaluate(known)
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError):
            return None

    def meets(self, subject: "StoppedSubject") -> bool:
        """Whether it holds; where that cannot be answered it does not."""
        if not self._condition.is_for_each_topic:
            return self._condition.holds(subject, unclear=False)
        return any(self._condition.holds(subject, topic, unclear=False) for topic in subject.asked_topics)

    def is_long(self, subject: "StoppedSubject") -> bool:
        """Whether it is asked for so many topics that other connections would wait: see ``meets_in_turns``."""
        return self._condition.is_for_each_topic and len(subject.asked_topics) > AT_ONCE

    async def meets_in_turns(self, subject: "StoppedSubject") -> bool:
        """As ``meets``, while other connections go on."""
        if not self.is_long(subject):
            return self.meets(subject)
        for number, topic in enumerate(subject.asked_topics, 1):
            if self._condition.holds(subject, topic, unclear=False):
                return True
            if number % AT_ONCE == 0:
                await Turn()
        return False


class StoppedSubject(Subject):
    """What a condition may name of a request, or of a response and its request."""

    def __init__(self, request: Request, topic_names: Any, response: MessageStruct | None = None) -> None:
        super().__init__(request, topic_names)
        self._asked = request
        self._response = response

    @functools.cached_property
    def asked_topics(self) -> list[str]:
        """The names of the topics that a condition with ``topic`` is asked for; none where there are too many."""
        try:
            return [name for name in self.names("topic") if name is not None]
        except ValueError:
            return []

    def __missing__(self, name: str) -> Any:
        if name not in OF_RESPONSES:
            return super().__missing__(name)
        asked = self._asked
        if self._response is None:
            raise KeyError(name)
        if name == "errors":
            self[name] = list(errors_of(asked.api_key, asked.api_version, self._response))
        else:
            about = asked.api_key, asked.api_version, self._response, self._topic_names
            self[name] = fields_of(*about, of_response=True)
        return self[name]


class BreakpointMistake(ValueError):
    """Why a breakpoint cannot be used, as one sentence.

    Args:
        number: which one, from 1.
        wrong: the same without the condition, and where in the condition.
    """

    def __init__(self, number: int, message: str, wrong: Wrong) -> None:
        super().__init__(f"breakpoint {number}: {message}")
        self.number = number
        self.wrong = wrong


def in_use(breakpoints: list[Breakpoint]) -> list[Met]:
    """The breakpoints, checked. Raises ValueError, one sentence; BreakpointMistake, where one of them is wrong."""
    if len(breakpoints) > MOST_BREAKPOINTS:
        raise ValueError(f"there are at most {MOST_BREAKPOINTS} breakpoints")
    made = []
    for number, one in enumerate(breakpoints, 1):
        try:
            met = Met(one)
            _stoppable(met, most=1)
        except ValueError as error:
            message = str(error)
            raise BreakpointMistake(number, message, located(message, one.condition, "condition")) from error
        made.append(met)
    return made


def stoppable_apis(breakpoint_: Breakpoint) -> list[str]:
    """The names of the APIs of which it may stop messages, by number. Raises ValueError as Met does, or where there is none."""
    return _stoppable(Met(breakpoint_), most=len(facts().apis))


def _stoppable(met: Met, most: int) -> list[str]:
    """At most so many. Raises ValueError where it could meet nothing, as all that it means carries credentials."""
    found: list[str] = []
    refused = ""
    for api_key, versions in _all_versions():
        if any(met.may_meet(api_key, version) for version in versions):
            why = why_api_is_refused(api_key)
            if why is None:
                found.append(facts().apis[api_key].name)
            refused = why or refused
        if len(found) >= most:
            break
    if not found:
        raise ValueError(refused or "the condition holds for no API that kproxy knows")
    return found


def _all_versions() -> Iterator[tuple[int, Iterable[int]]]:
    """The number of each API, and the versions of its request."""
    for api_key in facts().apis:
        message = request_message(api_key)
        yield api_key, message.versions if message is not None else ()
