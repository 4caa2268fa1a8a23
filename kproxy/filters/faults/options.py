"""The options of the filter faults: which calls a fault selects, on which it fires, what it does; scenarios; --fault.

Options that a fault sets itself win over those of its scenario. To add a scenario: an entry of SCENARIOS, its name in
Fault.scenario and its line in the docstring of FaultInjection.
"""

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from kproxy.errors import UsageError, did_you_mean
from kproxy.filters.conditions import Condition, ConditionText
from kproxy.options import Count, OptionMistakes, Options, Seconds, quoted, read_options, text
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import facts
from kproxy.protocol.vocabulary import OPTION_ALIASES

OFFSETS = ("OffsetCommit", "OffsetFetch")
GROUP = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat")
TRANSACTION = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")


class Scenario(NamedTuple):
    options: dict[str, Any]  # of Fault
    errors: Mapping[str, str] = MappingProxyType({})  # API -> the error it is answered with; then these are its APIs


SCENARIOS = {
    "leader_moved": Scenario({"times": 1}, dict.fromkeys(("Produce", "Fetch"), "NOT_LEADER_OR_FOLLOWER")),
    "coordinator_moved": Scenario(
        {"times": 1}, dict.fromkeys((*GROUP, *OFFSETS, *TRANSACTION, "TxnOffsetCommit"), "NOT_COORDINATOR")
    ),
    "delayed_end_txn": Scenario({"api_name": "EndTxn", "delay": 5.0}),
    "fenced_producer": Scenario(
        {},
        {
            "Produce": "INVALID_PRODUCER_EPOCH",
            **dict.fromkeys(("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"), "PRODUCER_FENCED"),
        },
    ),
    "slow_broker": Scenario({"delay": 1.0, "when": "after"}),
    "half_open_connection": Scenario({"times": 1, "black_hole": True}),
    "throttled": Scenario({"api_name": ("Produce", "Fetch"), "throttle": 1.0}),
    "authorization_lost": Scenario(
        {},
        {
            **dict.fromkeys(("Produce", "Fetch", "Metadata", "ListOffsets"), "TOPIC_AUTHORIZATION_FAILED"),
            **dict.fromkeys((*GROUP, *OFFSETS), "GROUP_AUTHORIZATION_FAILED"),
            **dict.fromkeys(TRANSACTION, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        },
    ),
}

ENDS = ("error", "disconnect", "black_hole", "truncate")  # a fault has one of them at most
MOST_FAULTS = 1_000

Names = str | tuple[str, ...]
Number = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class Fault(Options, frozen=True):
    """One fault. A request that it selects is a call; if several faults select it, it is a call of the first one that fires."""

    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100)] | None,
        text("Its name in counts; null: made from its other options."),
    ] = None
    scenario: Annotated[
        Literal[
            "leader_moved",
            "coordinator_moved",
            "delayed_end_txn",
            "fenced_producer",
            "slow_broker",
            "half_open_connection",
            "throttled",
            "authorization_lost",
        ]
        | None,
        text("A fault that is ready to use; the other options change it."),
    ] = None
    # which calls it selects
    api_name: Annotated[Names, text("Names of APIs, such as Produce; empty: all.")] = ()
    topic: Annotated[
        Names,
        text("Names of topics, with * and ?; then only these topics fail, where the response has errors of topics."),
    ] = ()
    group: Annotated[Names, text("Names of groups in the request, with * and ?.")] = ()
    client_id: Annotated[Names, text("Client ids, with * and ?.")] = ()
    broker: Annotated[Names, text('Brokers on the other side, "host:port", with * and ?.')] = ()
    where: Annotated[
        ConditionText | None, text("A condition in CEL with the fields that are listed below, except topic.")
    ] = None
    # on which of them it fires
    call: Annotated[Number | tuple[Number, ...], text("Only on these calls; the first is 1.")] = ()
    skip: Annotated[Count, text("Let so many calls through first.")] = 0
    times: Annotated[Number | None, text("Fire so many times, once: 1; null: every time.")] = None
    probability: Annotated[float, Meta(ge=0, le=1), text("Probability that it fires on a call.")] = 1.0
    seed: Annotated[int, text("Of the probability: the same seed, the same calls.")] = 0
    # what it does
    when: Annotated[
        Literal["before", "after"] | None,
        text(
            "before: the broker does not get the request. after: it does, and its response is delayed, changed or lost. "
            "null: before, but after for Fetch and Metadata with an error, for truncate and for throttle."
        ),
    ] = None
    error: Annotated[str | None, text("Answer with this error, such as NOT_LEADER_OR_FOLLOWER.")] = None
    delay: Annotated[Seconds | None, text("Wait before anything else; requests behind it wait as well.")] = None
    throttle: Annotated[
        Seconds | None, text("Say in the response that the client is throttled for so long (throttle_time_ms).")
    ] = None
    disconnect: Annotated[bool, text("Close the connection, both sides.")] = False
    black_hole: Annotated[
        bool,
        text("Drop the request, or the response, and all that follow in its direction; the connection stays open."),
    ] = False
    truncate: Annotated[Count | None, text("Send only so many bytes of the response, then close the connection.")] = (
        None
    )

    def __post_init__(self) -> None:
        """Raise ValueError for what no type expresses."""
        for name in names(self.api_name):
            if name not in _api_names():
                raise ValueError(f"there is no API {quoted(name)}: {did_you_mean(name, _api_names())}")
        if self.error is not None and self.error not in ErrorCode.__members__:
            raise ValueError(
                f"there is no error {quoted(self.error)}: {did_you_mean(self.error, ErrorCode.__members__)}"
            )
        if self.where is not None and Condition(self.where, "where").is_for_each_topic:
            raise ValueError("where: it has no topic: use the option topic, or topics, a list")
        if self.scenario is not None:
            return
        ends = [end for end in ENDS if getattr(self, end) is not None and getattr(self, end) is not False]
        if len(ends) > 1:
            raise ValueError(f"a fault cannot have both {ends[0]} and {ends[1]}")
        if not ends and self.delay is None and self.throttle is None:
            raise ValueError(f"it does nothing: give one of {', '.join((*ENDS, 'delay', 'throttle'))}, or a scenario")


class FaultsOptions(Options, frozen=True):
    """The options of faults."""

    faults: Annotated[tuple[Fault, ...], Meta(max_length=MOST_FAULTS), text("The faults, in order.")] = ()


def names(value: Names) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _api_names() -> dict[str, int]:
    return {api.name: key for key, api in facts().apis.items()}


LISTS = ("api_name", "topic", "group", "client_id", "broker", "call")
NUMBERS = ("call", "skip", "times", "seed", "truncate")
FLAGS = ("disconnect", "black_hole")


def parse_fault(text: str) -> dict[str, Any]:
    """Parse a fault of the command line ("api_name=Produce delay=2s") into options as YAML has them. Raises UsageError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the fault {quoted(text)} has a quote without an end") from error
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            name, value = ("scenario", word) if word in SCENARIOS else (word, "true")
        name = OPTION_ALIASES.get(name, name)
        if name in options:
            raise UsageError(f"the fault {quoted(text)} has {quoted(name)} twice")
        if not equals and name not in ("scenario", *FLAGS):
            raise UsageError(
                f"the fault {quoted(text)}: {quoted(word)} is no scenario and no NAME=VALUE: {did_you_mean(word, SCENARIOS)}"
            )
        options[name] = _value(name, value)
    check_fault(options, text)
    return options


def check_fault(options: dict[str, Any], text: str) -> Fault:
    """Return the fault with these options. Raises UsageError, one sentence that begins with *text*."""
    try:
        return read_options(FaultsOptions, {"faults": [options]}).faults[0]
    except OptionMistakes as error:
        mistakes = ((path.removeprefix("faults[0]").lstrip("."), message) for path, message in error.problems)
        reasons = "; ".join(f"{path}: {message}" if path else message for path, message in mistakes)
        raise UsageError(f"the fault {quoted(text)}: {reasons}") from error


def _value(name: str, value: str) -> Any:
    """Read a value as YAML would.

    What cannot be read so stays text, which is then refused with the expected type.
    """
    parts = [_scalar(name, part) for part in value.split(",")] if name in LISTS else []
    if parts:
        return parts if len(parts) > 1 else parts[0]
    return _scalar(name, value)


def _scalar(name: str, value: str) -> Any:
    try:
        if name in NUMBERS:
            return int(value)
        if name == "probability":
            return float(value)
    except ValueError:
        return value
    if name in FLAGS:
        return {"true": True, "false": False}.get(value, value)
    return value
