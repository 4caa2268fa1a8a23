"""Schemas by id, subject and topic: asked of sources in turn, compiled once, and remembered when no source has them."""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from kproxy.encryption.reading import OutputKeys
from kproxy.errors import KproxyError
from kproxy.protocol.embedded.viewers import Content
from kproxy.schemas.fingerprints import FINGERPRINT, Fingerprints
from kproxy.schemas.formats import Compiled, PayloadError, SchemaError, SchemaType, Substitutes, compile_schema
from kproxy.schemas.framings import Framed, GlobalId, Headers, find_framing, message_indexes, reframed
from kproxy.schemas.journal import JOURNAL_TOPIC, Journal

MOST_SCHEMAS = 10_000
SCHEMAS_S = 2.0  # so long a filter keeps a message waiting for schemas that have to be asked for
MOST_REFERENCES = 256  # of a schema, with those of its references
MOST_MISSING = 10_000
MOST_SUBJECTS = 1_000  # of a schema
TOPICS_OF_REGISTRIES = (
    "_schemas",
    JOURNAL_TOPIC,
)  # in which they keep their schemas; the first is Confluent's kafkastore.topic
Id = int | str


class MissingReference(SchemaError):
    """A schema that another one needs, and that no source has now."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema names."""

    name: str  # under which the schema names it: a full name in Avro, a path in Protobuf, a URI in JSON Schema
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema, as a source has it."""

    text: str
    type: str = SchemaType.AVRO
    id: Id | None = None
    subject: str | None = None
    version: int | None = None
    references: tuple[Reference, ...] = ()
    source: str | None = None  # the registry whose subjects its references are
    subjects: tuple[str, ...] = ()  # all under which it is registered, as far as a source says
    message: str | None = None  # of a .proto file, where payloads do not say which one they are; None: the first

    def is_of(self, subject: str) -> bool:
        """Return whether it is registered under a subject, or under none that is known."""
        return self.subject is None or subject == self.subject or subject in self.subjects


class Located(NamedTuple):
    """A key or value, and what describes it."""

    data: bytes
    framed: Framed | None  # None: without a framing, the topic's schema was given
    schema: Schema | None  # None: no source has it

    @property
    def payload(self) -> bytes:
        """Return what the schema describes; Protobuf's message indexes may be in front."""
        return self.data if self.framed is None else self.framed.payload

    def indexes(self) -> tuple[tuple[int, ...] | None, int]:
        """Return which message of a .proto file it is, None if that is not said, and where it begins. Raises PayloadError."""
        if self.framed is None or not self.framed.has_indexes or self.schema is None:
            return None, 0
        if self.schema.type != SchemaType.PROTOBUF:
            return None, 0
        try:
            return message_indexes(self.payload)
        except ValueError as error:
            raise PayloadError(str(error)) from error


class Source(Protocol):
    """Somewhere schemas come from. Its answers are bounded in time and size, and it never raises."""

    name: str  # for messages

    @property
    def fault(self) -> str | None:
        """Return why it could not be asked the last time."""

    @property
    def is_asked(self) -> bool:
        """Whether an answer is still to come."""

    def serves(self, topic: str | None) -> bool:
        """Return whether it has schemas of a topic."""

    def by_id(self, schema_id: Id, topic: str | None) -> Schema | None:
        """Return the schema with an id, or None."""

    def by_subject(self, subject: str, version: int | None = None) -> Schema | None:
        """Return a version of a subject, the newest for None, or None."""


def schema_of(fields: Mapping[str, Any], **known: Any) -> Schema:
    """Return the schema of an answer of a registry, or of a value in its topic. Raises ValueError for other JSON."""
    references = tuple(
        Reference(str(one["name"]), str(one["subject"]), int(one["version"])) for one in fields.get("references") or ()
    )
    subject, version, schema_id = fields.get("subject"), fields.get("version"), fields.get("id")
    if not (
        isinstance(subject, str | None) and isinstance(version, int | None) and isinstance(schema_id, int | str | None)
    ):
        raise ValueError("a subject, version or id of another type")
    if isinstance(schema_id, int) and fields.get("isGlobalId"):
        schema_id = GlobalId(schema_id)
    own = {"subject": subject, "version": version, "id": schema_id} | known
    return Schema(str(fields["schema"]), str(fields.get("schemaType") or SchemaType.AVRO), references=references, **own)


@dataclass
class Collection:
    """Schemas that are at hand: of a folder, or of the traffic."""

    name: str
    fault: str | None = None
    is_asked: bool = False
    ids: dict[Id, Schema] = field(default_factory=dict)
    subjects: dict[str, dict[int, Schema]] = field(default_factory=dict)

    def add(self, schema: Schema) -> None:
        """Add a schema by its id and subject; beyond MOST_SCHEMAS none."""
        if len(self.ids) >= MOST_SCHEMAS or len(self.subjects) >= MOST_SCHEMAS:
            return
        if schema.id is not None:
            self.ids[schema.id] = _with_subjects_of(schema, self.ids.get(schema.id))
        if schema.subject is not None:
            self.subjects.setdefault(schema.subject, {})[schema.version or 0] = schema

    def serves(self, topic: str | None) -> bool:
        return True

    def by_id(self, schema_id: Id, topic: str | None) -> Schema | None:
        """Return the schema with an id. A file that is named by a number is also that of the global id."""
        found = self.ids.get(schema_id)
        return self.ids.get(int(schema_id)) if found is None and isinstance(schema_id, GlobalId) else found

    def by_subject(self, subject: str, version: int | None = None) -> Schema | None:
        """Return the schema of a subject at *version* (None: its newest), or None if there is none."""
        versions = self.subjects.get(subject, {})
        return versions.get(version) if version is not None else versions[max(versions)] if versions else None


def _with_subjects_of(schema: Schema, before: Schema | None) -> Schema:
    """Return a schema with the subjects under which another row of its source had the same id."""
    if before is None or len(before.subjects) >= MOST_SUBJECTS:
        return schema
    names = {*before.subjects, *(name for name in (before.subject, schema.subject) if name is not None)}
    return replace(schema, subjects=tuple(sorted(names)))


class Schemas:
    """All sources together.

    Args:
        sources: in the order in which they are asked; what is in the traffic comes before them.
        chosen: (topic, "key" or "value") -> the schema of all its records, framed or not.
        keys: decrypt values before their schemas are looked for.
    """

    def __init__(
        self,
        sources: Sequence[Source] = (),
        chosen: Mapping[tuple[str, str], Schema] | None = None,
        keys: OutputKeys | None = None,
    ) -> None:
        self.keys = keys or OutputKeys()
        self.seen = Collection("the traffic")
        self.sources: list[Source] = [self.seen, *sources]
        self.chosen = dict(chosen or {})
        self._fingerprints = Fingerprints()
        self._journal = Journal()
        self._compiled: OrderedDict[Schema, Compiled | KproxyError] = OrderedDict()

    @property
    def is_configured(self) -> bool:
        """Return whether there are sources other than the traffic."""
        return bool(self.chosen) or len(self.sources) > 1

    @property
    def faults(self) -> list[str]:
        """Return a sentence for each source that could not be asked."""
        return [source.fault for source in self.sources if source.fault is not None]

    def away(self, topic: str | None) -> str | None:
        """Return why some source of a topic could not be asked the last time; None: all of them answered."""
        return next((one.fault for one in self.sources if one.fault is not None and one.serves(topic)), None)

    def is_asked(self, topic: str | None) -> bool:
        """Return whether an answer about a topic is still to come."""
        return any(source.is_asked and source.serves(topic) for source in self.sources)

    def find(self, schema_id: Id, topic: str | None) -> Schema | None:
        """Return the schema with an id, or None if no source has it. Fingerprints are those of schemas at hand."""
        if isinstance(schema_id, str) and FINGERPRINT.fullmatch(schema_id):
            return self._fingerprints.find(schema_id, self._at_hand())
        return next((found for source in self.sources if (found := source.by_id(schema_id, topic)) is not None), None)

    def _at_hand(self) -> Iterator[Schema]:
        for source in self.sources:
            if isinstance(source, Collection):
                yield from source.ids.values()
                for versions in source.subjects.values():
                    yield from versions.values()
        yield from self.chosen.values()

    def subject(self, subject: str, version: int | None = None, source: str | None = None) -> Schema | None:
        """Return a version of a subject, the newest for None; None if no source has it. *source* is asked before others."""
        sources = sorted(self.sources, key=lambda one: one.name != source)
        answers = (one.by_subject(subject, version) for one in sources)
        return next((found for found in answers if found is not None), None)

    def learn(self, data: bytes, content: Content) -> None:
        """Take the schema of a record of a topic in which registries keep them; other keys and values are ignored."""
        try:
            if content.topic == JOURNAL_TOPIC:
                fields = self._of_journal(data, content)
            else:
                fields = json.loads(data) if content.part == "value" else {}
            if "schema" in fields and not fields.get("deleted"):
                self.seen.add(schema_of(fields))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return

    def _of_journal(self, data: bytes, content: Content) -> dict[str, Any]:
        if content.offset is None:
            return {}
        if content.part == "key":
            self._journal.see_key(content.offset, data)
            return {}
        return self._journal.schema(content.offset, data) or {} if content.part == "value" else {}

    def compiled(self, schema: Schema) -> Compiled:
        """Return what reads payloads of a schema. Raises SchemaError, and UsageError if a library is missing."""
        known = self._compiled.get(schema)
        if known is None:
            try:
                known = compile_schema(schema.type, schema.text, self._references(schema), schema.message)
            except MissingReference:  # a source may have it later
                raise
            except KproxyError as error:  # a schema that is none, or a library that is not installed
                known = error
            self._compiled[schema] = known
            if len(self._compiled) > MOST_SCHEMAS:
                self._compiled.popitem(last=False)
        if isinstance(known, KproxyError):
            raise known
        return known

    def locate(self, data: bytes, topic: str | None, part: str = "value", headers: Headers = ()) -> Located | None:
        """Return a key or value with its schema; None if it names none, and its topic has none of its own.

        Everything that reads contents of records by their schemas comes through here.
        """
        framed = find_framing(data, part, headers)
        schema = self.chosen.get((topic or "", part)) if self.chosen else None
        if schema is None and framed is None:
            return None
        if schema is None and framed is not None:
            schema = self.find(framed.id, topic)
        return Located(data, framed, schema)

    def read(self, located: Located) -> tuple[object, list[str]]:
        """Return the value of a payload whose schema is known, and what it breaks of the schema.

        Raises PayloadError if the payload is not what the schema describes, and what ``compiled`` raises.
        """
        assert located.schema is not None
        compiled = self.compiled(located.schema)
        indexes, start = located.indexes()
        value = compiled.read(located.payload[start:], indexes)
        return value, compiled.problems(value) if compiled.is_bounded else []

    def write(self, located: Located, value: object, *, is_like: bool = True) -> bytes:
        """Return the key or value with another value, in the same framing.

        *is_like*: the value was made of the one that is there (``Compiled.write``). Raises ValueMismatch if the schema has no
        place for the value, and what ``read`` raises.
        """
        assert located.schema is not None
        indexes, start = located.indexes()
        like = located.payload[start:] if is_like else None
        payload = self.compiled(located.schema).write(value, like, indexes)
        return reframed(located.data, located.framed, located.payload[:start] + payload)

    def substituted(self, located: Located, substitutes: Substitutes) -> bytes:
        """Return the key or value with substitutes for all values in it, in the same framing. Raises what ``read`` raises."""
        assert located.schema is not None
        indexes, start = located.indexes()
        payload = self.compiled(located.schema).substituted(located.payload[start:], indexes, substitutes)
        return reframed(located.data, located.framed, located.payload[:start] + payload)

    def is_compiled(self, schema: Schema) -> bool:
        """Return whether ``compiled`` answers at once: to compile a schema may take seconds."""
        return schema in self._compiled

    def needed(self, schema: Schema) -> list[Schema]:
        """Return the schemas that a schema refers to, as far as sources have them."""
        needed: dict[Reference, Schema] = {}
        with suppress(SchemaError):
            self._add_needed(schema, (), needed)
        return list(needed.values())

    def _references(self, schema: Schema) -> dict[str, str]:
        """Return the texts of all schemas that a schema needs, those first on which others rest. Raises SchemaError."""
        needed: dict[Reference, Schema] = {}
        self._add_needed(schema, (), needed)
        texts: dict[str, str] = {}
        for reference, other in needed.items():
            texts.setdefault(reference.name, other.text)
        return texts

    def _add_needed(self, schema: Schema, inside: tuple[Reference, ...], needed: dict[Reference, Schema]) -> None:
        """Add what a schema refers to, each once, and before it what that refers to."""
        for reference in schema.references:
            if reference in needed:
                continue
            if reference in inside:
                raise SchemaError(
                    f"a circle of references: {reference.subject} version {reference.version} refers to itself"
                )
            if len(inside) + len(needed) >= MOST_REFERENCES:
                raise SchemaError(f"more than {MOST_REFERENCES} references")
            other = self.subject(reference.subject, reference.version, schema.source)
            if other is None:
                raise MissingReference(
                    f"it refers to {reference.subject} version {reference.version}, which no source has"
                )
            self._add_needed(other, (*inside, reference), needed)
            needed[reference] = other
