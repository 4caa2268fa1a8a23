"""Read Kafka's JSON into objects: the inverse of the JSON sink, for people and tests, not for speed.

read_json    a complete message, which can be encoded again
read_shown   a message from a decoded log, without credentials and records
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from kproxy.errors import EncodeError
from kproxy.protocol.facts import Field, Layout
from kproxy.protocol.secrets import WITHHELD
from kproxy.protocol.structs import MessageStruct, Struct

UNKNOWN_TAGS = "_unknownTaggedFields"


def read_json(layout: Layout, version: int, text: str | bytes, types: dict[str, type[Struct]]) -> MessageStruct:
    """Return the message that *text* describes at *version*. All untagged fields of the version must be present.

    Records are base64 under the field's name; ``recordsSizeInBytes`` alone cannot be read back. Raises EncodeError.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EncodeError(f"{layout.name} v{version}: not JSON: {error}") from None
    reader = _Reader(layout, version, types)
    result = reader.struct(layout.name, layout.fields, value, "")
    assert isinstance(result, MessageStruct)
    return result


def read_shown(
    layout: Layout, version: int, text: str | bytes, types: dict[str, type[Struct]], records: Callable[[str, int], Any]
) -> MessageStruct:
    """Return a message from a decoded log, with values of the layout's types; missing fields get their defaults.

    Withheld bytes are empty. For a records field, *records* is called with its path and size. Raises EncodeError.
    """
    reader = _ShownReader(layout, version, types)
    reader.records = records
    try:
        value = json.loads(text)
        result = reader.struct(layout.name, layout.fields, value, "")
    except (ValueError, RecursionError) as error:
        raise EncodeError(f"{layout.name} v{version}: not JSON: {error}") from None
    assert isinstance(result, MessageStruct)
    return result


class _Reader:
    def __init__(self, layout: Layout, version: int, types: dict[str, type[Struct]]) -> None:
        self.layout = layout
        self.version = version
        self.types = types

    def refuse(self, path: str, reason: str) -> EncodeError:
        where = f": {path}" if path else ""
        return EncodeError(f"{self.layout.name} v{self.version}{where}: {reason}")

    def struct(self, name: str, fields: tuple[Field, ...], value: Any, path: str) -> Struct:
        if not isinstance(value, dict):
            raise self.refuse(path, f"is a {type(value).__name__}, not an object")
        left = dict(value)
        read: dict[str, Any] = {"unknown_tags": self.unknown_tags(left.pop(UNKNOWN_TAGS, []), path)}
        for field in fields:
            if self.version not in field.versions:
                continue
            where = f"{path}.{field.json_name}" if path else field.json_name
            if field.json_name in left:
                read[field.attribute] = self.value(field, left.pop(field.json_name), where)
            elif self.version not in field.tagged:
                raise self.refuse(where, "is missing")
        if left:
            raise self.refuse(path, f"has no field {', '.join(map(repr, left))} in this version")
        return self.types[name](**read)

    def value(self, field: Field, value: Any, path: str) -> Any:
        if value is None:
            return None
        if not field.is_array:
            return self.single(field, value, path)
        if not isinstance(value, list):
            raise self.refuse(path, f"is a {type(value).__name__}, not a list")
        return [self.single(field, item, f"{path}[{i}]") for i, item in enumerate(value)]

    def single(self, field: Field, value: Any, path: str) -> Any:
        """Return one value that is not null; the encoder will check numbers, text and uuids."""
        if field.is_struct:
            return self.struct(field.type, field.fields, value, path)
        if field.type in ("bytes", "records"):
            return self.base64(value, path)
        if field.type == "float64" and value in ("NaN", "Infinity", "-Infinity"):
            return float(value)
        return value

    def base64(self, value: Any, path: str) -> bytes:
        if not isinstance(value, str):
            raise self.refuse(path, f"is a {type(value).__name__}, not base64")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise self.refuse(path, "is not base64") from None

    def unknown_tags(self, value: Any, path: str) -> tuple[tuple[int, bytes], ...]:
        where = f"{path}.{UNKNOWN_TAGS}" if path else UNKNOWN_TAGS
        try:
            return tuple((int(entry["tag"]), self.base64(entry["data"], where)) for entry in value)
        except (TypeError, KeyError, ValueError, OverflowError):
            raise self.refuse(where, 'is not a list of {"tag": number, "data": base64}') from None


class _ShownReader(_Reader):
    """Reads untrusted text: it checks every value, as no encoder follows."""

    records: Callable[[str, int], Any]

    def struct(self, name: str, fields: tuple[Field, ...], value: Any, path: str) -> Struct:
        if not isinstance(value, dict):
            raise self.refuse(path, f"is a {type(value).__name__}, not an object")
        decoded = self.types[name].unset()
        for field in fields:
            if field.json_name not in value and field.type != "records":
                continue
            if self.version not in field.versions:
                continue
            where = f"{path}.{field.json_name}" if path else field.json_name
            if field.type == "records":
                size = value.get(f"{field.json_name}SizeInBytes")
                read = None if size is None else self.records(where, self.number(size, where, 31))
            else:
                read = self.value(field, value[field.json_name], where)
            setattr(decoded, field.attribute, read)
        return decoded

    def value(self, field: Field, value: Any, path: str) -> Any:
        if value is None and self.version not in field.nullable:
            if field.is_array or field.type not in EMPTY:
                raise self.refuse(path, "is null")
            return EMPTY[field.type]
        return super().value(field, value, path)

    def single(self, field: Field, value: Any, path: str) -> Any:
        bits = BITS.get(field.type)
        if bits is not None:
            return self.number(value, path, bits)
        if field.type == "bytes" and value == WITHHELD:
            return b""
        kind = KINDS.get(field.type)
        if kind is not None and not isinstance(value, kind):
            raise self.refuse(path, f"is a {type(value).__name__}, not a {field.type}")
        return super().single(field, value, path)

    def number(self, value: Any, path: str, bits: int) -> int:
        """Return an integer of at most *bits* bits, not counting its sign."""
        if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
            raise self.refuse(path, f"is no integer of {bits} bits")
        return value


BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}
KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "uuid": str,
    "bool": bool,
    "float64": (float, int, str),
}
EMPTY: dict[str, str | bytes] = {"string": "", "bytes": b""}  # for a null that Message.decode tolerates as well
