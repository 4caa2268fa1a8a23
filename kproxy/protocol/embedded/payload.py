"""Embedded: one decoded payload of a bytes or records field; the table of the messages that hold payloads, with their decoders.

Callers pass decoded messages, and in a Context what else is known. Messages without payloads are not in the table and cost only
a look-up. Decoders are imported at their first use, as captures have few kinds of payloads, and imports dominate the time for a
small capture.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from kproxy.errors import DecodeError, Malformed
from kproxy.protocol.api_keys import ApiKey
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.protocol.headers import read_request_header

if TYPE_CHECKING:
    from kproxy.protocol.embedded.envelope import Nested
    from kproxy.protocol.embedded.viewers import Viewers
    from kproxy.protocol.found import RecordsField

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
        row: dict[str, Any] = {"path": self.path}
        if self.where is not None:
            row["in"] = self.where
        row["kind"] = self.kind
        if self.error is None:
            row["json"] = self.json
        else:
            row["error"] = self.error
        return to_json(row)

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
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_replaced(name): _replaced(inner) for name, inner in value.items()}
    return [_replaced(inner) for inner in value] if isinstance(value, list) else value


FIXED_IDS = {METADATA_TOPIC_ID: METADATA_TOPIC}  # in no Metadata response
Open: TypeAlias = Callable[[Any, Opening], None]


def holds_payloads(message_name: str) -> bool:
    """Return whether a message ("JoinGroupRequest") has fields with payloads, other than records."""
    return message_name in REQUESTS or message_name in RESPONSES


def open_request(message_name: str, body: Any, context: Context) -> list[Embedded]:
    """Decode the payloads in the bytes and records fields of a request, in the order of the body; never raises.

    Args:
        message_name: Kafka's name ("JoinGroupRequest").
        body: the decoded message.
        context: further knowledge.
    """
    return _open(REQUESTS.get(message_name), body, Opening("request", context))


def open_response(message_name: str, body: Any, context: Context) -> list[Embedded]:
    """As open_request, for a response; ``context.request`` is the decoded request if it was seen."""
    return _open(RESPONSES.get(message_name), body, Opening("response", context))


def _open(open_body: Open | None, body: Any, opening: Opening) -> list[Embedded]:
    if open_body is not None:
        open_body(body, opening)
    return opening.found


# Groups


def _add_metadata(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    from kproxy.protocol.embedded import group  # noqa: PLC0415

    group.add_metadata(opening, path, data, protocol_type, protocol)


def _add_assignment(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    from kproxy.protocol.embedded import group  # noqa: PLC0415

    group.add_assignment(opening, path, data, protocol_type, protocol)


def _protocol_of(body: Any, context: Context) -> tuple[str | None, str | None]:
    """Return protocol type and name of a group, from a message, else its request, else the context."""
    kind = body.protocol_type or getattr(context.request, "protocol_type", None) or context.protocol_type
    name = body.protocol_name or getattr(context.request, "protocol_name", None) or context.protocol_name
    return kind, name


def _join_group_request(body: Any, opening: Opening) -> None:
    for index, protocol in enumerate(body.protocols):
        path = f"protocols[{index}].metadata"
        _add_metadata(opening, path, protocol.metadata, body.protocol_type, protocol.name)


def _join_group_response(body: Any, opening: Opening) -> None:
    """Decode the metadata of all members, which only the leader receives, by the chosen protocol."""
    kind, _ = _protocol_of(body, opening.context)
    for index, member in enumerate(body.members):
        _add_metadata(opening, f"members[{index}].metadata", member.metadata, kind, body.protocol_name)


def _sync_group_request(body: Any, opening: Opening) -> None:
    for index, assigned in enumerate(body.assignments):
        path = f"assignments[{index}].assignment"
        _add_assignment(opening, path, assigned.assignment, *_protocol_of(body, opening.context))


def _sync_group_response(body: Any, opening: Opening) -> None:
    _add_assignment(opening, "assignment", body.assignment, *_protocol_of(body, opening.context))


def _describe_groups_response(body: Any, opening: Opening) -> None:
    for number, described in enumerate(body.groups):
        kind, name = described.protocol_type, described.protocol_data
        for index, member in enumerate(described.members):
            at = f"groups[{number}].members[{index}]"
            _add_metadata(opening, f"{at}.memberMetadata", member.member_metadata, kind, name)
            _add_assignment(opening, f"{at}.memberAssignment", member.member_assignment, kind, name)


# Tokens, metrics, forwarded messages


def _sasl_authenticate(body: Any, opening: Opening) -> None:
    from kproxy.protocol.embedded.sasl import open_token  # noqa: PLC0415

    from_client = opening.where == "request"
    read = partial(open_token, from_client=from_client, failed=not from_client and body.error_code != 0)
    opening.add("authBytes", "sasl-token", read, body.auth_bytes, opening.context.sasl_mechanism)


def _push_telemetry_request(body: Any, opening: Opening) -> None:
    from kproxy.protocol.embedded.telemetry import open_metrics  # noqa: PLC0415

    opening.add("metrics", "telemetry-metrics", open_metrics, body.metrics, body.compression_type)


def _envelope_request(body: Any, opening: Opening) -> None:
    from kproxy.protocol.embedded import envelope  # noqa: PLC0415

    opening.add("requestData", "request", envelope.open_nested_request, body.request_data)
    if body.request_principal is not None:
        opening.add("requestPrincipal", "principal", envelope.open_principal, body.request_principal)
    opening.add("clientHostAddress", "address", envelope.open_address, body.client_host_address)
    nested = envelope.nested_request(body.request_data)
    if nested is not None:
        _open_nested(REQUESTS, nested, "requestData", opening, None)


def _envelope_response(body: Any, opening: Opening) -> None:
    from kproxy.protocol.embedded import envelope  # noqa: PLC0415

    if body.response_data is not None:
        opening.add("responseData", "response", _nested_response, body.response_data, opening.context.request)
        request = envelope.nested_request(getattr(opening.context.request, "request_data", b""))
        nested = None if request is None else envelope.nested_response(body.response_data, request)
        if request is not None and nested is not None:
            _open_nested(RESPONSES, nested, "responseData", opening, request.body)


def _open_nested(table: dict[str, Open], nested: "Nested", path: str, opening: Opening, request: Any) -> None:
    """Decode the payloads of the message inside an Envelope; their paths are appended to the message's.

    An Envelope inside an Envelope is not opened.
    """
    if nested.name in table and not nested.name.startswith("Envelope"):
        inner = Opening(opening.where, replace(opening.context, request=request))
        table[nested.name](nested.body, inner)
        opening.found += [replace(one, path=f"{path}.{one.path}") for one in inner.found]


def _nested_response(data: bytes, request: Any) -> dict[str, Any]:
    from kproxy.protocol.embedded.envelope import open_nested_response  # noqa: PLC0415

    request_data = getattr(request, "request_data", None)
    if request_data is None:
        raise Malformed("its request was not seen, which would tell what it is", message="nested response")
    header = read_request_header(request_data)
    return open_nested_response(data, header.api_key, header.api_version)


# Records


def open_records_fields(fields: Iterable["RecordsField"], where: Where, context: Context) -> list[Embedded]:
    """Decode the records fields of a message, as RecordsField has them; never raises.

    A chunk of a snapshot of the metadata log ("unalignedRecords") may begin and end at any byte.
    """
    return [_open_records_field(field, where, context) for field in fields]


def _open_records_field(field: "RecordsField", where: Where, context: Context) -> Embedded:
    topic, topic_id = field.topic, field.topic_id
    if topic_id is not None:
        topic = context.topic_names.get(topic_id) or FIXED_IDS.get(topic_id)
    unaligned = field.path.endswith(UNALIGNED)
    json = _open_records()(field.data, topic, field.partition, topic_id, unaligned, context.viewers)
    return Embedded(field.path, where, "records", json)


@cache
def _open_records() -> Callable[..., dict[str, Any]]:
    """Import the decoder of records at its first use. Cached, as an import statement takes a microsecond for each field."""
    from kproxy.protocol.embedded.records_field import open_records  # noqa: PLC0415

    return open_records


UNALIGNED = "unalignedRecords"
RECORDS_OF: dict[int, Where] = {  # APIs with records fields, and which of their messages has them
    ApiKey.PRODUCE: "request",
    ApiKey.FETCH: "response",
    ApiKey.FETCH_SNAPSHOT: "response",
    ApiKey.SHARE_FETCH: "response",
}
REQUESTS: dict[str, Open] = {
    "JoinGroupRequest": _join_group_request,
    "SyncGroupRequest": _sync_group_request,
    "SaslAuthenticateRequest": _sasl_authenticate,
    "PushTelemetryRequest": _push_telemetry_request,
    "EnvelopeRequest": _envelope_request,
}
RESPONSES: dict[str, Open] = {
    "JoinGroupResponse": _join_group_response,
    "SyncGroupResponse": _sync_group_response,
    "DescribeGroupsResponse": _describe_groups_response,
    "SaslAuthenticateResponse": _sasl_authenticate,
    "EnvelopeResponse": _envelope_response,
}
