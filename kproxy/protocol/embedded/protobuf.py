"""Decode Protocol Buffers' wire format to JSON-like values, by a table of field numbers.

The protobuf and opentelemetry-proto packages could do this, but they are 3 MB and a native library for one payload, and raise
arbitrary exceptions on hostile bytes. Supported are varint, fixed32, fixed64 and length-delimited fields, packed and unpacked;
unknown fields and groups are skipped (protobuf.dev, "Encoding").

A default value is left out, as in Java's TextFormat and getAllFields, except in fields with explicit presence: members of a
oneof and optional fields.
"""

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from kproxy.errors import DecodeError, Malformed, Truncated

VARINT, FIXED64, SIZED, GROUP, GROUP_END, FIXED32 = range(6)
MOST_PARTS = 200_000  # values of one message with all its submessages, as 2 bytes can become an object
MOST_DEPTH = 32  # nested messages; OTLP needs 8, but its values can nest without end

WIRE_TYPES = {
    "double": FIXED64, "fixed64": FIXED64, "sfixed64": FIXED64, "fixed32": FIXED32,
    "int32": VARINT, "int64": VARINT, "uint32": VARINT, "uint64": VARINT, "sint32": VARINT, "bool": VARINT,
    "string": SIZED, "bytes": SIZED,
}  # fmt: skip
FIXED = {"double": "<d", "fixed64": "<Q", "sfixed64": "<q", "fixed32": "<I"}


@dataclass(frozen=True, slots=True)
class FieldType:
    """One field: its name, its type (a scalar, an enum or a message of the same table), and its presence."""

    name: str
    type: str
    repeated: bool = False
    explicit: bool = False  # optional, or in a oneof: a default value is shown, too


MessageTable: TypeAlias = dict[str, dict[int, FieldType]]  # message -> field number -> field
EnumTable: TypeAlias = dict[str, dict[int, str]]  # enum -> value -> name


class ProtobufReader:
    """Decodes messages of one table. Raises DecodeError for malformed bytes.

    Args:
        messages, enums: the table.
        most_parts: values that one message may have altogether.
    """

    def __init__(self, messages: MessageTable, enums: EnumTable, most_parts: int = MOST_PARTS) -> None:
        self._messages = messages
        self._enums = enums
        self._most_parts = most_parts
        self._parts_left = 0

    def read(self, message: str, data: bytes) -> dict[str, Any]:
        """Return the fields that are set, by name, in the order of their first appearance."""
        self._parts_left = self._most_parts
        return self._message(message, Window(message, data, 0, len(data)), 0)

    def _message(self, message: str, window: "Window", depth: int) -> dict[str, Any]:
        if depth > MOST_DEPTH:
            raise window.malformed(f"more than {MOST_DEPTH} messages inside each other")
        known = self._messages[message]
        values: dict[str, Any] = {}
        for number, wire_type in window.tags():
            field = known.get(number)
            if field is None:
                window.skip(wire_type)
            else:
                self._field(field, wire_type, window, values, depth)
        return values

    def _field(self, field: FieldType, wire_type: int, window: "Window", values: dict[str, Any], depth: int) -> None:
        expected = SIZED if field.type in self._messages else WIRE_TYPES.get(field.type, VARINT)
        if field.repeated and wire_type == SIZED != expected:
            inner = window.sized()
            while inner.left:
                self._put(field, self._scalar(field.type, inner), values, window)
        elif wire_type != expected:
            window.skip(wire_type)  # an unknown field
        elif field.type in self._messages:
            self._put(field, self._message(field.type, window.sized(), depth + 1), values, window)
        else:
            self._put(field, self._scalar(field.type, window), values, window)

    def _put(self, field: FieldType, value: Any, values: dict[str, Any], window: "Window") -> None:
        self._parts_left -= 1
        if self._parts_left < 0:
            raise window.malformed(f"more than {self._most_parts:,} values")
        if field.repeated:
            values.setdefault(field.name, []).append(value)
        elif field.explicit or value or field.type in self._messages:
            values[field.name] = value
        else:
            values.pop(field.name, None)  # the last one counts

    def _scalar(self, kind: str, window: "Window") -> Any:
        if kind in FIXED:
            return _number(struct.unpack(FIXED[kind], window.take(4 if kind == "fixed32" else 8))[0])
        if kind == "string":
            return window.take(window.size()).decode("utf-8", "replace")
        if kind == "bytes":
            return b64encode(window.take(window.size())).decode()
        value = window.varint()
        if kind in self._enums:
            return self._enums[kind].get(_signed(value, 32), _signed(value, 32)) if value else 0
        return INTEGERS[kind](value)


class Window:
    """A range of the bytes, with a current position."""

    __slots__ = ("data", "limit", "position", "what")

    def __init__(self, what: str, data: bytes, position: int, limit: int) -> None:
        self.what = what
        self.data = data
        self.position = position
        self.limit = limit

    @property
    def left(self) -> int:
        return self.limit - self.position

    def tags(self) -> Iterator[tuple[int, int]]:
        """Yield the number and wire type of each field, whose value the caller reads."""
        while self.left:
            tag = self.varint()
            if not 0 < tag >> 3 < 1 << 29:
                raise self.malformed(f"field number {tag >> 3}")
            yield tag >> 3, tag & 7

    def varint(self) -> int:
        """Read a varint of at most ten bytes; return its 64 bits as an unsigned number."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
        raise self.malformed("a varint is longer than ten bytes")

    def size(self) -> int:
        """Read the size of a length-delimited field, and check that all its bytes are present."""
        size = self.varint()
        if size > self.left:
            raise self._truncated(size)
        return size

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise self._truncated(size)
        self.position += size
        return self.data[self.position - size : self.position]

    def sized(self) -> "Window":
        """Return a Window on a length-delimited field, and move behind it."""
        size = self.size()
        start, self.position = self.position, self.position + size
        return Window(self.what, self.data, start, start + size)

    def skip(self, wire_type: int) -> None:
        """Skip a value; a group with all its fields."""
        depth = 0
        while True:
            depth += {GROUP: 1, GROUP_END: -1}.get(wire_type, 0)
            self._skip_one(wire_type)
            if depth < 0:
                raise self.malformed("a group ends that did not begin")
            if depth == 0:
                return
            tag = self.varint()
            wire_type = tag & 7

    def _skip_one(self, wire_type: int) -> None:
        if wire_type == VARINT:
            self.varint()
        elif wire_type in (FIXED64, FIXED32):
            self.take(8 if wire_type == FIXED64 else 4)
        elif wire_type == SIZED:
            self.position += self.size()
        elif wire_type not in (GROUP, GROUP_END):
            raise self.malformed(f"wire type {wire_type}")

    def _truncated(self, size: int) -> DecodeError:
        return Truncated(
            f"needs {size} bytes, {self.left} left", message=self.what, position=self.position, needed=size,
            left=self.left,
        )  # fmt: skip

    def malformed(self, reason: str) -> Malformed:
        return Malformed(reason, message=self.what, position=self.position)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _number(value: Any) -> Any:
    """Return NaN and infinities as words, as in protobuf's JSON mapping; other values unchanged."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


INTEGERS: dict[str, Callable[[int], int]] = {
    "int32": lambda value: _signed(value, 32),
    "int64": lambda value: _signed(value, 64),
    "uint32": lambda value: value & 0xFFFFFFFF,
    "uint64": lambda value: value,
    "sint32": lambda value: _signed((value >> 1) ^ -(value & 1), 32),
    "bool": bool,
}
