"""The configuration as it may be shown: without what is, or may be, a secret.

Withheld are passwords in URLs, headers of traces, options of filters whose names sound like a secret, and all options of
filters that are not kproxy's own: what theirs mean is not known. Names of files stay, also of files that hold keys.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kproxy.config.structs import Config
from kproxy.filters.options import SOUNDS_SECRET, WITHHELD, without_user_info


def redacted(config: Config, own_filters: Mapping[str, object]) -> dict[str, Any]:
    """Return the configuration as plain values without secrets. *own_filters*: the names of kproxy's own filters."""
    shown: dict[str, Any] = _without_passwords(msgspec.to_builtins(config))
    for cluster in shown["clusters"]:
        for use in cluster["filters"]:
            is_own = use["use"] in own_filters
            use["with"] = {
                name: _without_secrets(name, value) if is_own else WITHHELD for name, value in use["with"].items()
            }
    if shown.get("traces") is not None:
        shown["traces"] = _without_secrets("", shown["traces"])
    return shown


def _without_passwords(value: Any) -> Any:
    match value:
        case str():
            return without_user_info(value)
        case list():
            return [_without_passwords(one) for one in value]
        case dict():
            return {name: _without_passwords(one) for name, one in value.items()}
    return value


def _without_secrets(name: str, value: Any) -> Any:
    if SOUNDS_SECRET.search(name) is not None and value is not None:
        return WITHHELD
    match value:
        case list():
            return [_without_secrets("", one) for one in value]
        case dict():
            return {inner: _without_secrets(inner, one) for inner, one in value.items()}
    return value
