"""Breakpoint: a condition in CEL and a direction, which decide the requests or responses that are stopped.

The fields of conditions are those of kproxy.protocol.vocabulary: on a request the same as for other filters, on a response also
``response``, ``errors`` and ``errorNames``. A condition with ``topic`` is evaluated for each topic of the request by itself.

All connections of a worker wait while a condition is evaluated, and CEL's library cannot interrupt one. So a condition is given
up, which means that it is not evaluated any more: before it would take more than MOST_STEPS for a message (condition_steps.py),
and after it took more than AT_ONCE_S of CPU for two messages (for one of them, Python's garbage collector may have run).
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from kproxy.filters.breakpoints.condition_steps import LISTS, ConditionSteps, count_items
from kproxy.filters.breakpoints.credentials import why_api_is_refused
from kproxy.filters.conditions import Condition, Subject, TooManyStructs, fields_of
from kproxy.filters.contract import Direction, Request
from kproxy.filters.named_resources import error_objects
from kproxy.filters.turns import Turn
from kproxy.protocol import MessageStruct, request_message
from kproxy.protocol.expressions import Wrong, located
from kproxy.protocol.facts import facts
from kproxy.protocol.vocabulary import Scope

OF_RESPONSES = ("response", "errors", "errorNames")
STATIC = ("apiName", "apiKey", "apiVersion")  # fields that are the same for all messages of an API and version
LONGEST_CONDITION = 4_000  # characters
MOST_BREAKPOINTS = 50
AT_ONCE = 500  # topics that are evaluated before other connections have their turn
AT_ONCE_S = 0.05  # CPU that a condition may take before that
IN_ALL_S = 0.5  # CPU that a condition may take for a message
MOST_STEPS = 200_000  # for a message: about 50 ms
MOST_STEPS_WITHOUT_ITEMS = 10_000  # it is evaluated without lists for each API and version before it is used
ITEM_STEPS = 10  # to hand an item to CEL's library
MOST_STRUCTS = 2_500  # in a body: about 30 ms to convert, twice that to evaluate
OF_HEADER = {  # fields known from the header of a frame and its connection
    *("correlationId", "clientId", "principal", "mechanism", "software", "softwareVersion"),
    *("client", "address", "broker", "listener", "cluster"),
}
ADVICE = 'Begin it with what is quick and seldom holds, as in clientId == "app" && …, or leave its loops out.'
CpuTime = Callable[[], float]  # seconds of CPU that the event loop has used


class Breakpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A breakpoint as a person sets it."""

    condition: str
    direction: Literal["request", "response"] = "request"


class ActiveBreakpoint:
    """A breakpoint in use. Raises ValueError, one sentence, for a condition that cannot be used."""

    def __init__(self, breakpoint_: Breakpoint) -> None:
        text = breakpoint_.condition
        if len(text) > LONGEST_CONDITION:
            raise ValueError(f"a condition has at most {LONGEST_CONDITION:,} characters")
        self.breakpoint = breakpoint_
        self.direction = Direction.REQUEST if breakpoint_.direction == "request" else Direction.RESPONSE
        self._condition = Condition(text, "condition", Scope(breakpoint_.direction))
        self._expression = self._condition.expression
        self._may_match = functools.cache(self._may_match_now)
        self._of_header = [name for name in self._expression.names if name in OF_HEADER]
        self._steps = ConditionSteps(text)
        self._slow = 0  # messages for which it took too much CPU
        self.given_up: str | None = None  # why it is not evaluated any more, in sentences
        if self._steps.most(0) > MOST_STEPS_WITHOUT_ITEMS:
            raise ValueError("the condition has too many loops in each other")
        if not isinstance(self._value_for_api(next(iter(facts().apis)), 0), bool | None):
            raise ValueError("the condition must give true or false")

    def may_match(self, api_key: int, api_version: int) -> bool:
        """Return whether it can match messages of an API at a version, if nothing else is known about them."""
        return self._may_match(api_key, api_version)

    def _may_match_now(self, api_key: int, api_version: int) -> bool:
        return self._value_for_api(api_key, api_version) is not False

    def _value_for_api(self, api_key: int, api_version: int) -> Any:
        """Return the value of the condition if only API and version are known; None if it depends on more."""
        return self._evaluated(dict(zip(STATIC, (facts().apis[api_key].name, api_key, api_version), strict=True)))

    def _evaluated(self, known: dict[str, Any]) -> Any:
        """Return the value of the condition; None if it needs more than the *known* fields."""
        try:
            return self._expression.evaluate(known)
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError):
            return None

    def cannot_match(self, request: Request) -> bool:
        """Return whether the header and the connection of a request rule out that it matches."""
        return self.given_up is not None or self._value_for_header(request) is False

    def _value_for_header(self, request: Request) -> Any:
        """Return the value of the condition if only header and connection are known; None if that is not enough."""
        if not self._of_header:
            return None
        subject = Subject(request, {})
        return self._evaluated({name: subject[name] for name in (*STATIC, *self._of_header)})

    def matches(self, subject: "StoppedSubject", cpu_time: CpuTime) -> bool:
        """Return whether a message matches; False if that cannot be answered, or would take too long."""
        return any(self._answers(subject, cpu_time))

    def needs_turns(self, subject: "StoppedSubject") -> bool:
        """Return whether it is evaluated for so many topics that other connections need their turn: see ``matches_in_turns``."""
        return self._condition.is_for_each_topic and len(subject.requested_topics) > AT_ONCE

    async def matches_in_turns(self, subject: "StoppedSubject", cpu_time: CpuTime) -> bool:
        """Return the same as ``matches``, while other connections go on."""
        for number, holds in enumerate(self._answers(subject, cpu_time), 1):
            if holds:
                return True
            if number % AT_ONCE == 0:
                await Turn()
        return False

    def _answers(self, subject: "StoppedSubject", cpu_time: CpuTime) -> Iterator[bool]:
        """Yield whether the condition holds: once, or for each topic, until it has taken too long."""
        in_all = at_once = 0.0
        began = cpu_time()
        if not self._is_short(subject):
            return
        topics: Iterable[str | None] = subject.requested_topics if self._condition.is_for_each_topic else (None,)
        for number, topic in enumerate(topics, 1):
            holds = self._condition.holds(subject, topic, unclear=False)
            took = cpu_time() - began
            in_all, at_once = in_all + took, at_once + took
            if at_once > AT_ONCE_S or in_all > IN_ALL_S:
                self._note_slow(in_all)
                yield holds
                return
            yield holds
            at_once = at_once if number % AT_ONCE else 0.0
            began = cpu_time()

    def _is_short(self, subject: "StoppedSubject") -> bool:
        """Return whether the condition can be evaluated for a message; give it up if that would take too long."""
        try:
            items = sum(count_items(subject[name]) for name in self._expression.names if name in LISTS)
        except TooManyStructs:
            self._give_up(f"a message has more than {MOST_STRUCTS:,} elements, and the condition looks at all of them")
        except ValueError:  # it names more than MOST_NAMED resources
            return False
        else:
            if self._steps.most(items) + ITEM_STEPS * items > MOST_STEPS:
                self._give_up(f"it takes too long to go through the {items:,} items of a message")
        return self.given_up is None

    def _note_slow(self, took: float) -> None:
        self._slow += 1
        if self._slow > 1:
            self._give_up(
                f"it took {took * 1_000:,.0f} ms for one message, and more than {AT_ONCE_S * 1_000:.0f} ms before"
            )

    def _give_up(self, why: str) -> None:
        self.given_up = f"It is not evaluated any more, as {why}, and all connections wait meanwhile. {ADVICE}"


class StoppedSubject(Subject):
    """The values of the fields of a request, or of a response and its request."""

    def __init__(self, request: Request, topic_names: Any, response: MessageStruct | None = None) -> None:
        super().__init__(request, topic_names)
        self._response = response

    @functools.cached_property
    def requested_topics(self) -> list[str]:
        """The topics for which a condition with ``topic`` is evaluated; none if there are too many."""
        try:
            return [name for name in self.names("topic") if name is not None]
        except ValueError:
            return []

    def __missing__(self, name: str) -> Any:
        if name not in OF_RESPONSES:
            return super().__missing__(name)
        request = self._request
        if self._response is None:
            raise KeyError(name)
        if name == "errors":
            self[name] = error_objects(request.api_key, request.api_version, self._response)
        elif name == "errorNames":
            self[name] = list(dict.fromkeys(error["name"] for error in self["errors"]))
        else:
            about = request.api_key, request.api_version, self._response, self._topic_names
            self[name] = fields_of(*about, of_response=True, most=MOST_STRUCTS)
        return self[name]

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request, as in Subject. Raises TooManyStructs."""
        request = self._request
        return fields_of(request.api_key, request.api_version, request.message, self._topic_names, most=MOST_STRUCTS)


class BreakpointMistake(ValueError):
    """Why a breakpoint cannot be used, as one sentence.

    Args:
        number: which breakpoint, from 1.
        message: the sentence, without that number.
        wrong: the sentence without the condition, and the place in the condition.
    """

    def __init__(self, number: int, message: str, wrong: Wrong) -> None:
        super().__init__(f"breakpoint {number}: {message}")
        self.number = number
        self.wrong = wrong


def activate(breakpoints: list[Breakpoint]) -> list[ActiveBreakpoint]:
    """Check breakpoints and make them ready to use.

    Raises ValueError, one sentence; BreakpointMistake if it is about one of them.
    """
    if len(breakpoints) > MOST_BREAKPOINTS:
        raise ValueError(f"there are at most {MOST_BREAKPOINTS} breakpoints")
    made = []
    for number, one in enumerate(breakpoints, 1):
        try:
            met = ActiveBreakpoint(one)
            _stoppable(met, most=1)
        except ValueError as error:
            message = str(error)
            raise BreakpointMistake(number, message, located(message, one.condition, "condition")) from error
        made.append(met)
    return made


def stoppable_apis(breakpoint_: Breakpoint) -> list[str]:
    """Return the names of the APIs whose messages a breakpoint may stop, in the order of their numbers.

    Raises ValueError as ActiveBreakpoint does, or if there is none.
    """
    return _stoppable(ActiveBreakpoint(breakpoint_), most=len(facts().apis))


def _stoppable(met: ActiveBreakpoint, most: int) -> list[str]:
    """Return at most *most* of these names.

    Raises ValueError if there is none, as all APIs that the breakpoint can match carry credentials.
    """
    names: list[str] = []
    refused = ""
    for api_key, versions in _all_versions():
        if any(met.may_match(api_key, version) for version in versions):
            why = why_api_is_refused(api_key)
            if why is None:
                names.append(facts().apis[api_key].name)
            refused = why or refused
        if len(names) >= most:
            break
    if not names:
        raise ValueError(refused or "the condition holds for no API that kproxy knows")
    return names


def _all_versions() -> Iterator[tuple[int, Iterable[int]]]:
    """Yield the number of each API with the versions of its request."""
    for api_key in facts().apis:
        message = request_message(api_key)
        yield api_key, message.versions if message is not None else ()
