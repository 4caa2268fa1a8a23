"""Rule: a fault that is ready to decide: its selection, its schedule and its effects, made from the options and a scenario."""

import random
from collections.abc import Collection, Iterable
from typing import Any, Literal

import msgspec

from kproxy.filters.conditions import Condition, Subject
from kproxy.filters.contract import Request, Runtime, SharedCount
from kproxy.filters.faults.effects import ALWAYS_IN_PLACE
from kproxy.filters.faults.options import SCENARIOS, Fault, names
from kproxy.filters.matching import matches
from kproxy.filters.named_resources import Topic, topic_places, topics_of
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import facts

CALLS, FIRED = "calls", "fired"  # events that are counted
FILTER = "faults"
LONGEST_NAME = 100


class Rule:
    """A fault in use.

    Args:
        fault: its options, combined with those of its scenario.
        errors: API key -> error code, from a scenario; empty: the fault's error, for all APIs.
        name: its name in counts.
    """

    def __init__(self, fault: Fault, errors: dict[int, int], name: str) -> None:
        self.fault = fault
        self.name = name
        keys = _api_keys()
        self.apis = frozenset(errors) if errors else frozenset(keys[api] for api in names(fault.api_name) or keys)
        self._errors = errors
        self._code = None if fault.error is None else int(ErrorCode[fault.error])
        self.topics = names(fault.topic)
        self._groups = names(fault.group)
        self._client_ids = names(fault.client_id)
        self._brokers = names(fault.broker)
        self._where = None if fault.where is None else Condition(fault.where, "where")
        calls = (fault.call,) if isinstance(fault.call, int) else fault.call
        self._schedule = Schedule(calls, fault.skip, fault.times, fault.probability, fault.seed)
        self._calls: SharedCount
        self._fired: SharedCount

    def start(self, runtime: Runtime) -> None:
        """Find its counts. Raises UsageError if there are too many."""
        self._calls = runtime.shared_count(FILTER, CALLS, self.name)
        self._fired = runtime.shared_count(FILTER, FIRED, self.name)

    def code(self, api_key: int) -> int | None:
        """Return the error for requests of an API; None: it does not answer with an error."""
        return self._errors.get(api_key, self._code)

    def when(self, api_key: int) -> Literal["before", "after"]:
        """Return whether it is applied before the broker gets the request, or to the response."""
        fault = self.fault
        if fault.truncate is not None or fault.throttle is not None:
            return "after"
        in_place = self.code(api_key) is not None and api_key in ALWAYS_IN_PLACE
        return "after" if in_place else fault.when or "before"

    def answers(self, api_key: int) -> bool:
        """Return whether the client gets something else than the broker's response to a request of an API, or nothing."""
        fault = self.fault
        return self.code(api_key) is not None or fault.disconnect or fault.black_hole or fault.truncate is not None

    def names_topic(self, name: str, topic_id: str, topic_names: Any) -> bool:
        """Return whether a topic, known by its name or its id, matches one of the fault's patterns."""
        return matches(name or topic_names.get(topic_id, ""), self.topics)

    def selects(self, request: Request, topic_names: Any, topics: Iterable[Topic]) -> bool:
        """Return whether a request is a call of this fault.

        Args:
            request: the request.
            topic_names: names of topics by their ids (TopicNames of identify.py).
            topics: those of the request, with those of its fetch session.
        """
        if self._client_ids and not matches(request.client_id or "", self._client_ids):
            return False
        if self._brokers and not matches(request.connection.broker, self._brokers):
            return False
        if self.topics and not any(self.names_topic(*topic, topic_names) for topic in topics):
            return False
        if not self._groups and self._where is None:
            return True
        subject = Subject(request, topic_names)
        if self._groups and not _names_one_of(subject, self._groups):
            return False
        return self._where is None or self._where.holds(subject, unclear=False)

    def fires(self) -> bool:
        """Count a call; return whether the fault fires on it."""
        return self._schedule.fires(self._calls.add())

    def count_fired(self) -> None:
        self._fired.add()


def rules(faults: Iterable[Fault]) -> list[Rule]:
    made: list[Rule] = []
    taken: set[str] = set()
    for fault in faults:
        combined, errors = _with_scenario(fault)
        name = _unused(fault.name or describe(fault), taken)
        taken.add(name)
        made.append(Rule(combined, errors, name))
    return made


def describe(fault: Fault) -> str:
    given = msgspec.to_builtins(fault)
    defaults = {field.name: field.default for field in msgspec.structs.fields(Fault)}
    words = [f"{key}={_word(value)}" for key, value in given.items() if value not in ([], (), defaults[key])]
    return " ".join(words)[:LONGEST_NAME]


def requests_topics(request: Request) -> bool:
    """Return whether a Metadata request is for topics, so that its response has a place for an error."""
    topics: Any = getattr(request.message, "topics", None)
    return topics is None or bool(topics) or request.api_version == 0


def requested_topics(request: Request) -> list[Topic]:
    return list(topics_of(request.message, topic_places(request.api_key, request.api_version)))


def _with_scenario(fault: Fault) -> tuple[Fault, dict[int, int]]:
    """Return the fault with the options of its scenario that it does not set itself, and the errors of the scenario."""
    if fault.scenario is None:
        return fault, {}
    scenario = SCENARIOS[fault.scenario]
    fields = {field.name: field.default for field in msgspec.structs.fields(Fault)}
    unset = {name: value for name, value in scenario.options.items() if getattr(fault, name) == fields[name]}
    keys, chosen = _api_keys(), names(fault.api_name) or scenario.errors
    errors = {
        keys[api]: int(ErrorCode[error if fault.error is None else fault.error])
        for api, error in scenario.errors.items()
        if api in chosen
    }
    return msgspec.structs.replace(fault, **unset), errors


def _unused(name: str, taken: set[str]) -> str:
    number = 2
    unused = name
    while unused in taken:
        unused, number = f"{name} #{number}", number + 1
    return unused


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else f"{value}"


def _names_one_of(subject: Subject, groups: Iterable[str]) -> bool:
    """Return whether a request names a group that matches; False if it names more than conditions look at."""
    try:
        return any(matches(group, groups) for group in subject["groups"])
    except ValueError:
        return False


def _api_keys() -> dict[str, int]:
    return {api.name: key for key, api in facts().apis.items()}


class Schedule:
    """When a fault fires.

    Args:
        calls: the numbers of the calls, from 1; empty: all.
        after: how many first calls never fail.
        times: the fault fires at most so often; None: always.
        probability: that it fires on a call which the other arguments allow.
        seed: the same seed gives the same calls.
    """

    def __init__(
        self,
        calls: Collection[int] = (),
        after: int = 0,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> None:
        self._calls = frozenset(calls)
        self._after = after
        self._times = times
        self._probability = probability
        self._seed = seed
        self._looked = after  # the last call for which it is known whether chance selected it
        self._drawn: list[int] = []  # the calls up to that one which chance selected

    def fires(self, call: int) -> bool:
        if call <= self._after or (self._calls and call not in self._calls):
            return False
        if self._times is None:
            return self._is_drawn(call)
        if not self._calls and self._probability >= 1.0:
            return call <= self._after + self._times
        return self._is_drawn(call) and self._drawn_before(call) < self._times

    def _is_drawn(self, call: int) -> bool:
        """Return whether chance selects the call."""
        return self._probability >= 1.0 or random.Random(f"{self._seed}:{call}").random() < self._probability

    def _drawn_before(self, call: int) -> int:
        """Return how many earlier calls chance selected, as far as that matters."""
        assert self._times is not None
        candidates = sorted(self._calls) if self._calls else range(self._looked + 1, call)
        for candidate in candidates:
            if len(self._drawn) >= self._times or candidate >= call:
                break
            if candidate > self._looked and self._is_drawn(candidate):
                self._drawn.append(candidate)
            self._looked = max(self._looked, candidate)
        return sum(drawn < call for drawn in self._drawn)
