"""Fields of values, changed by a function where they stand: texts and bytes at the paths of an automaton. All else stays.

Only a message of Protobuf with a field twice is written again, by its library. A field of another type is refused: of Avro and
Protobuf when the schema is compiled, in JSON as soon as one comes. null, and what is not there, is no field. Where a path goes
on in an object or array, and something else stands there, the field may be in it: strict paths refuse that as well.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NamedTuple

from kproxy.errors import KproxyError, UsageError
from kproxy.schemas.formats import PayloadError, SchemaError, SchemaType
from kproxy.schemas.framings import CONFLUENT, Headers, is_confluent, reframed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kproxy.schemas.store import Schema, Schemas

MOST_EDITORS = 1_000
TOO_MANY = "the value has more fields than can be encrypted"
NO_FIT = "the value does not fit its schema"
QUOTE, NULL = b'"n'  # the first byte of a text, and of null
Place = tuple[str | int, ...]  # names of members, keys of maps, indexes of items
# The place of a field, its text in UTF-8 or its bytes, and whether it is a text -> the same of the field in its place
ChangeField = Callable[[Place, bytes, bool], bytes]
Edit = Callable[[bytes, tuple[int, ...] | None, ChangeField], bytes]  # payload, message indexes -> payload


class FieldPaths(NamedTuple):
    """Paths, and automata of them (kproxy.filters.mask.parse_paths)."""

    states: Sequence[Any]  # of all together
    each: Mapping[str, Sequence[Any]]  # by the text of each path
    # In an object or array of JSON: where the values at the paths begin and end, and their places; None for what is none.
    # What a strict path cannot go on in ends where it begins
    in_json: Callable[[bytes], list[tuple[int, int, Place]] | None]
    is_strict: bool  # what a path cannot go on in is refused


class FieldRefused(SchemaError):
    """A field that cannot be changed."""


class OtherType(FieldRefused):
    """A field of a type that cannot be changed."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"the field {path} is of the type {kind}: only texts and bytes can be encrypted")


class NoWayOn(FieldRefused):
    """Something else than the object or array that a path goes on in."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"the path of a field goes on in {path}, which is of the type {kind} and has no such field")


class NotDescribed(SchemaError):
    """A value whose fields cannot be found."""


class SchemaAway(SchemaError):
    """A schema that cannot be had now."""


class SchemaNotYet(Exception):
    """A registry has to answer first."""


class FieldEditor:
    """Changes the fields of the values of one topic, by their schemas, or as JSON. It may be called in any one thread at a time.

    Args:
        schemas: the sources.
        topic: whose values they are.
        paths: of the fields.
    """

    def __init__(self, schemas: "Schemas", topic: str, paths: FieldPaths) -> None:
        self._schemas = schemas
        self._topic = topic
        self._paths = paths
        self._edits: dict[Schema, Edit] = {}
        # By the id, for values of Avro and Protobuf without headers, most of them: what is before the payload, and says the rest
        self._by_id: dict[bytes, tuple[bytes, Edit, tuple[int, ...] | None]] = {}

    def edited(self, value: bytes, headers: Headers, change: ChangeField, *, checks: bool = False) -> bytes:
        """Return a value with other fields; the same object if all stay.

        Args:
            value, headers: of a record.
            change: returns the same object for a field that stays.
            checks: whether a value that fits its JSON Schema has to fit it afterwards; else FieldRefused is raised.

        Raises FieldRefused, NotDescribed, SchemaAway, SchemaNotYet.
        """
        known = None if headers else self._by_id.get(value[:CONFLUENT])
        if known is not None and value.startswith(known[0]):
            head, edit, indexes = known
            payload = value[len(head) :]
            edited = _edited(edit, payload, indexes, change)
            return value if edited is payload else head + edited
        located = self._schemas.locate(value, self._topic, "value", headers)
        if located is None:
            return edited_json(value, self._paths, change) if value else value
        schema = located.schema
        if schema is None:
            self._raise_unless_answered()
            raise NotDescribed("no source has the schema of the value")
        edit = self._edit_of(schema)
        try:
            indexes, start = located.indexes()
        except PayloadError as error:
            raise NotDescribed(NO_FIT) from error
        payload = located.payload[start:]
        if schema.type != SchemaType.JSON and not headers and is_confluent(value, located.framed):
            self._remember(value[: len(value) - len(payload)], edit, indexes)
        edited = _edited(edit, payload, indexes, change)
        if edited is payload:
            return value
        if checks and schema.type == SchemaType.JSON:
            self._check(schema, payload, edited)
        return reframed(value, located.framed, located.payload[:start] + edited)

    def _remember(self, head: bytes, edit: Edit, indexes: tuple[int, ...] | None) -> None:
        """Remember how values are edited that begin so: with an id, which stands for the same schema for ever."""
        if len(self._by_id) >= MOST_EDITORS:
            self._by_id.clear()
        self._by_id[head[:CONFLUENT]] = head, edit, indexes

    def check(self, schema: "Schema") -> None:
        """Raise FieldRefused or NotDescribed if a schema does not allow the paths, as far as that can be said without values."""
        self._edit_of(schema)

    def _edit_of(self, schema: "Schema") -> Edit:
        if schema not in self._edits:
            try:
                edit = self._schemas.compiled(schema).editing(self._paths)
            except (FieldRefused, NotDescribed):
                raise
            except (KproxyError, RecursionError) as error:
                self._raise_unless_answered()
                why = str(error) if isinstance(error, UsageError) else "its schema cannot be used"
                raise NotDescribed(f"the value cannot be read: {why}") from error
            if len(self._edits) >= MOST_EDITORS:
                self._edits.clear()
            self._edits[schema] = edit
        return self._edits[schema]

    def _raise_unless_answered(self) -> None:
        if self._schemas.is_asked(self._topic):
            raise SchemaNotYet
        if (why := self._schemas.away(self._topic)) is not None:
            raise SchemaAway(f"its schema cannot be had: {why}")

    def _check(self, schema: "Schema", before: bytes, after: bytes) -> None:
        compiled = self._schemas.compiled(schema)
        if not compiled.is_bounded or not (problems := compiled.problems(compiled.read(after))):
            return
        if not compiled.problems(compiled.read(before)):
            fields = " or ".join(self._paths.each)
            raise FieldRefused(f"its JSON Schema limits the field {fields}, so it cannot be encrypted: {problems[0]}")


def _edited(edit: Edit, payload: bytes, indexes: tuple[int, ...] | None, change: ChangeField) -> bytes:
    try:
        return edit(payload, indexes, change)
    except PayloadError as error:
        raise NotDescribed(NO_FIT) from error
    except OverflowError:
        raise FieldRefused(TOO_MANY) from None


# By the first character; all others: number
KINDS = {"{": "object", "[": "array", "t": "boolean", "f": "boolean", '"': "string"}


def edited_json(data: bytes, paths: FieldPaths, change: ChangeField) -> bytes:
    """Return JSON with other texts at some paths; the same object if all stay. Raises NotDescribed, FieldRefused."""
    try:
        found = paths.in_json(data)
    except OverflowError:
        raise FieldRefused(TOO_MANY) from None
    if found is None:
        raise NotDescribed("the value is no JSON, and names no schema")
    parts: list[bytes] = []
    copied = 0
    for start, end, place in found:
        if start == end or data[start] not in (QUOTE, NULL):
            error = NoWayOn if start == end else OtherType
            raise error(_shown(place, paths.states), KINDS.get(chr(data[start]), "number"))
        if data[start] == NULL:
            continue
        before = data[start + 1 : end - 1]
        if b"\\" in before:
            before = json.loads(data[start:end]).encode("utf-8", "surrogatepass")
        after = change(place, before, True)
        if after is not before:
            parts += data[copied:start], _quoted(after)
            copied = end
    return b"".join((*parts, data[copied:])) if parts else data


def _quoted(text: bytes) -> bytes:
    try:
        return encode_basestring(text.decode()).encode()
    except UnicodeDecodeError:  # half of a surrogate pair: only an escape can be one
        return encode_basestring_ascii(text.decode("utf-8", "surrogatepass")).encode()


def _shown(place: Place, states: Sequence[Any]) -> str:
    """Return a place without names and indexes that no path has."""
    shown, state = "$", 0
    for step in place:
        if isinstance(step, int):
            shown += "[*]"
            state = states[state].indexes.get(step, states[state].every)
        else:
            is_named = step in states[state].names
            shown += f".{step}" if is_named else ".*"
            state = states[state].names[step] if is_named else states[state].every
    return shown
