"""Breakpoint: a condition in CEL and a direction, which decide the requests or responses that are stopped.

The fields of conditions are those of kproxy.protocol.vocabulary: on a request the same as for other filters, on a response also
``response``, ``errors`` and ``errorNames``. A condition with ``topic`` is evaluated for each topic of the request by itself.

All connections of a worker wait while a condition is evaluated, and CEL's library cannot interrupt one. So a condition is given
up, which means that it is not evaluated any more, before it would take more than MOST_STEPS at once, or MOST_STEPS_IN_TURNS for
all topics of a message.

Steps. A loop (``all``, ``exists``, ``exists_one``) takes a step for each item of a list; ``map`` and ``filter`` copy their result
for each item that they add. For a loop inside another one, or one that uses a whole list for each item, these numbers multiply:
``topics.all(a, topics.exists(b, b == a))`` takes a million steps for 1,000 topics. They do not multiply for a loop over a part of
the outer loop's item, as in ``request.topics.all(t, t.partitions.all(p, p.index == 0))``: it visits each partition once.

Credentials. SASL, delegation tokens, SCRAM credentials and secret settings are not stopped, as a person would see them.
kproxy.protocol.secrets says which fields carry credentials. An API with such a field in its request or response cannot be stopped
at all, in either direction. Where the name of a setting decides (configurations), a message passes if it has one that is secret.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from kproxy.filters.conditions import Condition, Subject, TooManyStructs, fields_of
from kproxy.filters.contract import Direction, Request
from kproxy.filters.named_resources import error_objects
from kproxy.filters.turns import Steps
from kproxy.protocol import ApiKey, Message, MessageStruct, request_message, response_message
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.protocol.expressions import Wrong, located
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.secrets import Secrecy, secrecy
from kproxy.protocol.vocabulary import Scope, names_of_type

OF_RESPONSES = ("response", "errors", "errorNames")
STATIC = ("apiName", "apiKey", "apiVersion")  # fields that are the same for all messages of an API and version
LONGEST_CONDITION = 4_000  # characters
MOST_BREAKPOINTS = 50
AT_ONCE = 500  # topics that are evaluated before other connections have their turn
MOST_STEPS = 200_000  # before other connections have their turn: about 50 ms
MOST_STEPS_IN_TURNS = 2_000_000  # for a message with many topics
MOST_STEPS_WITHOUT_ITEMS = 10_000  # it is evaluated without lists for each API and version before it is used
ITEM_STEPS = 10  # to hand an item to CEL's library
MOST_STRUCTS = 2_500  # in a body: about 30 ms to convert, twice that to evaluate
OF_HEADER = {  # fields known from the header of a frame and its connection
    *("correlationId", "clientId", "principal", "mechanism", "software", "softwareVersion"),
    *("client", "address", "broker", "listener", "cluster"),
}
ADVICE = 'Begin it with what is quick and seldom holds, as in clientId == "app" && …, or leave its loops out.'
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
LOGIN = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
# The log and snapshots of the controllers have the SCRAM credentials and delegation tokens of all users
SNAPSHOTS = {ApiKey.FETCH_SNAPSHOT}


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

    def matches(self, subject: "StoppedSubject") -> Steps[bool]:
        """Return whether a message matches; False if that cannot be answered, or would take too long."""
        topics: Sequence[str | None] = subject.requested_topics if self._condition.is_for_each_topic else [None]
        steps = self._steps_for(subject, len(topics))
        if steps is None:
            return False
        at_once = max(1, min(AT_ONCE, MOST_STEPS // steps))
        for number, topic in enumerate(topics, 1):
            if self._condition.holds(subject, topic, unclear=False):
                return True
            if number % at_once == 0 and number < len(topics):
                yield
        return False

    def _steps_for(self, subject: "StoppedSubject", topics: int) -> int | None:
        """Return how many steps the condition takes for a message and one of so many topics, at most.

        None: it cannot be evaluated, or is given up, as that would take too long.
        """
        try:
            items = sum(count_items(subject[name]) for name in self._expression.names if name in LISTS)
        except TooManyStructs:
            self._give_up(f"a message has more than {MOST_STRUCTS:,} elements, and the condition looks at all of them")
            return None
        except ValueError:  # it names more than MOST_NAMED resources
            return None
        steps = 1 + self._steps.most(items) + ITEM_STEPS * items
        if steps > MOST_STEPS or steps * topics > MOST_STEPS_IN_TURNS:
            self._give_up(f"it takes too long to go through the {items:,} items of a message")
            return None
        return steps

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
    """Return the names of at most *most* APIs whose messages the breakpoint may stop.

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


@functools.cache
def why_api_is_refused(api_key: int) -> str | None:
    """Return why no message of an API can be stopped, as a sentence; None if messages can."""
    name = facts().apis[api_key].name
    if api_key in LOGIN:
        return f"{name} is part of a login, and cannot be stopped"
    messages = [message for message in (request_message(api_key), response_message(api_key)) if message is not None]
    if api_key in SNAPSHOTS or any(_has(message.name, Secrecy.ALWAYS) for message in messages):
        return f"{name} carries credentials, and cannot be stopped"
    return None


def carries_credentials(message: Message, version: int, value: MessageStruct) -> bool:
    """Return whether a message has a secret setting, or is about the log of the controllers."""
    if message.api_key in (ApiKey.FETCH, ApiKey.PRODUCE) and _is_of_controllers(value):
        return True
    if not _has(message.name, Secrecy.BY_NAME):
        return False
    body = message.encode(version, value)
    return message.to_json(version, body) != message.to_json(version, body, withhold=True)


def _is_of_controllers(value: Any) -> bool:
    for array in ("topics", "responses", "topic_data"):
        for topic in getattr(value, array, None) or ():
            names = (getattr(topic, name, None) for name in ("topic", "name", "topic_id"))
            if any(name in (METADATA_TOPIC, METADATA_TOPIC_ID) for name in names):
                return True
    return False


@functools.cache
def _has(message: str, wanted: Secrecy) -> bool:
    """Return whether a message has a field of that kind at any version."""
    return any(_any_field(message, layout.fields, (), wanted) for layout in facts().layouts(message))


def _any_field(message: str, fields: Iterable[Field], above: tuple[str, ...], wanted: Secrecy) -> bool:
    for field in fields:
        path = (*above, field.json_name)
        if secrecy(message, path) is wanted or _any_field(message, field.fields, path, wanted):
            return True
    return False
