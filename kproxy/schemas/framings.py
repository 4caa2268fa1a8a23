"""Framings: how serializers say which schema a key or value was written with. Found by content; nothing here asks a registry.

    confluent    0x00 and the id, INT32; with Protobuf the message's indexes follow. Since 2025 also 0x01 and a GUID; either may
                 stand in the header __key_schema_id or __value_schema_id in place of the payload (Confluent's wire format)
    apicurio     0x00 and a global id, INT64 (Apicurio's serializers before 3); an INT32 cannot be told from Confluent's,
                 and need not be. Or the headers apicurio.value.globalId, apicurio.value.contentId (INT64). A global id is that of
                 a version of a subject, a content id that of its text, which several may share; Confluent's API has the latter
    glue         0x03, 0x00 or 0x05 (zlib), a UUID (AWS Glue's serializers)
    avro         0xC3 0x01 and the fingerprint, CRC-64-AVRO (Avro's single-object encoding)
    cloudevents  the header ce_dataschema: the URL of the schema in a registry, .../ids/12 (CloudEvents in binary mode). An event
                 in structured mode is JSON: its data_base64 has the payload, and dataschema the URL, or a framing is inside. Data
                 that is JSON needs no schema
    azure        the header content-type: avro/binary+ID (Azure's Event Hubs)

A framing is a guess until its schema is there and the payload can be read by it: four bytes of zero before a number look alike.
"""

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from uuid import UUID

MOST_INFLATED = 16 * 1024 * 1024
MOST_INDEXES = 64
MOST_VARINT = 5  # bytes
CONFLUENT, APICURIO, GLUE = 5, 9, 18  # sizes of their headers
GUID_SIZE = 17
SINGLE_OBJECT = b"\xc3\x01"
ZLIB = 5
OF_EVENT = re.compile(rb"/(?:ids|(globalIds)|contentIds)/(\d{1,18})/?$")  # at the end of a URL
VERSION, DATA = b'"specversion"', b'"data_base64"'  # of an event in structured mode, with data that is not JSON
MARKS = b"\0\3" + SINGLE_OBJECT[:1]  # first bytes of framed data, where no header names the schema

Headers = Sequence[tuple[str, bytes | None]]


class GlobalId(int):
    """An id of Apicurio that is not a content id: equal to another global id of its number, and to nothing else."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalId) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash((GlobalId, int(self)))


class Framing(StrEnum):
    """Who wrote it."""

    CONFLUENT = "confluent"
    APICURIO = "apicurio"
    GLUE = "glue"
    AVRO = "avro"
    AZURE = "azure"
    CLOUDEVENTS = "cloudevents"


@dataclass(frozen=True, slots=True)
class Framed:
    """A key or value that a serializer framed.

    Args:
        framing: whose framing.
        id: of the schema: a number, or a GUID, UUID or fingerprint in hex.
        payload: what the schema describes; Protobuf's message indexes, if there are any, are still in front.
        has_indexes: whether message indexes come before a payload of Protobuf.
        header: the name of the header that names the schema; None: the key or value does.
        in_event: whether it stands in a CloudEvent in structured mode, in base64.
    """

    framing: Framing
    id: int | str
    payload: bytes
    has_indexes: bool = False
    header: str | None = field(default=None, compare=False)
    in_event: bool = False


def find_framing(data: bytes, part: str = "value", headers: Headers = ()) -> Framed | None:
    """Return the framing of a record's key or value; None without one.

    Args:
        data: the key or value.
        part: "key" or "value": headers name it.
        headers: of the record.
    """
    if headers and part in ("key", "value") and (framed := _by_headers(data, part, headers)) is not None:
        return framed
    if not data or data[0] not in MARKS:  # nearly always
        return _in_event(data) if data[:1] == b"{" and VERSION in data and DATA in data else None
    return _by_mark(data)


def is_confluent(data: bytes, framed: Framed | None) -> bool:
    """Return whether a key or value begins with Confluent's framing, and its schema is known by that."""
    is_framing = framed is not None and framed.framing is Framing.CONFLUENT and not framed.in_event
    return is_framing and data[:1] == b"\0" and len(data) >= CONFLUENT


def _by_mark(data: bytes) -> Framed | None:
    if data[:1] == b"\0" and len(data) >= CONFLUENT:
        return _numbered(data)
    if data[:1] == b"\3" and len(data) >= GLUE and data[1] in (0, ZLIB):
        return _glue(data)
    if data[:2] == SINGLE_OBJECT and len(data) >= 10:
        return Framed(Framing.AVRO, data[2:10].hex(), data[10:])
    return None


def _in_event(data: bytes) -> Framed | None:
    try:
        event = json.loads(data)
        inner = b64decode(event["data_base64"], validate=True)
        match = OF_EVENT.search(str(event.get("dataschema")).encode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if inner and inner[0] in MARKS and (framed := _by_mark(inner)) is not None:
        return replace(framed, in_event=True)
    return None if match is None else Framed(Framing.CLOUDEVENTS, _id_of_url(match), inner, in_event=True)


def _id_of_url(match: re.Match[bytes]) -> int:
    return GlobalId(match[2]) if match[1] else int(match[2])


def attributes(event: bytes) -> dict[str, object]:
    """Return what an event in structured mode says besides its data: texts, numbers and booleans."""
    known = json.loads(event).items()
    return {name: value for name, value in known if name != "data_base64" and isinstance(value, str | int)}


def _numbered(data: bytes) -> Framed | None:
    """0x00 and an id: of four bytes, or of eight if the first four are zero."""
    number = int.from_bytes(data[1:CONFLUENT], "big", signed=True)
    if number > 0:
        return Framed(Framing.CONFLUENT, number, data[CONFLUENT:], has_indexes=True)
    if number == 0 and len(data) >= APICURIO and (wide := int.from_bytes(data[1:APICURIO], "big")) > 0:
        return Framed(Framing.APICURIO, GlobalId(wide), data[APICURIO:])
    return None


def _glue(data: bytes) -> Framed | None:
    payload = data[GLUE:]
    if data[1] == ZLIB:
        inflater = zlib.decompressobj()
        try:
            payload = inflater.decompress(payload, MOST_INFLATED)
        except zlib.error:
            return None
        if not inflater.eof:
            return None
    return Framed(Framing.GLUE, str(UUID(bytes=data[2:GLUE])), payload)


def reframed(data: bytes, framed: Framed | None, payload: bytes) -> bytes:
    """Return a key or value with another payload, framed as *data* is."""
    if framed is None:
        return payload
    if framed.in_event:
        event = json.loads(data)
        inner = reframed(b64decode(event["data_base64"]), replace(framed, in_event=False), payload)
        return json.dumps({**event, "data_base64": b64encode(inner).decode()}, ensure_ascii=False).encode()
    if framed.framing is Framing.GLUE and data[1] == ZLIB:
        return data[:GLUE] + zlib.compress(payload)
    head = len(data) - len(framed.payload)  # less than 0: message indexes are in a header
    return data[:head] + payload if head >= 0 else payload[-head:]


@cache
def schema_headers(part: str) -> frozenset[str]:
    """Return the names, in lower case, of the headers in which a schema may be named."""
    own = (f"__{part}_schema_id", f"apicurio.{part}.globalid", f"apicurio.{part}.contentid")
    return frozenset((*own, *(("content-type", "ce_dataschema") if part == "value" else ())))


def _by_headers(data: bytes, part: str, headers: Headers) -> Framed | None:
    names = schema_headers(part)
    for name, value in headers:
        if not value or name.lower() not in names:
            continue
        if name == f"__{part}_schema_id":
            if value[0] == 0 and len(value) >= CONFLUENT:
                number = int.from_bytes(value[1:CONFLUENT], "big")
                return Framed(Framing.CONFLUENT, number, value[CONFLUENT:] + data, len(value) > CONFLUENT, name)
            if value[0] == 1 and len(value) >= GUID_SIZE:
                guid = str(UUID(bytes=value[1:GUID_SIZE]))
                return Framed(Framing.CONFLUENT, guid, value[GUID_SIZE:] + data, len(value) > GUID_SIZE, name)
        if name in (f"apicurio.{part}.globalId", f"apicurio.{part}.contentId") and len(value) == 8:
            number = int.from_bytes(value, "big")
            return Framed(Framing.APICURIO, GlobalId(number) if "global" in name else number, data, header=name)
        if name.lower() == "content-type" and part == "value" and value.startswith(b"avro/binary+"):
            return Framed(Framing.AZURE, value[12:].decode("ascii", "replace"), data, header=name)
        if name == "ce_dataschema" and part == "value" and data[:1] != b"\0" and (match := OF_EVENT.search(value)):
            return Framed(Framing.CLOUDEVENTS, _id_of_url(match), data, header=name)
    return None


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return which message of a .proto file it is, from the outer to the inner one, and where the message begins.

    Zigzag varints: how many, then each; a single 0 stands for the first message. Raises ValueError.
    """
    count, at = _varint(payload, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST_INDEXES:
        raise ValueError(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return tuple(indexes), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(data[at : at + MOST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + shift + 1
    raise ValueError("the message indexes are cut off")
