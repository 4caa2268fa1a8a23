"""What a person did to a stopped message, as a rule of the filter faults, to be kept in the configuration.

An error, a dropped message and a closed connection are faults; so is a response in which only throttleTimeMs was changed. Other
edited fields cannot be kept, as no filter of kproxy writes fields by a rule. A rule has the condition of the breakpoint. A
condition about the response itself cannot be kept, as a fault is decided when the request comes.
"""

import json
import math

from kproxy.filters.breakpoints.decision import Action
from kproxy.filters.breakpoints.editing import changed_paths
from kproxy.filters.conditions import Condition
from kproxy.filters.faults.options import FaultsOptions
from kproxy.options import OptionMistakes, read_options
from kproxy.protocol import Message
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts

THROTTLE = "throttleTimeMs"
NO_RULE = (
    "there is no rule that changes fields: an error, a dropped message, a closed connection and throttleTimeMs of a response can "
    "be kept, as faults"
)


class NoRule(ValueError):
    """Why something cannot be kept, as one sentence."""


def kept_rule(
    condition: str,
    direction: str,
    message: Message,
    version: int,
    action: Action,
    *,
    error: int = 0,
    before: bytes = b"",
    after: bytes = b"",
) -> str:
    """Return the filter in YAML. Raises NoRule.

    Args:
        condition, direction: those of the breakpoint.
        message, version: the message that was stopped.
        action: what was done with it.
        error: for action "error", its code.
        before, after: for action "replace", the body.
    """
    effect = _effect(direction, message, version, action, error, before, after)
    assert message.api_key is not None
    rule: dict[str, object] = {"api_name": facts().apis[message.api_key].name, "where": _where(condition), **effect}
    if direction == "response" and "throttle" not in effect:
        rule["when"] = "after"
    try:
        read_options(FaultsOptions, {"faults": [rule]})
    except OptionMistakes as mistake:
        raise NoRule(f"it cannot be kept as a fault: {mistake.problems[0][1]}") from mistake
    lines = [f"{name}: {_scalar(value)}" for name, value in rule.items()]
    return "filters:\n- use: faults\n  with:\n    faults:\n    - " + "\n      ".join(lines) + "\n"


def _effect(
    direction: str, message: Message, version: int, action: Action, error: int, before: bytes, after: bytes
) -> dict[str, object]:
    match action:
        case "error":
            return {"error": error_name(error)}
        case "drop":
            return {"black_hole": True}
        case "close":
            return {"disconnect": True}
        case "replace" if direction == "response" and changed_paths(message, version, before, after) == [THROTTLE]:
            seconds = getattr(message.decode(version, after), "throttle_time_ms", 0) / 1_000
            if seconds > 0:
                return {"throttle": seconds}
    raise NoRule(NO_RULE)


def _where(condition: str) -> str:
    try:
        is_for_each_topic = Condition(condition, "condition").is_for_each_topic
    except ValueError:
        raise NoRule("a fault is decided when the request comes: its condition cannot ask about the response") from None
    if is_for_each_topic:
        raise NoRule("the condition of a fault has no topic: use topics, a list")
    return condition


def _scalar(value: object) -> str:
    """Return a value as YAML. JSON is YAML, and its quoted texts stay texts."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return json.dumps(value)
