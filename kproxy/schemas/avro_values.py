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

from kproxy.schemas.formats import (
    PayloadError,
    SchemaError,
    Substitutes,
    ValueMismatch,
    as_float,
    below,
    from_base64,
    require,
)
from kproxy.schemas.logical import from_json, substituted, to_json
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
        self._names: dict[str, str] = {}  # name of a type in the schema -> its name in the plain schema
        self._unions: dict[int, str] = {}  # id() of a union -> how the names of its records in the plain schema begin
        self._plain = self._fastavro.parse_schema(self._made_plain(schema))
        self._tried = 0

    def read(self, payload: bytes) -> Any:
        """Return the plain value of a payload that fits the schema."""
        return self._fastavro.schemaless_reader(io.BytesIO(payload), self._plain, None)

    def write(self, value: object, before: Any = NOTHING) -> bytes:
        """Return the payload of a JSON value. *before*: what ``read`` returned. Raises ValueMismatch, SchemaError."""
        self._tried = 0
        return self._written(self._of_json(self._schema, value, before, ""))

    def substituted(self, payload: bytes, substitutes: Substitutes) -> bytes:
        """Return the payload with substitutes for its values. Raises PayloadError if there is none for one of them."""
        try:
            return self._written(self._substituted(self._schema, self.read(payload), substitutes))
        except (OverflowError, struct.error) as error:  # a float at the end of its range
            raise PayloadError(f"a value has no substitute: {error}") from error

    def _written(self, plain: Any) -> bytes:
        stream = io.BytesIO()
        self._fastavro.schemaless_writer(stream, self._plain, plain)
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
        schema, kind = self._resolved(schema)
        match kind:
            case "union":
                return self._of_union(schema, value, before, path)
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
        return _of_leaf(kind, schema, value, before, path)

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

    # Substitutes

    def _substituted(self, schema: Any, plain: Any, to: Substitutes) -> Any:
        schema, kind = self._resolved(schema)
        match kind:
            case "union":
                at, inner = _chosen(plain)
                of_union = None if at is None else {f"of{at}": self._substituted(schema[at], inner, to)}
                return of_union and (f"{self._unions[id(schema)]}_{at}", of_union)
            case "record" | "error":
                fields = schema["fields"]
                return {one["name"]: self._substituted(one["type"], plain[one["name"]], to) for one in fields}
            case "array":
                return [self._substituted(schema["items"], one, to) for one in plain]
            case "map":
                return {to.text(name): self._substituted(schema["values"], one, to) for name, one in plain.items()}
        return _substitute(kind, schema, plain, to)

    def _resolved(self, schema: Any) -> tuple[Any, str]:
        """Return a schema, of a named type its definition, and which kind of type it is."""
        if isinstance(schema, list):
            return schema, "union"
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        kind = schema if isinstance(schema, str) else schema["type"]
        return (schema, kind) if isinstance(kind, str) and kind in KINDS else self._resolved(kind)


KINDS = frozenset({
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    *("fixed", "enum", "array", "map", "record", "error"),
})  # fmt: skip


def _chosen(before: Any) -> tuple[int | None, Any]:
    """Return which of a union's types a value has, by number, and the value: fastavro read it as {"of2": value}."""
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


def _substitute(kind: str, schema: Any, plain: Any, to: Substitutes) -> Any:
    """Return a substitute for the plain value of a type without others in it."""
    other = substituted(kind, schema, plain, to) if isinstance(schema, dict) else None
    match kind:
        case _ if other is not None:
            return other
        case "int" | "long":
            other = to.whole(plain, -INTEGERS[kind], INTEGERS[kind] - 1)
        case "float" | "double":
            other = to.real(plain)
        case "string":
            other = to.text(plain)
        case "enum":
            other = to.one_of(plain, schema["symbols"])
        case "bytes" | "fixed":
            other = to.data(plain)
        case _:
            other = plain
    return other


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
