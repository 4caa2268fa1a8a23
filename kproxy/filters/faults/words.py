"""A fault as words of a command line: "api_name=Produce error=INVALID_RECORD times=2", or "leader_moved topic=orders".

A word without "=" is a scenario, or an effect that needs no value (disconnect, black_hole).
"""

import shlex
from typing import Any

from kproxy.errors import UsageError, did_you_mean
from kproxy.filters.faults.options import Fault, FaultsOptions
from kproxy.filters.faults.scenarios import SCENARIOS
from kproxy.filters.options import OptionMistakes, read_options
from kproxy.filters.units import quoted
from kproxy.protocol.vocabulary import OPTION_ALIASES

LISTS = ("api_name", "topic", "group", "client_id", "broker", "call")
NUMBERS = ("call", "skip", "times", "seed", "truncate")
FLAGS = ("disconnect", "black_hole")


def parse_fault(text: str) -> dict[str, Any]:
    """Return the options of the fault, as they stand in YAML. Raises UsageError, one sentence."""
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
    """Return the value as YAML would read it; one that does not fit stays text, and is refused with the type that is expected."""
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
