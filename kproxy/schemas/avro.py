"""Avro (1.12), by fastavro: values with their logical types, as JSON has them.

fastavro's compiled reader keeps no count of how deep it is: 8,000 levels of a type that contains itself, a byte each, end the
process. Payloads of such types are walked first, which has a limit. It does not count items that take no bytes, either, so arrays
of such items are refused.
"""

import functools
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kproxy.schemas.avro_values import NOTHING, AvroValues
from kproxy.schemas.fields import ChangeField, Edit, FieldPaths, NotDescribed, NoWayOn, OtherType
from kproxy.schemas.formats import LEAF, Compiled, PayloadError, SchemaError, Substitutes, any_of, require
from kproxy.schemas.kinds import ANY, Counted, Kind, Map, decimal
from kproxy.schemas.logical import logical_type, register, renamed
from kproxy.schemas.marks import EACH, MOST_NODES, Step, Template, edited, shown
from kproxy.schemas.readable import readable
from kproxy.schemas.walk import PayloadWalk

ENDS = "it ends too early"
MOST_DEPTH = 64  # of a schema
SQL_TYPES = {
    "date": "DATE",
    "time-millis": "TIME",
    "time-micros": "TIME",
    "timestamp-millis": "TIMESTAMPTZ",
    "timestamp-micros": "TIMESTAMPTZ",
    "local-timestamp-millis": "TIMESTAMP",
    "local-timestamp-micros": "TIMESTAMP",
    "uuid": "UUID",
}
SQL_PRIMITIVES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "DOUBLE",
    "double": "DOUBLE",
    "bytes": "VARCHAR",
    "string": "VARCHAR",
}
MOST_FIXED = 2**31 - 1  # bytes
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class AvroSchema(Compiled):
    """Reads the payloads of one schema."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        fastavro = require("fastavro")
        register(fastavro.read.LOGICAL_READERS)
        named: dict[str, Any] = {}
        try:
            for other in references.values():
                fastavro.parse_schema(renamed(json.loads(other)), named_schemas=named)
            self._schema = fastavro.parse_schema(renamed(json.loads(text)), named_schemas=named)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SchemaError(f"not an Avro schema: {error}") from error
        except Exception as error:  # of fastavro: UnknownType, SchemaParseException
            raise SchemaError(f"not an Avro schema: {type(error).__name__}: {error}") from error
        shape = _Shape(named)
        shape.check(self._schema)
        self._is_recursive = shape.is_recursive
        self._read = fastavro.schemaless_reader
        self._named = named
        self.walk = PayloadWalk(Plan(named).of(self._schema))

    def hiding(self, states: Sequence[Any], stars: bool) -> Callable[[bytes, tuple[int, ...] | None], bytes | None]:
        """Return what hides the values at the paths of an automaton in payloads (kproxy.filters.mask.parse_paths).

        A text becomes "***" with *stars*; other values null where their type has it, else the smallest value. Paths do not tell
        items of arrays, nor values of maps, apart. Raises SchemaError for a value that has no smallest one.
        """
        walk = PayloadWalk(Plan(self._named, states, stars).of(self._schema))
        return lambda payload, indexes: walk.hidden(payload)

    def editing(self, paths: FieldPaths) -> Edit:
        plan = FieldPlan(self._named, paths.states, paths.is_strict)
        walk = PayloadWalk(plan.of(self._schema))
        for path, states in paths.each.items():
            alone = FieldPlan(self._named, states)
            alone.of(self._schema)
            if not alone.leaves:
                raise NotDescribed(f"the schema has no field {path}")

        def edit(payload: bytes, indexes: tuple[int, ...] | None, change: ChangeField) -> bytes:
            marked = walk.marked(payload)
            if marked is None:
                raise PayloadError("the payload does not fit the schema")
            return edited(payload, marked, plan.leaves, change, 1)

        return edit

    def read(self, payload: bytes, indexes: tuple[int, ...] | None = None) -> object:
        """Return the value. Raises PayloadError if the payload is not one of this schema, to its last byte."""
        if self._is_recursive and not self.walk.fits(payload):
            raise PayloadError("the payload does not fit the schema, or is too deep")
        stream = io.BytesIO(payload)
        try:
            value = readable(self._read(stream, self._schema, None))
        except (
            EOFError,
            RecursionError,
            ValueError,
            TypeError,
            IndexError,
            KeyError,
            OverflowError,
            ArithmeticError,
        ) as error:
            raise PayloadError(f"the payload does not fit the schema: {ENDS if _is_end(error) else error}") from error
        if left := len(payload) - stream.tell():
            raise PayloadError(f"{left} bytes after the value")
        return value

    @functools.cached_property
    def _values(self) -> AvroValues:
        return AvroValues(self._schema, self._named)

    def write(self, value: object, like: bytes | None = None, indexes: tuple[int, ...] | None = None) -> bytes:
        """See Compiled."""
        before = NOTHING
        if like is not None and self.walk.fits(like):
            before = self._values.read(like)
        return self._values.write(value, before)

    def substituted(self, payload: bytes, indexes: tuple[int, ...] | None, substitutes: Substitutes) -> bytes:
        """Return the payload with substitutes; names in maps are values, too. Raises PayloadError."""
        if not self.walk.fits(payload):
            raise PayloadError("the payload does not fit the schema")
        return self._values.substituted(payload, substitutes)

    def kinds(self, indexes: tuple[int, ...] | None = None) -> dict[str, Kind]:
        found = _Kinds(self._named).of(self._schema)
        return found if isinstance(found, dict) else {}


class _Kinds:
    """The types in SQL of an Avro schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._inside: list[str] = []  # names of the records around a type
        self._counted = Counted()

    def of(self, schema: Any) -> Kind:
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            return self.of(others[0]) if len(others) == 1 else ANY
        if not self._counted.may_go_on(len(self._inside)):
            return ANY
        if isinstance(schema, str):
            known: Kind | None = SQL_PRIMITIVES.get(schema)
            return known or self.of(self._named.get(schema, {}))
        logical = logical_type(schema)
        if logical == "decimal":
            return decimal(int(schema["precision"]), int(schema.get("scale", 0)))
        return SQL_TYPES.get(str(logical)) or self._of_type(schema, str(schema.get("type")))

    def _of_type(self, schema: Mapping[str, Any], kind: str) -> Kind:
        if kind == "array":
            return self._within("[]", lambda: [self.of(schema["items"])])
        if kind == "map":
            return self._within("{}", lambda: Map("VARCHAR", self.of(schema["values"])))
        if kind == "record":
            fields = schema["fields"]
            return self._within(schema["name"], lambda: {field["name"]: self.of(field["type"]) for field in fields})
        return "VARCHAR" if kind in ("enum", "fixed") else SQL_PRIMITIVES.get(kind, ANY)

    def _within(self, name: str, make: Callable[[], Kind]) -> Kind:
        if name in self._inside and name not in ("[]", "{}"):
            return ANY
        self._inside.append(name)
        kind = make()
        self._inside.pop()
        return kind


def _is_end(error: Exception) -> bool:
    """Whether a reader of fastavro came to the end of the payload: the one in C then takes a byte out of nothing."""
    return isinstance(error, EOFError) or "string index" in str(error)


class _Shape:
    """What has to be known of a schema before hostile bytes are read by it."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.is_recursive = False
        self._named = named
        self._sizes: dict[str, int] = {}
        self._items: list[Any] = []  # the types of items of arrays

    def check(self, schema: Any) -> None:
        """Raise SchemaError for a schema that is refused."""
        self._smallest(schema, ())
        for items in list(self._items):  # now that the sizes of types that contain themselves are known
            if not self._smallest(items, ()):
                raise SchemaError("an array of items that take no bytes: any number could come")

    def _smallest(self, schema: Any, inside: tuple[str, ...], depth: int = 0) -> int:
        """Return the fewest bytes that a value takes. Raises SchemaError for a schema that is refused."""
        if depth > MOST_DEPTH:
            raise SchemaError(f"the schema is more than {MOST_DEPTH} levels deep")
        if isinstance(schema, list):
            return 1 + min((self._smallest(one, inside, depth + 1) for one in schema), default=0)
        if isinstance(schema, str):
            return self._by_name(schema, inside, depth)
        match schema["type"]:
            case "array":
                self._items.append(schema["items"])
                self._smallest(schema["items"], inside, depth + 1)
                size = 1
            case "map":
                self._smallest(schema["values"], inside, depth + 1)
                size = 1
            case "fixed":
                size = schema["size"]
                if type(size) is not int or not 0 <= size <= MOST_FIXED:  # fastavro takes any
                    raise SchemaError(f"the size of a fixed type is not a whole number from 0 to {MOST_FIXED:,}")
            case "enum":
                size = 1
            case "record" | "error":
                name = schema["name"]
                size = sum(self._smallest(one["type"], (*inside, name), depth + 1) for one in schema["fields"])
                self._sizes[name] = size
            case other:
                size = self._smallest(other, inside, depth + 1)
        return size

    def _by_name(self, name: str, inside: tuple[str, ...], depth: int) -> int:
        if name in PRIMITIVES:
            return {"null": 0, "float": 4, "double": 8}.get(name, 1)
        if name in inside:
            self.is_recursive = True
            return 0
        if name in self._sizes:
            return self._sizes[name]
        if name not in self._named:
            raise SchemaError(f"the type {name} is not defined")
        return self._smallest(self._named[name], inside, depth + 1)


KINDS = (  # in the order of walk.Kind
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "array", "map", "union"),
    "record",
)
STARS = b"\x06***"
SMALLEST = {"null": b"", "float": bytes(4), "double": bytes(8)}  # of others it is a zero byte
Planned = tuple[int, int, tuple[int, ...], bytes | None]  # see PayloadWalk


class Plan:
    """Makes the nodes of a PayloadWalk from a schema, and from the states of an automaton that says what is hidden."""

    def __init__(self, named: Mapping[str, Any], states: Sequence[Any] = (), stars: bool = False) -> None:
        self._named = named
        self._states = states
        self._stars = stars
        self._steps: list[Planned] = []
        self._known: dict[tuple[str, int | None, Template], int] = {}  # name of a type, state and place -> its node

    def of(self, schema: Any) -> list[Planned]:
        """Return the nodes; the first is that of the schema."""
        self._add(schema, 0 if self._states else None)
        return self._steps

    def _add(self, schema: Any, state: int | None, place: Template = ()) -> int:
        """Add the node of a type at a place, and those below it; return its number."""
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = "union" if isinstance(schema, list) else schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str) or (kind not in KINDS and kind != "error"):
            return self._add(kind, state, place)
        name = schema.get("name") if isinstance(schema, dict) and kind not in ("array", "map") else None
        if name is not None and (name, state, place) in self._known:
            return self._known[name, state, place]
        number = len(self._steps)
        if name is not None:
            self._known[name, state, place] = number
        if state is not None and state != LEAF:
            self._check_way(kind, schema, self._states[state], place)
        hidden, below = self._of_leaf(schema, kind, place) if state == LEAF else (None, state)
        size = int(schema["size"]) if kind == "fixed" else len(schema["symbols"]) if kind == "enum" else 0
        kind = "record" if kind == "error" else kind
        self._steps.append((KINDS.index(kind), size, (), hidden))
        children = tuple(self._children(kind, schema, below, place))
        self._steps[number] = (KINDS.index(kind), size, children, hidden)
        return number

    def _of_leaf(self, schema: Any, kind: str, place: Template) -> tuple[bytes | None, int | None]:
        """Return the bytes that stand for the value at the end of a path, if it is hidden, and the state of what is in it."""
        return self._hidden(schema, 0), None

    def _check_way(self, kind: str, schema: Any, state: Any, place: Template) -> None:
        """Look at a type that a path goes on in."""

    def _within(self, place: Template, step: Step, state: int | None) -> Template:
        """Return the place of what is at a step; places that need not be told apart are ()."""
        return ()

    def _children(self, kind: str, schema: Any, state: int | None, place: Template) -> Iterator[int]:
        known = None if state is None or state == LEAF else self._states[state]
        match kind:
            case "union":
                yield from (self._add(one, state, place) for one in schema)
            case "array":
                below = known and any_of(known.indexes, known.every)
                yield self._add(schema["items"], below, self._within(place, EACH, below))
            case "map":
                yield self._add("string", None)
                below = known and any_of(known.names, known.every)
                yield self._add(schema["values"], below, self._within(place, bytes.decode, below))
            case "record":
                for one in schema["fields"]:
                    below = known and known.names.get(one["name"], known.every)
                    yield self._add(one["type"], below, self._within(place, one["name"], below))

    def _hidden(self, schema: Any, depth: int) -> bytes:
        """Return the bytes that stand for a hidden value."""
        if depth > MOST_DEPTH:
            raise SchemaError("a value that contains itself cannot be hidden: no value of its type is finite")
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, list):
            wanted = ["string", "null"] if self._stars else ["null"]
            kinds = [one if isinstance(one, str) else one.get("type") for one in schema]
            at = next((kinds.index(one) for one in wanted if one in kinds), 0)
            return bytes([at << 1]) + self._hidden(schema[at], depth + 1)
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "string":
                plain = isinstance(schema, str) or "logicalType" not in schema
                return STARS if self._stars and plain else b"\0"
            case "fixed":
                return bytes(int(schema["size"]))
            case "record" | "error":
                return b"".join(self._hidden(one["type"], depth + 1) for one in schema["fields"])
            case str() if kind in KINDS:
                return SMALLEST.get(kind, b"\0")
        return self._hidden(kind, depth + 1)


class FieldPlan(Plan):
    """Marks the texts and bytes at the paths of an automaton. ``leaves`` has, for each node, its place and whether it is a text.

    *is_strict*: raise NoWayOn where a path goes on below a type that has nothing below it.
    """

    def __init__(self, named: Mapping[str, Any], states: Sequence[Any], is_strict: bool = False) -> None:
        super().__init__(named, states)
        self._is_strict = is_strict
        self.leaves: dict[int, tuple[Template, bool]] = {}

    def _of_leaf(self, schema: Any, kind: str, place: Template) -> tuple[bytes | None, int | None]:
        if kind == "union":
            return None, LEAF
        if kind == "null":
            return None, None
        logical = logical_type(schema) if isinstance(schema, dict) else None
        if logical is not None or kind not in ("string", "bytes"):
            raise OtherType(shown(place), logical or kind)
        self.leaves[len(self._steps)] = place, kind == "string"
        return b"", None

    def _check_way(self, kind: str, schema: Any, state: Any, place: Template) -> None:
        if not self._is_strict or kind in ("union", "null") or not self._steps:  # the value itself is no field
            return
        steps = {"array": state.indexes, "map": state.names, "record": state.names, "error": state.names}.get(kind)
        if steps is None or not (steps or state.every is not None):
            raise NoWayOn(shown(place), logical_type(schema) or kind if isinstance(schema, dict) else kind)

    def _within(self, place: Template, step: Step, state: int | None) -> Template:
        if len(self._steps) > MOST_NODES:
            raise SchemaError(f"paths with wildcards lead to more than {MOST_NODES:,} places of the schema")
        return () if state is None else (*place, step)
