"""Embedded is one decoded payload of a bytes or records field; Context is the knowledge needed to decode it."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from kproxy.errors import DecodeError

if TYPE_CHECKING:
    from kproxy.protocol.embedded.viewers import Viewers

Where: TypeAlias = Literal["request", "response"]

# C1 controls, line separators, bidirectional formatting: escaped in the codec's JSON and in that of to_json here.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_encode = msgspec.json.Encoder().encode


class Embedded(Struct):
    """One decoded payload.

    ``json`` consists of JSON types; parts rendered by the codec are msgspec.Raw. ``to_json`` returns the text.
    """

    path: str  # "protocols[0].metadata", as in Kafka's JSON of the message
    where: Where | None  # None inside a record
    kind: str
    json: Any = None
    error: str | None = None  # why it could not be decoded; json is then null

    def to_json(self) -> bytes:
        """Return ``{"path", "in", "kind", "json"}``, or ``"error"`` in place of ``"json"``; UTF-8."""
        row: dict[str, Any] = {"path": self.path, "in": self.where, "kind": self.kind}
        if self.where is None:
            del row["in"]
        rest: dict[str, Any] = {"json": self.json} if self.error is None else {"error": self.error}
        return to_json(row | rest)

    def value(self) -> Any:
        """Return ``json`` as plain Python values."""
        return msgspec.json.decode(to_json(self.json))


class Context(Struct):
    """Knowledge about a message that is not in its bytes; every field is optional."""

    topic_names: Mapping[str, str] = field(default_factory=dict)  # topic id -> name
    protocol_type: str | None = None  # the group's: "consumer", "connect"
    protocol_name: str | None = None  # the assignor or Connect protocol that the group chose
    sasl_mechanism: str | None = None
    request: Any = None  # a response's decoded request
    viewers: "Viewers | None" = None  # decode the records of ordinary topics with these, too


class Opening:
    """Collects the payloads of one message; an unreadable one is reported with its error."""

    def __init__(self, where: Where | None, context: Context) -> None:
        self.where = where
        self.context = context
        self.found: list[Embedded] = []

    def add(self, path: str, kind: str, read: Callable[..., Any], *args: Any) -> Any:
        """Decode one payload with ``read(*args)``; return its JSON, or None after a DecodeError."""
        try:
            json = read(*args)
        except DecodeError as error:
            self.found.append(Embedded(path, self.where, kind, error=str(error)))
            return None
        self.found.append(Embedded(path, self.where, kind, json))
        return json


def to_json(value: Any) -> bytes:
    """Return the JSON text (UTF-8) of a decoded payload, safe for a terminal."""
    try:
        text: bytes = _encode(value)
    except UnicodeEncodeError:
        text = _encode(_replaced(value))
    if text.isascii():
        return text.replace(b"\x7f", b"\\u007f")
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text.decode()).encode()


def _replaced(value: Any) -> Any:
    """Return *value* with U+FFFD for lone surrogates (bytes that are not UTF-8), as in the codec's JSON."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_replaced(name): _replaced(inner) for name, inner in value.items()}
    return [_replaced(inner) for inner in value] if isinstance(value, list) else value
