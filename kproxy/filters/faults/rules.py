"""Rule: a fault that is ready to decide: its selection, its schedule and its effects, made from the options and a scenario."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from kproxy.filters.conditions import Condition, Subject
from kproxy.filters.contract import Request, Runtime, SharedCount
from kproxy.filters.faults.errors import ALWAYS_IN_PLACE
from kproxy.filters.faults.options import Fault, names
from kproxy.filters.faults.scenarios import SCENARIOS
from kproxy.filters.faults.schedule import Schedule
from kproxy.filters.faults.topics import TopicNames, topic_arrays, topics_of
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

    def selects(self, request: Request, topic_names: TopicNames, asked: Iterable[tuple[str, str]]) -> bool:
        """Return whether a request is a call of this fault. *asked*: its topics, with those of its fetch session."""
        if self._client_ids and not _matches(request.client_id or "", self._client_ids):
            return False
        if self._brokers and not _matches(request.connection.broker, self._brokers):
            return False
        if self.topics and not any(topic_names.matches(self.topics, *topic) for topic in asked):
            return False
        if not self._groups and self._where is None:
            return True
        subject = Subject(request, topic_names.names)
        if self._groups and not _names_one_of(subject, self._groups):
            return False
        return self._where is None or self._where.holds(subject, unclear=False)

    def fires(self) -> bool:
        """Count a call; return whether the fault fires on it."""
        return self._schedule.fires(self._calls.add())

    def count_fired(self) -> None:
        """Count that it was applied."""
        self._fired.add()


def rules(faults: Iterable[Fault]) -> list[Rule]:
    """Return the rules of faults, each with its own name."""
    made: list[Rule] = []
    taken: set[str] = set()
    for fault in faults:
        combined, errors = _with_scenario(fault)
        name = _unused(fault.name or describe(fault), taken)
        taken.add(name)
        made.append(Rule(combined, errors, name))
    return made


def describe(fault: Fault) -> str:
    """Return a fault in the words of `kproxy run --fault`, as its name."""
    given = msgspec.to_builtins(fault)
    defaults = {field.name: field.default for field in msgspec.structs.fields(Fault)}
    words = [f"{key}={_word(value)}" for key, value in given.items() if value not in ([], (), defaults[key])]
    return " ".join(words)[:LONGEST_NAME]


def asks_for_topics(request: Request) -> bool:
    """Return whether a Metadata request asks for topics, so that its response has a place for an error."""
    topics: Any = getattr(request.message, "topics", None)
    return topics is None or bool(topics) or request.api_version == 0


def topics_asked(request: Request) -> list[tuple[str, str]]:
    """Return name and id of each topic in a request; "" for the one it lacks."""
    return list(topics_of(request.message, topic_arrays(request.api_key, request.api_version)))


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


def _matches(value: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _names_one_of(subject: Subject, groups: Iterable[str]) -> bool:
    """Return whether a request names a group that matches; False if it names more than conditions look at."""
    try:
        return any(_matches(group, groups) for group in subject["groups"])
    except ValueError:
        return False


def _api_keys() -> dict[str, int]:
    return {api.name: key for key, api in facts().apis.items()}
