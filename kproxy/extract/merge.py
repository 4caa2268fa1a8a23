"""Merge the definitions of one message in several releases into as few blocks as possible.

The newest definition describes every version whose bytes it can read, including versions that its release no longer accepts
(4.x keeps the ranges of removed versions). A version with a different layout in an older release becomes a further block, after
the newest.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kproxy.extract.dialect import Field, Message
from kproxy.protocol.versions import Versions

# Structs are compared by their fields; record batches were called bytes before 2.8.
_NAMED_ALIKE = re.compile("[A-Z].*|records")


@dataclass(slots=True)
class Block:
    """A definition and the versions that it describes."""

    message: Message
    versions: Versions = field(default_factory=Versions)

    def speak_for(self, version: int) -> None:
        """Add a version."""
        self.versions = Versions.union([self.versions, Versions(((version, version),))])


def merge(history: Iterable[Message]) -> list[Block]:
    """Return the blocks of one message from its definitions, both newest first; a version may be in several blocks."""
    blocks: list[Block] = []
    for message in history:
        own = Block(message)
        for version in message.versions:
            (_reader(blocks, message, version) or own).speak_for(version)
        if own.versions:
            blocks.append(own)
    return blocks


def _reader(blocks: list[Block], message: Message, version: int) -> Block | None:
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
    return _struct(message.fields, version, version in message.flexible)


def _struct(fields: tuple[Field, ...], version: int, flexible: bool) -> WireStruct:
    plain: list[WireField] = []
    tagged: list[tuple[int, WireField]] = []
    for one in fields:
        if one.tag is not None and version in one.tagged and version in one.versions:
            tagged.append((one.tag, _field(one, version, flexible, one.default)))
        elif version in one.versions:
            plain.append(_field(one, version, flexible, None))
    return WireStruct(tuple(plain), tuple(sorted(tagged, key=lambda pair: pair[0])), flexible)


def _field(one: Field, version: int, flexible: bool, default: str | None) -> WireField:
    return WireField(
        type=_NAMED_ALIKE.sub(lambda match: "bytes" if match[0] == "records" else "struct", one.type),
        nullable=version in one.nullable,
        compact=flexible and not one.never_flexible,
        fields=_struct(one.fields, version, flexible) if one.is_struct else None,
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
