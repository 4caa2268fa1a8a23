"""Fields of values for the filter encrypt: encrypted in batches of Produce, decrypted in those of Fetch."""

from base64 import b64encode
from collections.abc import Callable

from kproxy.encryption.batches import CannotDecrypt, CannotEncrypt, EditFields, Headers, ValueReader
from kproxy.encryption.data_keys import KeyNotYet, WritingKey
from kproxy.encryption.fields import Place, may_be_in, name_of
from kproxy.encryption.made_once import MadeOnce
from kproxy.filters.json_masks import JsonFields
from kproxy.filters.mask import parse_paths
from kproxy.filters.turns import NotYet
from kproxy.schemas.fields import FieldEditor, FieldPaths, FieldRefused, NotDescribed, SchemaAway, SchemaNotYet
from kproxy.schemas.store import Collection, Schemas


def field_paths(fields: tuple[str, ...], *, is_strict: bool = True) -> FieldPaths:
    """Return the automata of the fields of a rule. Raises ValueError."""
    states = parse_paths(fields)
    return FieldPaths(
        states, {path: parse_paths([path]) for path in fields}, JsonFields(states, is_strict).found, is_strict
    )


class RecordFields:
    """The fields of the values of one topic.

    Args:
        schemas: the sources.
        topic: its name.
        fields: their paths.
        passes: whether values whose fields cannot be found are written as they are.
    """

    def __init__(self, schemas: Schemas, topic: str, fields: tuple[str, ...], passes: bool) -> None:
        self._schemas = schemas
        self._topic = topic
        self._editor = FieldEditor(schemas, topic, field_paths(fields))
        # What other programs write, and what was written under another rule, is read as it is
        self._reader = FieldEditor(schemas, topic, field_paths(fields, is_strict=False))
        self._passes = passes

    def encrypting(self, key: WritingKey, report: Callable[[str], None]) -> EditFields:
        """Return what encrypts the fields of the values of one batch: raises CannotEncrypt; NotYet while a registry is asked.

        *report*: called for each value that is written as it is, with the reason.
        """
        seal, names = key.sealing_fields(), MadeOnce(name_of)

        def edit(record_key: bytes | None, value: bytes, headers: Headers) -> bytes:
            def change(place: Place, field: bytes, is_text: bool) -> bytes:
                sealed = seal(record_key, names[place], field, is_text)
                return b64encode(sealed) if is_text else sealed

            try:
                return self._editor.edited(value, headers, change, checks=True)
            except SchemaNotYet:
                raise NotYet from None
            except (FieldRefused, NotDescribed, SchemaAway) as error:
                if not self._passes or not isinstance(error, NotDescribed):
                    raise CannotEncrypt(str(error), is_away=isinstance(error, SchemaAway)) from None
                report(str(error))
                return value

        return edit

    def decrypting(self, reader: ValueReader, waits: Callable[[], None]) -> EditFields:
        """Return what decrypts the fields of a value. *waits*: called before KeyNotYet is raised for a schema."""
        names = MadeOnce(name_of)

        def read(record_key: bytes | None, value: bytes, headers: Headers) -> bytes:
            def change(place: Place, field: bytes, is_text: bool) -> bytes:
                return reader.read_field(record_key, field, names[place], is_text)

            try:
                return self._reader.edited(value, headers, change)
            except SchemaNotYet:
                waits()
                raise KeyNotYet from None
            except (FieldRefused, NotDescribed, SchemaAway) as error:
                if reader.accepts_plain and not may_be_in(value):
                    return value
                raise CannotDecrypt(
                    "registry away" if isinstance(error, SchemaAway) else "no schema", str(error)
                ) from None

        return read

    def problems(self) -> list[str]:
        """Return what forbids it by the schemas at hand that the topic has a schema of its own or a subject for."""
        schemas = [self._schemas.chosen.get((self._topic, "value"))]
        at_hand = (one for one in self._schemas.sources if isinstance(one, Collection))
        schemas += [source.by_subject(f"{self._topic}-value") for source in at_hand]
        found: dict[str, None] = {}
        for schema in schemas:
            try:
                if schema is not None:
                    self._editor.check(schema)
            except FieldRefused as error:
                found[str(error)] = None
            except NotDescribed as error:
                if not self._passes:
                    found[str(error)] = None
            except (SchemaAway, SchemaNotYet):
                pass  # a registry has what it refers to
        return list(found)


def topics_at_hand(schemas: Schemas) -> list[str]:
    """Return the topics for whose values there are schemas at hand."""
    subjects = (name for one in schemas.sources if isinstance(one, Collection) for name in one.subjects)
    named = [name.removesuffix("-value") for name in subjects if name.endswith("-value")]
    return sorted({*named, *(topic for topic, part in schemas.chosen if part == "value")})
