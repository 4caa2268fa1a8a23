"""Read Kafka's message definitions, and merge those of one message in several releases into as few blocks as possible.

The definitions are in a dialect of JSON: ``//`` and ``/* */`` comments; numbers and booleans as strings, some in hexadecimal; the
string "null" for a null default, while JSON's null means "no default"; tagged fields without ``versions``; ``validVersions``
"none" without any fields; text behind the definition (2.8's DescribeProducersRequest); structs defined in "commonStructs" or by
an earlier field. Source: MessageSpec, FieldSpec, StructRegistry of Kafka's message generator.

The newest definition of a message describes every version whose bytes it can read, including versions that its release no longer
accepts (4.x keeps the ranges of removed versions). A version with a different layout in an older release becomes a further block,
after the newest.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kproxy.protocol.versions import Versions

# Strings are matched first, so that slashes in them do not begin a comment.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_INTEGERS = ("int8", "int16", "int32", "int64", "uint16", "uint32")

Definition = dict[str, Any]  # a JSON object


@dataclass(frozen=True, slots=True)
class Field:
    """One field, at all versions of its message."""

    name: str
    type: str  # Kafka's word: int32, []int32, TopicData, []TopicData
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None  # as in facts.txt; None for the type's natural default (0, false, "", empty)
    ignorable: bool
    never_flexible: bool
    is_key: bool
    entity: str | None
    fields: tuple["Field", ...]

    @property
    def is_struct(self) -> bool:
        """Whether it, or each of its elements, is a struct."""
        return self.type.removeprefix("[]")[0].isupper()


@dataclass(frozen=True, slots=True)
class Message:
    """The definition of one message in one release."""

    name: str
    type: str  # request, response, header, data, metadata, coordinator-key, coordinator-value
    number: int | None  # api key of a request or response, else type number of a record
    module: str
    release: str
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    latest_unstable: bool
    fields: tuple[Field, ...]

    @property
    def is_api(self) -> bool:
        """Whether it is a request or a response."""
        return self.type in {"request", "response"}


def parse_message(text: str, *, module: str, release: str) -> Message:
    """Read one definition. Raises ValueError for anything else, KeyError for a missing key."""
    definition = parse_json(text)
    structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    return Message(
        name=definition["name"],
        type=definition["type"],
        number=definition.get("apiKey"),
        module=module,
        release=release,
        versions=Versions.parse(definition["validVersions"]),
        flexible=Versions.parse(definition.get("flexibleVersions", "none")),
        listeners=tuple(definition.get("listeners", ())),
        latest_unstable=bool(definition.get("latestVersionUnstable", False)),
        fields=tuple(_field(field, structs) for field in definition.get("fields", ())),
    )


def parse_json(text: str) -> Definition:
    """Parse JSON with comments; text behind the first value is ignored."""
    plain = _COMMENT.sub(lambda match: match[1] or " ", text).lstrip()
    value, _ = json.JSONDecoder().raw_decode(plain)
    if not isinstance(value, dict):
        raise ValueError(f"a definition must be a JSON object, not {plain[:20]!r}")
    return value


def _field(field: Definition, structs: dict[str, list[Definition]]) -> Field:
    tagged = Versions.parse(field.get("taggedVersions", "none"))
    return Field(
        name=field["name"],
        type=field["type"],
        versions=Versions.parse(field["versions"]) if "versions" in field else tagged,
        nullable=Versions.parse(field.get("nullableVersions", "none")),
        tag=int(field["tag"]) if "tag" in field else None,
        tagged=tagged,
        default=_default(field.get("default"), field["type"]),
        ignorable=_is_true(field.get("ignorable")),
        never_flexible=field.get("flexibleVersions") == "none",
        is_key=_is_true(field.get("mapKey")),
        entity=field.get("entityType"),
        fields=_children(field, structs),
    )


def _children(field: Definition, structs: dict[str, list[Definition]]) -> tuple[Field, ...]:
    kind = field["type"].removeprefix("[]")
    if not kind[0].isupper():
        return ()
    if "fields" in field:
        structs[kind] = field["fields"]
    return tuple(_field(child, structs) for child in structs[kind])


def _default(value: object, kind: str) -> str | None:
    """Return the text of a default that differs from the type's natural one (0, false, "", empty); else None."""
    if value is None:
        return None
    if value == "null":
        return "null"
    if kind in _INTEGERS:
        number = int(value, 0) if isinstance(value, str) else int(str(value))
        return str(number) if number else None
    if kind == "float64":
        return repr(float(str(value))) if float(str(value)) else None
    if kind == "bool":
        return "true" if _is_true(value) else None
    if kind == "string":
        return json.dumps(value) if value else None
    raise ValueError(f"a default of {value!r} for {kind} is not something that Kafka's generator accepts")


def _is_true(value: object) -> bool:
    return value is True or value == "true"


# Structs are compared by their fields; record batches were called bytes before 2.8.
_NAMED_ALIKE = re.compile("[A-Z].*|records")


@dataclass(slots=True)
class Block:
    """A definition and the versions that it describes."""

    message: Message
    versions: Versions = field(default_factory=Versions)


def merge(history: Iterable[Message]) -> list[Block]:
    """Return the blocks of one message from its definitions, both newest first; a version may be in several blocks."""
    blocks: list[Block] = []
    for message in history:
        own = Block(message)
        for version in message.versions:
            block = _block_that_reads(blocks, message, version) or own
            block.versions = Versions.union([block.versions, Versions(((version, version),))])
        if own.versions:
            blocks.append(own)
    return blocks


def _block_that_reads(blocks: list[Block], message: Message, version: int) -> Block | None:
    """Return the newest block that can read the bytes of *message* at *version*.

    On the wire, a tag that a later release defined does no harm, as both sides agree on a version. In stored records, the writer
    may have kept an unknown tag with that number, so their tags must be the same.
    """
    written = wire_layout(message, version)
    stored = not message.is_api
    for block in blocks:
        reader = wire_layout(block.message, version)
        if can_read(reader, written) and (not stored or can_read(written, reader)):
            return block
    return None


@dataclass(frozen=True, slots=True)
class WireField:
    """The properties of a field that decide its bytes at one version; names do not."""

    type: str  # "struct" or "[]struct" if it has fields
    nullable: bool
    compact: bool
    fields: "WireStruct | None"
    default: str | None = None  # tagged fields: the value if it is absent


@dataclass(frozen=True, slots=True)
class WireStruct:
    """The fields of a struct at one version: in order, and by tag."""

    plain: tuple[WireField, ...]
    tagged: tuple[tuple[int, WireField], ...]  # ascending by tag
    flexible: bool


def wire_layout(message: Message, version: int) -> WireStruct:
    """Return the layout of *message* in bytes at *version*."""
    return _wire_struct(message.fields, version, version in message.flexible)


def _wire_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> WireStruct:
    plain: list[WireField] = []
    tagged: list[tuple[int, WireField]] = []
    for one in fields:
        if one.tag is not None and version in one.tagged and version in one.versions:
            tagged.append((one.tag, _wire_field(one, version, flexible, one.default)))
        elif version in one.versions:
            plain.append(_wire_field(one, version, flexible, None))
    return WireStruct(tuple(plain), tuple(sorted(tagged, key=lambda pair: pair[0])), flexible)


def _wire_field(one: Field, version: int, flexible: bool, default: str | None) -> WireField:
    return WireField(
        type=_NAMED_ALIKE.sub(lambda match: "bytes" if match[0] == "records" else "struct", one.type),
        nullable=version in one.nullable,
        compact=flexible and not one.never_flexible,
        fields=_wire_struct(one.fields, version, flexible) if one.is_struct else None,
        default=default,
    )


def can_read(reader: WireStruct | None, written: WireStruct | None) -> bool:
    """Return whether *reader* reads bytes of *written* correctly: it may have more tags; nothing else may differ."""
    if reader is None or written is None:
        return reader is written
    if reader.flexible != written.flexible or len(reader.plain) != len(written.plain):
        return False
    known = dict(reader.tagged)
    if any(tag not in known or not _same(known[tag], field) for tag, field in written.tagged):
        return False
    return all(map(_same, reader.plain, written.plain))


def _same(reader: WireField, written: WireField) -> bool:
    return (
        (reader.type, reader.nullable, reader.compact, reader.default)
        == (written.type, written.nullable, written.compact, written.default)
    ) and can_read(reader.fields, written.fields)
