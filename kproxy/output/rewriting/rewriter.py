"""Rewriter: decode frames, replace some of their contents, and encode them.

Rewriter withholds credentials, as every output does (kproxy.protocol.secrets); anonymize.py replaces more. A frame keeps
its size, unless compressed records had to be compressed again. A body that cannot be rewritten field by field is replaced by
zeros of the same size, with a note that gives the reason. In SASL tokens, SCRAM (RFC 5802) and PLAIN (RFC 4616) keep their form
and the user's name; other tokens become zeros.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kproxy.errors import DecodeError, EncodeError
from kproxy.output.rewriting.records import Payload, payload_of_value, rewrite_records
from kproxy.protocol import (
    ApiKey,
    Message,
    read_request_header,
    read_response_header,
    request_message,
    response_message,
)
from kproxy.protocol.constants import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_TOPIC_ID_BYTES
from kproxy.protocol.facts import Field
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch
from kproxy.protocol.secrets import Secrecy, is_secret_value, secrecy
from kproxy.protocol.structs import Struct, struct_types
from kproxy.session import Connection, Exchange, Frame, client_software
from kproxy.session.exchanges import Route, read_body, route_of

CORRELATION_ID = 4  # bytes; the only known part of a response whose request was not seen
SNAPSHOT = "FetchSnapshotResponse"


class Unchangeable(Exception):
    """A body cannot be rewritten and has to be blanked; the text says why."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A field that holds text, bytes or structs with such fields."""

    message: str
    field: Field
    secrecy: Secrecy


@dataclass(slots=True)
class Context:
    """What is known while a body is rewritten, besides the body itself."""

    topic_names: Mapping[str, str] = field(default_factory=dict)
    inner: Route | None = None  # of the request inside an Envelope
    topic: str | None = None  # the topic of the current struct
    sensitive: bool = False  # whether the broker marked the current setting as sensitive


@dataclass(slots=True)
class Rewritten:
    """An exchange after rewriting, and notes about its frames for the reader."""

    exchange: Exchange
    request_note: str = ""
    response_note: str = ""


class Rewriter:
    """Replaces credentials: bytes by zeros, strings by the letter x."""

    keeps_size = False  # True: compressed records that change become zeros of the same size

    def exchange(self, exchange: Exchange) -> Rewritten:
        """Return a copy of the exchange with its frames rewritten."""
        done = Rewritten(exchange.copy())
        context = Context(exchange.topic_names)
        if exchange.api_key == ApiKey.ENVELOPE and exchange.request is not None:
            context.inner = _inner_route(exchange.request)
        if exchange.request is not None:
            done.exchange.request, done.request_note = self._frame(exchange.request, exchange.api_key, context)
        if exchange.response is not None:
            done.exchange.response, done.response_note = self._frame(exchange.response, exchange.api_key, context)
        return done

    def _frame(self, frame: Frame, api_key: int | None, context: Context) -> tuple[Frame, str]:
        """Rewrite a frame; return it with a note for the reader, "" if there is nothing to say."""
        header = self.header(frame)
        if frame.message is None or frame.cut:
            if self.keeps_unread(api_key):
                return _with(frame, header, frame.data[len(header) :]), ""
            return _blank(frame, header, "unreadable", keep=_software_size(frame))
        if not self.wants(frame):
            return _with(frame, header, frame.data[len(header) :]), ""
        end = len(frame.data) - frame.trailing
        try:
            body = self.body(frame.message, frame.body_version, frame.data[:end], frame.body_start, context)
            body += self.trailing(frame, frame.data[end:])
        except Unchangeable as error:
            return _blank(frame, header, str(error))
        note = "" if len(header) + len(body) == len(frame.data) else f"{frame.wire_size} bytes before it was rewritten"
        return _with(frame, header, body), note

    def body(self, of: Message, version: int, data: bytes, start: int, context: Context) -> bytes:
        """Rewrite a message. Its size changes only with compressed records. Raises Unchangeable."""
        try:
            struct = of.decode(version, data, start)
            if of.encode(version, struct) != data[start:]:
                raise Unchangeable("its encoding is not Kafka's own")
            self.walk(of.name, struct, context)
            return of.encode(version, struct)
        except (DecodeError, EncodeError) as error:
            raise Unchangeable(str(error)) from error

    def walk(self, of: str, struct: Struct, context: Context) -> None:
        """Replace the values in a struct of message *of*, in place."""
        named = topic_of(struct, context)
        if named is not None:
            context.topic = named
        if "is_sensitive" in struct.by_attribute:
            context.sensitive = bool(getattr(struct, "is_sensitive", False))  # applies to the synonyms inside it, too
        if struct.unknown_tags:
            struct.unknown_tags = tuple((tag, self.tagged(of, data)) for tag, data in struct.unknown_tags)
        for spot in spots(of, type(struct).__name__):
            value = getattr(struct, spot.field.attribute)
            if spot.field.is_struct:
                for inner in (value or ()) if spot.field.is_array else (value,):
                    if inner is not None:
                        self.walk(of, inner, context)
            elif value and value != spot.field.default:
                setattr(struct, spot.field.attribute, self._replaced(spot, struct, value, context))

    def _replaced(self, spot: Spot, struct: Any, value: Any, context: Context) -> Any:
        if isinstance(value, list):
            return [self._replaced(spot, struct, item, context) for item in value]
        if spot.field.type == "records":
            return self.records(spot, value, context)
        if spot.message.startswith("Envelope") and spot.secrecy:
            return self._inner(spot, value, context)
        if spot.field.json_name == "authBytes":
            return blank_token(value, self.user)
        if spot.secrecy is Secrecy.ALWAYS or (spot.secrecy is Secrecy.BY_NAME and _is_secret(spot, struct, context)):
            return blanked(value)
        return self.text(spot, struct, value) if isinstance(value, str) else self.data(spot, value, context)

    def records(self, spot: Spot, value: bytes, context: Context) -> bytes:
        topic = context.topic

        def rewrite(record: Record, batch: RecordBatch) -> None:
            self.record(record, batch, topic)

        return rewrite_records(value, rewrite, unaligned=spot.message == SNAPSHOT, keeps_size=self.keeps_size)

    def payload(self, found: Payload | None, data: bytes) -> bytes | None:
        """Rewrite bytes that hold a message; None if that cannot be done."""
        if found is None:
            return None
        try:
            written = self.body(found.message, found.version, data, found.start, Context())
        except Unchangeable:
            return None
        return data[: found.start] + written if len(written) == len(data) - found.start else None

    def _inner(self, spot: Spot, data: bytes, context: Context) -> bytes:
        """Rewrite the request or response inside an Envelope, in its size; zeros if that cannot be done."""
        route = context.inner
        if route is None or route.api_key == ApiKey.ENVELOPE:
            return bytes(len(data))
        frame = Frame(data, 0, 0)
        is_request = spot.message == "EnvelopeRequest"
        try:
            header = (
                read_request_header(data) if is_request else read_response_header(data, route.response_header_version)
            )
        except DecodeError:
            return bytes(len(data))
        frame.header, frame.body_start = header, header.size
        if is_request:
            read_body(frame, route.request, route.api_version)
        else:
            route.read_response(frame)
        written, _ = self._frame(frame, route.api_key, Context(context.topic_names))
        return written.data if len(written.data) == len(data) else bytes(len(data))

    # What may be replaced beyond credentials

    def connection(self, connection: Connection) -> Connection:
        return connection

    def wants(self, frame: Frame) -> bool:
        """Return whether a readable frame may hold something to be replaced; all other frames keep their bytes."""
        assert frame.message is not None
        name = frame.message.name
        return has_secrets(name) or name == SNAPSHOT or (has_records(name) and _names_metadata(frame.data))

    def keeps_unread(self, api_key: int | None) -> bool:
        """Return whether an unreadable body may stay: not if it could hold credentials."""
        return api_key is not None and not api_has_secrets(api_key)

    def header(self, frame: Frame) -> bytes:
        """Return the bytes of the header, of the same size."""
        return frame.data[: frame.body_start or CORRELATION_ID]

    def text(self, spot: Spot, struct: Struct, value: str) -> str:
        """Return the replacement for a string that is no credential, of as many bytes."""
        return value

    def data(self, spot: Spot, value: bytes, context: Context) -> bytes:
        """Return the replacement for bytes that are no credential, of the same size."""
        return value

    def trailing(self, frame: Frame, data: bytes) -> bytes:
        """Return the replacement for the bytes after a message, of the same size: they could be credentials, too."""
        return bytes(len(data)) if Rewriter.wants(self, frame) else data

    def user(self, name: bytes) -> bytes:
        """Return the replacement for the user's name in a SASL token, of the same size."""
        return name

    def tagged(self, of: str, data: bytes) -> bytes:
        """Return the replacement for an unknown tagged field of message *of*, which could be a credential if others are there."""
        return bytes(len(data)) if has_secrets(of) else data

    def record(self, record: Record, batch: RecordBatch, topic: str | None) -> None:
        """Replace what has to be replaced in a record, in place."""
        if topic == METADATA_TOPIC and not batch.is_control and record.value is not None:
            record.value = self.metadata(record.key, record.value)

    def metadata(self, key: bytes | None, value: bytes) -> bytes:
        """Rewrite the value of a record of __cluster_metadata, in its size; zeros if that cannot be done."""
        rewritten = self.payload(payload_of_value(METADATA_TOPIC, key, value), value)
        return bytes(len(value)) if rewritten is None else rewritten


def _is_secret(spot: Spot, struct: Any, context: Context) -> bool:
    """Return whether the value of a setting is to be withheld."""
    return context.sensitive or is_secret_value(spot.message, str(struct.name).encode("utf-8", "surrogateescape"))


def blanked(value: Any) -> Any:
    """Return as many zero bytes, or letters x, as the value has bytes."""
    return bytes(len(value)) if isinstance(value, bytes) else "x" * len(value.encode("utf-8", "surrogateescape"))


def topic_of(struct: Any, context: Context) -> str | None:
    """Return the name of the topic that a struct is about, looked up by id if necessary; None if it names no topic."""
    for attribute in ("topic", "name"):
        known = struct.by_attribute.get(attribute)
        if known is not None and known.entity == "topicName" and (name := getattr(struct, attribute)):
            return str(name)
    if "topic_id" not in struct.by_attribute:
        return None
    return context.topic_names.get(struct.topic_id, "")


@cache
def spots(of: str, struct: str) -> tuple[Spot, ...]:
    """Return the fields of a struct of message *of* that may have to be replaced."""
    every_field = (Spot(of, f, secrecy(of, (f.json_name,))) for f in struct_types(of)[struct].fields)
    return tuple(s for s in every_field if s.field.is_struct or s.field.type in ("string", "bytes", "records"))


@cache
def has_secrets(name: str) -> bool:
    """Return whether a message has fields for credentials."""
    return any(spot.secrecy for struct in struct_types(name) for spot in spots(name, struct))


@cache
def has_records(name: str) -> bool:
    """Return whether a message carries records."""
    return any(spot.field.type == "records" for struct in struct_types(name) for spot in spots(name, struct))


def api_has_secrets(api_key: int) -> bool:
    """Return whether a request or response of an API may hold credentials, in its fields or its records."""
    both = request_message(api_key), response_message(api_key)
    return any(m is not None and (has_secrets(m.name) or has_records(m.name)) for m in both)


def _names_metadata(data: bytes) -> bool:
    return METADATA_TOPIC_ID_BYTES in data or METADATA_TOPIC.encode() in data


def _with(frame: Frame, header: bytes, body: bytes) -> Frame:
    data = header + body
    return frame if data == frame.data else frame.copy(data=data)


def _blank(frame: Frame, header: bytes, why: str, *, keep: int = 0) -> tuple[Frame, str]:
    """Return the frame with zeros for its body, except for the first *keep* bytes."""
    start = len(header)
    size = len(frame.data) - start - keep
    note = f"body of {size} bytes blanked: {why}"
    blank = frame.copy(data=header + frame.data[start : start + keep] + bytes(size), message=None)
    return blank, note


def _software_size(frame: Frame) -> int:
    """Return the size of the client's software name and version, no secrets, in an ApiVersions request newer than the facts."""
    named = client_software(frame.data, frame.body_start) if frame.unread else None
    return 0 if named is None else sum(1 + len(name) for name in named)


def _inner_route(envelope: Frame) -> Route | None:
    """Return the route of the request inside an Envelope."""
    if envelope.message is None:
        return None
    try:
        request: Any = envelope.decode()
        header = read_request_header(request.request_data)
    except DecodeError:
        return None
    return route_of(header.api_key, header.api_version)


NOTE = "the contents of records are withheld: zeros stand for keys and values, x for names of headers"


class WithoutRecords(Rewriter):
    """Replaces keys, values and headers of records by zeros, and credentials as Rewriter does.

    Records of Kafka's internal topics and control records stay, as they do in the decoded log.

    Args:
        keeps_size: keep the size of frames by writing zeros for compressed records, which then cannot be read as records.
            Without it, they are compressed again, so that a capture made of the frames can be read.
    """

    def __init__(self, *, keeps_size: bool = True) -> None:
        self.keeps_size = keeps_size

    def _frame(self, frame: Frame, api_key: int | None, context: Context) -> tuple[Frame, str]:
        written, note = super()._frame(frame, api_key, context)
        holds_records = frame.message is not None and has_records(frame.message.name)
        return written, note or (NOTE if holds_records and written.data != frame.data else "")

    def wants(self, frame: Frame) -> bool:
        assert frame.message is not None
        return has_records(frame.message.name) or super().wants(frame)

    def record(self, record: Record, batch: RecordBatch, topic: str | None) -> None:
        if batch.is_control:
            return
        if topic in INTERNAL_TOPICS:
            super().record(record, batch, topic)
            return
        record.key = record.key and blanked(record.key)
        record.value = record.value and blanked(record.value)
        record.headers = [(blanked(name), value and blanked(value)) for name, value in record.headers]

    def trailing(self, frame: Frame, data: bytes) -> bytes:
        return bytes(len(data)) if self.wants(frame) else data

    def tagged(self, of: str, data: bytes) -> bytes:
        return bytes(len(data)) if has_records(of) else super().tagged(of, data)


SCRAM = re.compile(rb"(?:[ny],[^,]*,n=|[rcve]=)[!-~]*")  # the beginnings of its four messages, and of an error
SECRET = re.compile(rb"(?<![^,])([rspv])=([^,]*)")  # nonce, salt, proof, signature
BASE64 = re.compile(rb"[^=]")
NAME = re.compile(rb"(?<![^,])([na])=([^,]+)")


def blank_token(token: bytes, user: Callable[[bytes], bytes]) -> bytes:
    """Return a token of the same size without its secrets; *user* returns a replacement of a user name with as many bytes."""
    if SCRAM.fullmatch(token):
        named = NAME.sub(lambda match: match[1] + b"=" + user(match[2]), token)
        return SECRET.sub(lambda match: match[1] + b"=" + BASE64.sub(b"x", match[2]), named)
    parts = token.split(b"\0")
    if len(parts) == 3 and parts[1] and parts[2]:
        authorized, name, password = parts
        return b"\0".join((user(authorized) if authorized else b"", user(name), b"x" * len(password)))
    return bytes(len(token))
