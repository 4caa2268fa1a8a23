"""Values of Avro written back: JSON as ``AvroSchema.read`` returns it, with the types of unions as they were.

JSON does not say which type of a union a value has: int and long look alike, and so do a text and bytes in base64. In the schema
that fastavro gets here, each type of a union is a record with one field, which has the same bytes; what it reads says the type.
Logical types are left out of that schema: their values are the plain ones of Avro, which logical.py turns into JSON and back.

    ["null", "long"]  ->  ["null", {"type": "record", "name": "u1_1", "fields": [{"name": "of1", "type": "long"}]}]
"""

import io
import struct
from collections.abc import Mapping
from typing import Any

from kproxy.schemas.formats import SchemaError, ValueMismatch, as_float, below, from_base64, require
from kproxy.schemas.logical import from_json, to_json
from kproxy.schemas.readable import readable

NOTHING: Any = object()  # in place of a value that was there before
MOST_TRIED = 3_000  # types of unions that fit only in part; inside each other they would take exponential time
INTEGERS = {"int": 1 << 31, "long": 1 << 63}


class AvroValues:
    """Writes the values of one schema.

    Args:
        schema: as fastavro.parse_schema returns it, with the logical types of logical.renamed.
        named: the named types in it.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._fastavro = require("fastavro")
        self._schema = schema
        self._named = named
        self._names: dict[str, str] = {}  # of named types in the plain schema, by their own names
        self._unions: dict[
            int, str
        ] = {}  # the beginning of the names of a union's records, by the identity of the union
        self._plain = self._fastavro.parse_schema(self._made_plain(schema))
        self._tried = 0

    def read(self, payload: bytes) -> Any:
        """Return the plain value of a payload that fits the schema."""
        return self._fastavro.schemaless_reader(io.BytesIO(payload), self._plain, None)

    def write(self, value: object, before: Any = NOTHING) -> bytes:
        """Return the payload of a JSON value. *before*: what ``read`` returned. Raises ValueMismatch, SchemaError."""
        self._tried = 0
        stream = io.BytesIO()
        self._fastavro.schemaless_writer(stream, self._plain, self._of_json(self._schema, value, before, ""))
        return stream.getvalue()

    # The plain schema

    def _made_plain(self, schema: Any) -> Any:
        if isinstance(schema, list):
            name = self._unions[id(schema)] = f"u{len(self._unions) + 1}"
            return [one if one == "null" else self._record(name, at, one) for at, one in enumerate(schema)]
        name = schema if isinstance(schema, str) else schema.get("name")
        if name in self._named:
            return self._names[name] if name in self._names else self._defined(name)
        if isinstance(schema, str):
            return schema
        match schema["type"]:
            case "array":
                return {"type": "array", "items": self._made_plain(schema["items"])}
            case "map":
                return {"type": "map", "values": self._made_plain(schema["values"])}
        return self._made_plain(schema["type"])

    def _defined(self, name: str) -> Any:
        """Return the definition of a named type; where it comes again, its name is enough."""
        schema = self._named[name]
        self._names[name] = f"t{len(self._names) + 1}"
        plain = {"type": schema["type"], "name": self._names[name]}
        plain |= {known: schema[known] for known in ("size", "symbols") if known in schema}
        if "fields" in schema:
            fields = schema["fields"]
            plain["fields"] = [{"name": one["name"], "type": self._made_plain(one["type"])} for one in fields]
        return plain

    def _record(self, union: str, at: int, schema: Any) -> Any:
        field = {"name": f"of{at}", "type": self._made_plain(schema)}
        return {"type": "record", "name": f"{union}_{at}", "fields": [field]}

    # From JSON

    def _of_json(self, schema: Any, value: Any, before: Any, path: str) -> Any:
        """Return the plain value of a JSON value at a path. Raises ValueMismatch."""
        if isinstance(schema, list):
            return self._of_union(schema, value, before, path)
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "record" | "error":
                return self._of_record(schema, value, before, path)
            case "array":
                items = _needed(value, list, "an array", path)
                known = before if isinstance(before, list) else []
                return [
                    self._of_json(schema["items"], one, known[at] if at < len(known) else NOTHING, below(path, at))
                    for at, one in enumerate(items)
                ]
            case "map":
                by_name = before if isinstance(before, dict) else {}
                return {
                    _text(name, path): self._of_json(
                        schema["values"], one, by_name.get(name, NOTHING), below(path, name)
                    )
                    for name, one in _needed(value, dict, "an object", path).items()
                }
            case str() if isinstance(schema, str) or kind in ("fixed", "enum") or kind in PLAIN:
                return _of_leaf(kind, schema, value, before, path)
        return self._of_json(kind, value, before, path)

    def _of_record(self, schema: Any, value: Any, before: Any, path: str) -> dict[str, Any]:
        members = _needed(value, dict, "an object", path)
        known = before if isinstance(before, dict) else {}
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        for name in members.keys() - fields.keys():
            raise ValueMismatch("is not a field of the schema", below(path, name))
        for name in fields.keys() - members.keys():
            raise ValueMismatch("is missing", below(path, name))
        return {
            name: self._of_json(one, members[name], known.get(name, NOTHING), below(path, name))
            for name, one in fields.items()
        }

    def _of_union(self, union: list[Any], value: Any, before: Any, path: str) -> Any:
        if value is None and "null" in union:
            return None
        was, inner = _chosen(before)
        refused: list[ValueMismatch] = []
        for at in sorted(range(len(union)), key=lambda at: (at != was, _is_last(union[at]), at)):
            if union[at] == "null":
                continue
            if union[at] == "float" and at != was and "double" in union and not _is_float(value):
                continue
            try:
                plain = self._of_json(union[at], value, inner if at == was else NOTHING, path)
            except ValueMismatch as error:
                refused.append(error)
                self._tried += len(error.path) > len(path)
                if self._tried > MOST_TRIED:
                    raise SchemaError("it takes too long to find the types of unions in the value") from None
            else:
                return f"{self._unions[id(union)]}_{at}", {f"of{at}": plain}
        deepest = max(refused, key=lambda error: len(error.path), default=None)
        if deepest is not None and (len(refused) == 1 or deepest.path != path):
            raise deepest
        raise ValueMismatch(f"is none of {', '.join(map(_name_of, union))}", path)


PLAIN = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def _chosen(before: Any) -> tuple[int | None, Any]:
    """Return the number of a union's type, and the value, of what fastavro read of the union."""
    if not isinstance(before, dict):
        return None, NOTHING
    ((name, inner),) = before.items()
    return int(name.removeprefix("of")), inner


def _is_last(schema: Any) -> bool:
    """Whether other types of a union come before it: texts are more likely than bytes in base64 that look like them."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    return kind in ("bytes", "fixed")


def _is_float(value: Any) -> bool:
    """Whether a number has a float of four bytes without loss."""
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except (struct.error, OverflowError):
        return isinstance(value, str)  # NaN and infinities


def _name_of(schema: Any) -> str:
    return str(schema["name"] if "name" in schema else schema["type"]) if isinstance(schema, dict) else str(schema)


def _of_leaf(kind: str, schema: Any, value: Any, before: Any, path: str) -> Any:
    """Return the plain value of a JSON value of a type without others in it. Raises ValueMismatch."""
    if before is not NOTHING:
        shown = readable(to_json(kind, schema, before))
        if type(shown) is type(value) and shown == value:
            return before  # also where several plain values have the same JSON
    try:
        value = from_json(kind, schema, value)
    except (ValueError, ArithmeticError) as error:
        raise ValueMismatch(str(error), path) from None
    plain: Any
    match kind:
        case "null" | "boolean":
            plain = _needed(value, type(None) if kind == "null" else bool, kind, path)
        case "int" | "long":
            plain = _needed(value, int, "a whole number", path)
            if not -INTEGERS[kind] <= plain < INTEGERS[kind]:
                raise ValueMismatch(f"is beyond {kind}", path)
        case "float" | "double":
            plain = as_float(value, kind == "float", path)
        case "string":
            plain = _text(value, path)
        case "enum":
            plain = value
            if value not in schema["symbols"]:
                raise ValueMismatch(f"is none of {', '.join(schema['symbols'][:20])}", path)
        case _:
            plain = value if isinstance(value, bytes) else from_base64(value, path)
            if kind == "fixed" and len(plain) != schema["size"]:
                raise ValueMismatch(f"has {len(plain)} bytes, not {schema['size']}", path)
    return plain


def _text(value: Any, path: str) -> str:
    text: str = _needed(value, str, "a text", path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueMismatch("holds a lone surrogate, which is no text", path) from None
    return text


def _needed(value: Any, kind: Any, name: str, path: str) -> Any:
    """Return the value if it is of a kind; True and False are no numbers. Raises ValueMismatch."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueMismatch(f"is not {name}", path)
    return value
