"""Bytes of messages made by hand, and messages made from a few lines of facts."""

import sys
from collections.abc import Iterator

import pytest

from kproxy.protocol.facts import Facts, Field, Layout, facts
from kproxy.protocol.message import Message

WIDTHS = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}


def uvarint(value: int) -> bytes:
    """Unsigned varint, base 128, least significant group first (KIP-482)."""
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def compact(data: bytes) -> bytes:
    """A compact string or compact bytes."""
    return uvarint(len(data) + 1) + data


def short(text: str) -> bytes:
    """A string of the versions before flexible ones."""
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def made_message(monkeypatch: pytest.MonkeyPatch, text: str) -> Message:
    """The message that *text*, a block in the manner of facts.txt, describes. Its name must not be used twice."""
    own = Facts(text)
    for module in ("kproxy.protocol.message", "kproxy.protocol.structs"):
        monkeypatch.setattr(sys.modules[module], "facts", lambda: own)  # the package has a function named message
    return Message(own.messages()[0])


class Smallest:
    """The shortest bytes of a layout at a version, and those with one array in it grown to a given size."""

    def __init__(self, layout: Layout, version: int, fill: bytes = b"\0") -> None:
        self.layout = layout
        self.version = version
        self.fill = fill

    @property
    def flexible(self) -> bool:
        return self.version in self.layout.flexible

    def _split(self, fields: tuple[Field, ...]) -> tuple[list[Field], list[Field]]:
        present = [f for f in fields if self.version in f.versions]
        return [f for f in present if self.version not in f.tagged], [f for f in present if self.version in f.tagged]

    def count(self, n: int) -> bytes:
        return uvarint(n + 1) if self.flexible else n.to_bytes(4, "big")

    def single(self, field: Field) -> bytes:
        if field.is_struct:
            return self.struct(field.fields)
        if field.type in WIDTHS:
            return self.fill * WIDTHS[field.type]
        compact_size = self.flexible and not field.never_flexible
        return b"\1" if compact_size else bytes(2 if field.type == "string" else 4)

    def value(self, field: Field) -> bytes:
        if field.is_array:
            return self.count(0)
        if field.is_struct and self.version in field.nullable:
            return b"\xff"
        return self.single(field)

    def struct(self, fields: tuple[Field, ...]) -> bytes:
        return b"".join(map(self.value, self._split(fields)[0])) + (b"\0" if self.flexible else b"")

    def grown(self, size: int, fields: tuple[Field, ...] | None = None) -> Iterator[tuple[str, bytes]]:
        """(which array, bytes) for every array at any depth, and for unknown tags, repeated to about *size* bytes."""
        fields = self.layout.fields if fields is None else fields
        plain, tagged = self._split(fields)
        end = b"\0" if self.flexible else b""
        for at, field in enumerate(plain):
            for name, data in self._grown_field(size, field):
                yield name, b"".join(data if i == at else self.value(f) for i, f in enumerate(plain)) + end
        start = b"".join(map(self.value, plain))
        for field in tagged:
            for name, data in self._grown_field(size, field):
                yield name, start + b"\1" + uvarint(field.tag or 0) + uvarint(len(data)) + data
        if self.flexible:
            yield "tags", start + uvarint(size // 2) + b"\x7f\0" * (size // 2)

    def _grown_field(self, size: int, field: Field) -> Iterator[tuple[str, bytes]]:
        if field.is_array:
            element = self.single(field)
            number = max(1, size // len(element))
            yield field.name, self.count(number) + element * number
        if field.is_struct:
            mark = self.count(1) if field.is_array else b"\1" if self.version in field.nullable else b""
            for name, data in self.grown(size, field.fields):
                yield f"{field.name}.{name}", mark + data


def newest_layout(name: str, version: int) -> Layout:
    return next(layout for layout in facts().layouts(name) if version in layout.versions)
