"""Breakpoint: which requests or responses are stopped, as a condition in CEL.

Its fields are those of kproxy.protocol.vocabulary: on a request the same as in conditions of other filters, on a response also
``response``, ``errors`` and ``errorNames``. A condition with ``topic`` is evaluated for each topic of the request by itself.

All connections of a worker wait while a condition is asked, and CEL's library cannot stop one. So a condition is given up, that
is not asked any more, before it takes more than MOST_STEPS for a message (condition_steps.py), and after it took more than
AT_ONCE_S of CPU for two messages: in one of them Python's collector of garbage may have run.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from kproxy.filters.breakpoints.condition_steps import LISTS, ConditionSteps, items_in
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
STATIC = ("apiName", "apiKey", "apiVersion")  # what is known of a frame before it is read
LONGEST_CONDITION = 4_000  # characters
MOST_BREAKPOINTS = 50
AT_ONCE = 500  # topics that are asked about before other connections have their turn
AT_ONCE_S = 0.05  # of CPU that it may take before that
IN_ALL_S = 0.5  # of CPU that it may take for a message
MOST_STEPS = 200_000  # for a message: some 50 ms
MOST_STEPS_AT_LEAST = 10_000  # for every message: it is asked for each API and version before it is used
ITEM_STEPS = 10  # that it takes to hand an item to CEL's library
MOST_STRUCTS = 2_500  # of a body: some 30 ms, and the condition takes twice as long
OF_HEADER = {  # fields known from the header of a frame and its connection
    *("correlationId", "clientId", "principal", "mechanism", "software", "softwareVersion"),
    *("client", "address", "broker", "listener", "cluster"),
}
ADVICE = 'Begin it with what is quick and seldom holds, as in clientId == "app" && …, or leave its loops out.'
CpuTime = Callable[[], float]  # seconds of CPU that the event loop has used


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
        self._condition = Condition(text, "condition", Scope(breakpoint_.direction))
        self._expression = self._condition.expression
        self._may_meet = functools.cache(self._may_meet_now)
        self._of_header = [name for name in self._expression.names if name in OF_HEADER]
        self._steps = ConditionSteps(text)
        self._slow = 0  # messages for which it took too long
        self.given_up: str | None = None  # why it is not asked any more, in sentences
        if self._steps.most(0) > MOST_STEPS_AT_LEAST:
            raise ValueError("the condition has too many loops in each other")
        if not isinstance(self._given(next(iter(facts().apis)), 0), bool | None):
            raise ValueError("the condition must give true or false")

    def may_meet(self, api_key: int, api_version: int) -> bool:
        """Whether it can hold for a message of an API at a version: it is asked with nothing else known."""
        return self._may_meet(api_key, api_version)

    def _may_meet_now(self, api_key: int, api_version: int) -> bool:
        return self._given(api_key, api_version) is not False

    def _given(self, api_key: int, api_version: int) -> Any:
        """What it gives where nothing else is known; None where it depends on that."""
        return self._evaluated(dict(zip(STATIC, (facts().apis[api_key].name, api_key, api_version), strict=True)))

    def _evaluated(self, known: dict[str, Any]) -> Any:
        try:
            return self._expression.evaluate(known)
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError):
            return None

    def is_out(self, request: Request) -> bool:
        """Whether it cannot hold for a message of the request, of which only the header and the connection are known."""
        return self.given_up is not None or self._given_of(request) is False

    def _given_of(self, request: Request) -> Any:
        """What it gives where only that is known; None where it depends on more, or says nothing of it beyond ``may_meet``."""
        if not self._of_header:
            return None
        subject = Subject(request, {})
        return self._evaluated({name: subject[name] for name in (*STATIC, *self._of_header)})

    def meets(self, subject: "StoppedSubject", cpu_time: CpuTime) -> bool:
        """Whether it holds; where that cannot be answered, or would take too long, it does not."""
        return any(self._answers(subject, cpu_time))

    def is_long(self, subject: "StoppedSubject") -> bool:
        """Whether it is asked for so many topics that other connections would wait: see ``meets_in_turns``."""
        return self._condition.is_for_each_topic and len(subject.asked_topics) > AT_ONCE

    async def meets_in_turns(self, subject: "StoppedSubject", cpu_time: CpuTime) -> bool:
        """As ``meets``, while other connections go on."""
        for number, holds in enumerate(self._answers(subject, cpu_time), 1):
            if holds:
                return True
            if number % AT_ONCE == 0:
                await Turn()
        return False

    def _answers(self, subject: "StoppedSubject", cpu_time: CpuTime) -> Iterator[bool]:
        """Whether it holds, for each topic where it is asked so, until it has taken too long."""
        in_all = at_once = 0.0
        began = cpu_time()
        if not self._is_short(subject):
            return
        topics: Iterable[str | None] = subject.asked_topics if self._condition.is_for_each_topic else (None,)
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
        """Whether it can be asked; it is given up where it would take too long."""
        try:
            items = sum(items_in(subject[name]) for name in self._expression.names if name in LISTS)
        except TooManyStructs:
            self._give_up(f"a message has more than {MOST_STRUCTS:,} elements, and it looks at all of them")
        except ValueError:  # it names more than conditions are asked about
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
        self.given_up = f"It is not asked any more, as {why}, and all connections wait meanwhile. {ADVICE}"


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
            self[name] = error_objects(asked.api_key, asked.api_version, self._response)
        elif name == "errorNames":
            self[name] = list(dict.fromkeys(error["name"] for error in self["errors"]))
        else:
            about = asked.api_key, asked.api_version, self._response, self._topic_names
            self[name] = fields_of(*about, of_response=True, most=MOST_STRUCTS)
        return self[name]

    @property
    def body(self) -> dict[str, Any]:
        """See Subject. Raises TooManyStructs."""
        asked = self._asked
        return fields_of(asked.api_key, asked.api_version, asked.message, self._topic_names, most=MOST_STRUCTS)


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
