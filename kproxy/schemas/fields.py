"""Fields of values, changed by a function where they stand: texts and bytes at the paths of an automaton. All else stays.

In JSON and Avro all other bytes stay as they are; a message of Protobuf is written again. A field of another type is refused: of
Avro and Protobuf when the schema is compiled, in JSON as soon as one comes. null, and what is not there, is no field.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kproxy.errors import KproxyError, UsageError
from kproxy.schemas.formats import LEAF, PayloadError, SchemaError, SchemaType
from kproxy.schemas.framings import Headers, reframed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kproxy.schemas.store import Schema, Schemas

MOST_EDITORS = 1_000
Place = tuple[str | int, ...]  # names of members, keys of maps, indexes of items
# The place of a field, its text in UTF-8 or its bytes, and whether it is a text -> the same of the field in its place
ChangeField = Callable[[Place, bytes, bool], bytes]
Edit = Callable[[bytes, tuple[int, ...] | None, ChangeField], bytes]  # payload, message indexes -> payload


class FieldPaths(NamedTuple):
    """Paths, and automata of them (kproxy.filters.mask.parse_paths)."""

    states: Sequence[Any]  # of all together
    each: Mapping[str, Sequence[Any]]  # by the text of each path


class FieldRefused(SchemaError):
    """A field that cannot be changed."""


class OtherType(FieldRefused):
    """A field of a type that cannot be changed."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"the field {path} is of the type {kind}: only texts and bytes can be encrypted")


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

    def edited(self, value: bytes, headers: Headers, change: ChangeField, *, checks: bool = False) -> bytes:
        """Return a value with other fields; the same object if all stay.

        Args:
            value, headers: of a record.
            change: returns the same object for a field that stays.
            checks: whether a value that fits its JSON Schema has to fit it afterwards; else FieldRefused is raised.

        Raises FieldRefused, NotDescribed, SchemaAway, SchemaNotYet.
        """
        located = self._schemas.locate(value, self._topic, "value", headers)
        if located is None:
            return edited_json(value, self._paths.states, change) if value else value
        schema = located.schema
        if schema is None:
            self._raise_unless_answered()
            raise NotDescribed("no source has the schema of the value")
        edit = self._edit_of(schema)
        try:
            indexes, start = located.indexes()
            payload = located.payload[start:]
            edited = edit(payload, indexes, change)
        except PayloadError as error:
            raise NotDescribed("the value does not fit its schema") from error
        if edited is payload:
            return value
        if checks and schema.type == SchemaType.JSON:
            self._check(schema, payload, edited)
        return reframed(value, located.framed, located.payload[:start] + edited)

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


SPACE = re.compile(r"[ \t\n\r]*").match
scan_value: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
KINDS = {bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}


def edited_json(data: bytes, states: Sequence[Any], change: ChangeField) -> bytes:
    """Return JSON with other texts at some paths; the same object if all stay. Raises NotDescribed, FieldRefused."""
    try:
        document = _Document(data.decode(), states, change)
        return data if not document.read() else document.written()
    except (ValueError, StopIteration, IndexError, RecursionError):
        raise NotDescribed("the value is no JSON, and names no schema") from None


class _Document:
    """JSON that is read once, from left to right, where a path leads; all other values are skipped."""

    def __init__(self, text: str, states: Sequence[Any], change: ChangeField) -> None:
        self._text = text
        self._states = states
        self._change = change
        self._parts: list[str] = []
        self._copied = 0  # what is before this is in the parts, or was replaced

    def read(self) -> bool:
        """Return whether a field was changed. Raises ValueError, StopIteration, IndexError if it is no object or array."""
        begin = self._space(1 if self._text.startswith("\ufeff") else 0)
        if self._text[begin] not in "{[":
            raise ValueError("no object or array")
        end = self._space(self._value(begin, 0, (), "$"))
        if end != len(self._text):
            raise ValueError("more behind the value")
        return bool(self._parts)

    def written(self) -> bytes:
        return "".join((*self._parts, self._text[self._copied :])).encode()

    def _space(self, at: int) -> int:
        match = SPACE(self._text, at)
        assert match is not None
        return match.end()

    def _value(self, at: int, state: int | None, place: Place, shown: str) -> int:
        """Read a value; return where it ends. *shown*: its place, without names and indexes that no path has."""
        if state is not None and state != LEAF and self._text[at] in "{[":
            return (self._object if self._text[at] == "{" else self._array)(at + 1, self._states[state], place, shown)
        value, end = scan_value(self._text, at)
        if state != LEAF or value is None:
            return int(end)
        if not isinstance(value, str):
            raise OtherType(shown, KINDS[type(value)])
        before = value.encode("utf-8", "surrogatepass")
        after = self._change(place, before, True)
        if after is not before:
            text = after.decode("utf-8", "surrogatepass")
            is_plain = not any("\ud800" <= one <= "\udfff" for one in text)
            self._parts += (self._text[self._copied : at], json.dumps(text, ensure_ascii=not is_plain))
            self._copied = end
        return int(end)

    def _object(self, at: int, state: Any, place: Place, shown: str) -> int:
        at = self._space(at)
        if self._text[at] == "}":
            return at + 1
        while True:
            if self._text[at] != '"':
                raise ValueError("no name")
            name, at = scan_value(self._text, at)
            at = self._expect(self._space(at), ":")
            is_named = name in state.names
            below = state.names[name] if is_named else state.every
            at = self._space(self._value(at, below, (*place, name), f"{shown}.{name}" if is_named else f"{shown}.*"))
            if self._text[at] == "}":
                return at + 1
            at = self._expect(at, ",")

    def _array(self, at: int, state: Any, place: Place, shown: str) -> int:
        at, index = self._space(at), 0
        if self._text[at] == "]":
            return at + 1
        while True:
            below = state.indexes.get(index, state.every)
            at = self._space(self._value(at, below, (*place, index), f"{shown}[*]"))
            if self._text[at] == "]":
                return at + 1
            at, index = self._expect(at, ","), index + 1

    def _expect(self, at: int, character: str) -> int:
        if self._text[at] != character:
            raise ValueError(f"no {character}")
        return self._space(at + 1)
