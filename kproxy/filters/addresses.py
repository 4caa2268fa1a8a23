"""Addresses of brokers in responses: where they are, by the facts; the head and the tail of a response, which hold them.

An address is a struct with a host (a string whose name ends in "Host") and a port, and with the id of a broker (an int32 of
Kafka's entity type "brokerId") in the same struct or in the one around it. These are no addresses of brokers: ``clientHost`` of
DescribeGroups and similar APIs, which is the group member's own and has no port; the user endpoint of Streams groups (KIP-1071),
where an application serves its own queries (``application.server``), which has no broker id; hosts of ACLs, which are conditions
on clients. Requests carry addresses only between brokers and controllers, and to controllers.

Head and tail are read and written by themselves, so that a response of any size is rewritten in little memory. The head is the
first fields up to the last address, written to any size; the rest of the response follows as it arrives. The tag section is at
the end, and so never part of a head. The tail is the fields from the first address on and the tag section, written to the same
size: the size of a response is in front of it, and already forwarded when its end is read. An unknown tagged field, which clients
skip (KIP-482), fills what is left.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from kproxy.filters.contract import Want
from kproxy.protocol import ApiKey, MessageStruct, Versions, facts
from kproxy.protocol.constants import uvarint
from kproxy.protocol.facts import Field, Layout
from kproxy.protocol.object_codec import decode, encode
from kproxy.protocol.program import Program
from kproxy.protocol.secrets import secrecy
from kproxy.protocol.structs import struct_types


@dataclass(frozen=True, slots=True)
class AddressField:
    """A struct of a response with the host and port of a broker, and the path to it."""

    path: tuple[Field, ...]  # from the message to the struct; empty: the message itself
    node_id: str  # attribute of the struct, or of the one around it where names_listeners
    host: str  # attributes of the struct
    port: str
    has_error_code: bool  # the struct can have an error in place of an address
    names_listeners: bool  # every listener of the node by its name, not the one of the connection (DescribeQuorum)
    versions: Versions


@functools.cache
def address_fields(api_key: int) -> tuple[AddressField, ...]:
    """Return the address fields of an API's response at all its versions; none for an API that is not in the facts."""
    api = facts().apis.get(api_key)
    if api is None or not facts().mentions(f"{api.name}Response", "Host string "):
        return ()
    layouts = facts().layouts(f"{api.name}Response")
    fields = [place for layout in layouts for place in _find(layout.fields, (), (), layout.versions)]
    return tuple(dict.fromkeys(fields))


@functools.cache
def responses_with_addresses() -> dict[tuple[int, int], Want]:
    """Return (api_key, api_version) -> which part of a response has to be held for its addresses.

    HEAD if other fields follow the addresses, TAIL if the addresses come last in a response that is large or frequent, else
    HOLD.
    """
    wants = {}
    for api_key in facts().apis:
        for version in sorted({version for place in address_fields(api_key) for version in place.versions}):
            if head_end(api_key, version) is not None:
                wants[api_key, version] = Want.HEAD
            else:
                wants[api_key, version] = Want.TAIL if _is_tail(api_key, version) else Want.HOLD
    return wants


def head_end(api_key: int, api_version: int) -> str | None:
    """Return the top-level untagged field (Kafka's JSON name) that follows the last address.

    The fields before it are the head of the response. None: no field follows, or the addresses are in the tag section.
    """
    fields = untagged(layout_of(api_key, api_version), api_version)
    leading = [at for at, field in enumerate(fields) if _leads(api_key, field)]
    return fields[leading[-1] + 1].json_name if leading and leading[-1] + 1 < len(fields) else None


def tail_start(api_key: int, api_version: int) -> str | None:
    """Return the top-level untagged field (Kafka's JSON name) where the addresses begin; None: in the tag section.

    Only for responses for which ``ends_with_addresses`` is true: behind it are only fields with addresses and the tag
    section.
    """
    layout = layout_of(api_key, api_version)
    return next((field.json_name for field in untagged(layout, api_version) if _leads(api_key, field)), None)


def ends_with_addresses(api_key: int, api_version: int) -> bool:
    """Return whether the tail of a response can be rewritten to the same size.

    That is so if its addresses are in its last field or in the tag section, and if it has a tag section, which can be filled.
    """
    layout = layout_of(api_key, api_version)
    *before, _ = untagged(layout, api_version)
    if any(not place.path and api_version in place.versions for place in address_fields(api_key)):
        return False  # FindCoordinator up to version 3: its only address is the message's own
    return api_version in layout.flexible and not any(_leads(api_key, field) for field in before)


def layout_of(api_key: int, api_version: int) -> Layout:
    """Return the newest layout of a response at a version."""
    layouts = facts().layouts(f"{facts().apis[api_key].name}Response")
    return next(layout for layout in layouts if api_version in layout.versions)


def untagged(layout: Layout, api_version: int) -> list[Field]:
    """Return the top-level fields that come before the tag section."""
    return [field for field in layout.fields if api_version in field.versions and api_version not in field.tagged]


def _find(
    fields: tuple[Field, ...], around: tuple[Field, ...], path: tuple[Field, ...], versions: Versions
) -> Iterator[AddressField]:
    here = _place(fields, around, path, versions)
    if here is not None:
        yield here
    for field in fields:
        if field.is_struct:
            yield from _find(field.fields, fields, (*path, field), versions.intersect(field.versions))


def _place(
    fields: tuple[Field, ...], around: tuple[Field, ...], path: tuple[Field, ...], versions: Versions
) -> AddressField | None:
    host = next((field for field in fields if field.type == "string" and field.name.endswith("Host")), None)
    port = next((field for field in fields if "int" in field.type and field.name.endswith("Port")), None)
    node_id, outer = _broker_id(fields), _broker_id(around)
    if host is None or port is None or (node_id or outer) is None:
        return None
    return AddressField(
        path=path,
        node_id=(node_id or outer).attribute,  # type: ignore[union-attr]
        host=host.attribute,
        port=port.attribute,
        has_error_code=any(field.name == "ErrorCode" for field in fields),
        names_listeners=node_id is None,
        versions=versions.intersect(host.versions),
    )


def _broker_id(fields: tuple[Field, ...]) -> Field | None:
    ids = (field for field in fields if field.entity == "brokerId" and not field.is_array)
    return next(ids, None)


def _is_tail(api_key: int, version: int) -> bool:
    """Return whether a response that carries records has addresses in its last field or its tag section.

    The response of an API whose requests carry records counts too. ShareAcknowledge carries none, but is sent as often as
    ShareFetch and has its form (KIP-932).
    """
    name = facts().apis[api_key].name
    layouts = [*facts().layouts(f"{name}Response"), *facts().layouts(f"{name}Request")]
    if api_key != ApiKey.SHARE_ACKNOWLEDGE and not any(_has_records(layout.fields) for layout in layouts):
        return False
    return ends_with_addresses(api_key, version)


def _has_records(fields: tuple[Field, ...]) -> bool:
    return any(field.type == "records" or _has_records(field.fields) for field in fields)


def _leads(api_key: int, field: Field) -> bool:
    return any(place.path[:1] == (field,) for place in address_fields(api_key))


NO_TAGS = b"\0"


def read_head(api_key: int, api_version: int, head: bytes) -> MessageStruct:
    """Decode the first fields of a response, up to where ``head_end`` says. Raises DecodeError."""
    program, end = _head_program(api_key, api_version)
    return decode(program, head + end)


def write_head(api_key: int, api_version: int, message: MessageStruct) -> bytes:
    """Encode the first fields of *message*. Raises EncodeError."""
    program, end = _head_program(api_key, api_version)
    data = encode(program, message)
    return data[: len(data) - len(end)]


@functools.cache
def _head_program(api_key: int, api_version: int) -> tuple[Program, bytes]:
    """Return the program for the fields of the head, and the bytes it expects behind them: an empty tag section, if any."""
    layout, last = layout_of(api_key, api_version), head_end(api_key, api_version)
    fields = untagged(layout, api_version)
    kept = fields[: [field.json_name for field in fields].index(last or "")]
    program = Program(replace(layout, fields=tuple(kept)), api_version, struct_types(layout.name), secrecy)
    return program, NO_TAGS if api_version in layout.flexible else b""


EMPTY_ARRAY = b"\1"  # compact: N + 1
PAD_TAGS = range(127, 63, -1), range(16_383, 16_319, -1)  # that take one byte and two; Kafka counts its tags from 0


def read_tail(api_key: int, api_version: int, tail: bytes) -> MessageStruct:
    """Decode the last fields of a response, from where ``tail_start`` says. Raises DecodeError."""
    return decode(_tail_program(api_key, api_version), tail)


def write_tail(api_key: int, api_version: int, message: MessageStruct, size: int) -> bytes | None:
    """Encode *message* into exactly *size* bytes; None if it does not fit, or the rest cannot be filled. Raises EncodeError."""
    program = _tail_program(api_key, api_version)
    data = encode(program, message)
    if len(data) == size:
        return data
    if len(data) + 1 == size:
        return _stretched(data)
    given = message.unknown_tags
    for pad in _pads(size - len(data), {tag for tag, _ in given}):
        message.unknown_tags = (*given, pad)
        padded = encode(program, message)
        if len(padded) == size:
            return padded
    return None


def withheld_tail(api_key: int, api_version: int, size: int) -> bytes:
    """Return *size* bytes without content: no elements, and one unknown tagged field full of zeros."""
    before = EMPTY_ARRAY if tail_start(api_key, api_version) and size else b""
    return before + _blank_tags(size - len(before))


@functools.cache
def _tail_program(api_key: int, api_version: int) -> Program:
    layout = layout_of(api_key, api_version)
    first, before = tail_start(api_key, api_version), untagged(layout, api_version)
    names = [field.json_name for field in before]
    passed = before[: names.index(first) if first else len(before)]
    kept = tuple(field for field in layout.fields if field not in passed)
    return Program(replace(layout, fields=kept), api_version, struct_types(layout.name), secrecy)


def _blank_tags(size: int) -> bytes:
    if size < 3:
        return (b"", NO_TAGS, _stretched(NO_TAGS))[size]
    ((tag, data), *_) = _pads(size - 1, set())
    return b"".join((b"\1", uvarint(tag), uvarint(len(data)), data))


def _pads(size: int, taken: set[int]) -> list[tuple[int, bytes]]:
    """Yield tagged fields, of tags not *taken*, that have *size* bytes with tag and size; at least one from 2 bytes on."""
    free = (next((tag for tag in tags if tag not in taken), None) for tags in PAD_TAGS)
    ways = ((tag, size - len(uvarint(tag)) - width, width) for tag in free if tag is not None for width in range(1, 6))
    return [(tag, bytes(room)) for tag, room, width in ways if room >= 0 and len(uvarint(room)) == width]


def _stretched(data: bytes) -> bytes:
    """Make the first unsigned varint one byte longer: Kafka's ByteUtils reads up to five bytes, also leading zeros."""
    last = next(at for at, byte in enumerate(data) if byte < 0x80)
    return data[:last] + bytes([data[last] | 0x80, 0]) + data[last + 1 :]
