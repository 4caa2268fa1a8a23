"""Two exchanges compared, field by field, in Kafka's JSON."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kproxy.page.store import Store

MOST = 5_000  # differences
SIDES = ("requestHeader", "request", "responseHeader", "response")
FIELDS = (
    "client",
    "broker",
    "clientId",
    "apiName",
    "apiVersion",
    "requestSize",
    "responseSize",
    "unanswered",
    "undecoded",
    "bodies",
)
EXPECTED = {"correlationId"}  # fields whose difference is no news


class _Absent:
    """Stands for a field that one of the two exchanges lacks."""


ABSENT = _Absent()


def compare(store: Store, a: int, b: int) -> dict[str, Any] | None:
    """Return the answer of /page/api/compare; None if one of the exchanges is not here."""
    first, second = store.item(a), store.item(b)
    if first is None or second is None:
        return None
    one, other = (msgspec.json.decode(item.line) if item.line else {} for item in (first, second))
    differences = [
        {"side": "exchange", "path": name, "a": one.get(name), "b": other.get(name)}
        for name in FIELDS
        if one.get(name) != other.get(name)
    ]
    for side in SIDES:
        for path, left, right in _differences("", one.get(side), other.get(side)):
            if path not in EXPECTED:
                differences.append({"side": side, "path": path, "a": _shown(left), "b": _shown(right)})
            if len(differences) >= MOST:
                return {"differences": differences, "more": True}
    return {"differences": differences, "more": False}


def _differences(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in [*a, *(name for name in b if name not in a)]:
            yield from _differences(f"{path}.{name}" if path else name, a.get(name, ABSENT), b.get(name, ABSENT))
    elif isinstance(a, list) and isinstance(b, list):
        for at in range(max(len(a), len(b))):
            left, right = (one[at] if at < len(one) else ABSENT for one in (a, b))
            yield from _differences(f"{path}[{at}]", left, right)
    elif a != b or type(a) is not type(b):
        yield path, a, b


def _shown(value: Any) -> Any:
    """Return a value as the page shows it; None if it is absent."""
    if value is ABSENT:
        return None
    if isinstance(value, dict | list):
        text = msgspec.json.encode(value).decode()
        return text if len(text) <= 200 else f"{text[:200]}…"
    return value
