"""Keys and values as their schemas describe them, for everything that shows records."""

from collections import Counter
from typing import Any, NamedTuple

from kproxy.encryption.fields import may_be_in
from kproxy.encryption.reading import NO_SERVICE
from kproxy.errors import KproxyError
from kproxy.protocol.embedded.viewers import MOST_DEPTH, MOST_SHOWN, Content, JsonViewer, Viewers, without_secrets
from kproxy.schemas.formats import PayloadError, SchemaType
from kproxy.schemas.framings import attributes
from kproxy.schemas.kinds import Kind, agreed
from kproxy.schemas.store import TOPICS_OF_REGISTRIES, Id, Located, Schema, Schemas

UNKNOWN = "no schema with this id is known"
NO_INDEXES = (
    "no message indexes before the payload, as KafkaJS writes Protobuf: deserializers of Java and librdkafka fail on it"
)
MOST_SEEN = 10_000


def make_viewers(schemas: Schemas | None = None) -> Viewers:
    """Return the viewers of records: decrypted, then by schema, as JSON, text or hex. *schemas*: None for the traffic's."""
    viewers, schemas = Viewers(), schemas or Schemas()
    viewers.add(SchemaViewer(schemas))
    viewers.decrypt, viewers.decrypt_key = schemas.keys.decrypt, schemas.keys.decrypt_key
    viewers.decrypt_field, viewers.may_have_fields = schemas.keys.decrypt_field, may_be_in
    return viewers


class Seen(NamedTuple):
    """What one record said of its schema."""

    topic: str | None
    part: str
    framing: str | None
    id: int | str | None
    schema: Schema | None
    problem: str | None


class SchemaViewer:
    """Shows what a schema describes.

    ``framing`` (null: none, the topic's schema was given), ``id``, and what is known of the schema: ``subject``, ``version``,
    ``type``; ``event`` has the attributes of a CloudEvent around it. Then ``value``, in which fields named like a secret are
    withheld. ``problem`` says what a value breaks of its JSON Schema, or why there is no value: then the payload is ``json`` or
    ``hex``. ``fits`` is false where the schema is known and does not describe the payload.
    """

    name = "schema"

    @staticmethod
    def of(viewers: Viewers | None) -> "SchemaViewer":
        """Return the viewer of schemas among others."""
        return next(one for one in (viewers.viewers if viewers is not None else ()) if isinstance(one, SchemaViewer))

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.seen: Counter[Seen] = Counter()
        self._messages: dict[tuple[str | None, Schema], set[tuple[int, ...] | None]] = {}  # of values of Protobuf

    def view(self, data: bytes, content: Content) -> object | None:
        """Return the value, or None without a framing and a schema of the topic."""
        if content.topic in TOPICS_OF_REGISTRIES:
            self.schemas.learn(data, content)
            return None
        located = self.schemas.locate(data, content.topic, content.part, content.headers)
        if located is None:
            return None
        framed, schema = located.framed, located.schema
        shown: dict[str, Any] = {"framing": None if framed is None else str(framed.framing)}
        if framed is not None or (schema is not None and schema.id is not None):
            shown["id"] = _id_of(located)
        if framed is not None and framed.in_event:
            shown["event"] = without_secrets(attributes(data))
        if schema is not None:
            return self._read(located, schema, shown, content)
        away = self.schemas.away(content.topic)
        problem = UNKNOWN if away is None else f"{UNKNOWN}: {away}"
        self._count(located, content, problem)
        return {**shown, "problem": problem, **_undescribed(located.payload, content)}

    def _read(self, located: Located, schema: Schema, shown: dict[str, Any], content: Content) -> dict[str, Any]:
        shown |= {"subject": schema.subject, "version": schema.version, "type": schema.type}
        try:
            read, broken = self.schemas.read(located)
            value = without_secrets(read)
        except (KproxyError, ValueError, RecursionError) as error:
            problem = str(error) or f"a value of more than {MOST_DEPTH} levels"
            if (found := self._without_indexes(located, schema)) is not None:
                self._count(located, content, NO_INDEXES)
                return {**shown, "value": found, "fits": False, "problem": NO_INDEXES}
            self._count(located, content, problem)
            fits = {"fits": False} if not isinstance(error, KproxyError) or isinstance(error, PayloadError) else {}
            return {**shown, **fits, "problem": problem, **_undescribed(located.payload, content)}
        shown["value"] = value
        if schema.type == SchemaType.PROTOBUF and content.part == "value" and len(self._messages) < MOST_SEEN:
            self._messages.setdefault((content.topic, schema), set()).add(located.indexes()[0])
        if broken:
            shown |= {"fits": False, "problem": f"the value is not valid: {'; '.join(broken)}"}
        self._count(located, content, shown.get("problem"))
        return shown

    def _without_indexes(self, located: Located, schema: Schema) -> object | None:
        """Return the value of Protobuf without message indexes in front; None if that is not what it is.

        Both cannot be: up to three indexes begin with a byte that would be field number 0.
        """
        if schema.type != SchemaType.PROTOBUF or located.framed is None or not located.framed.has_indexes:
            return None
        try:
            value: object = without_secrets(self.schemas.compiled(schema).read(located.payload, (0,)))
            return value
        except (KproxyError, ValueError, RecursionError):
            return None

    def _count(self, located: Located, content: Content, problem: str | None) -> None:
        framing = None if located.framed is None else located.framed.framing
        seen = Seen(content.topic, content.part, framing, _id_of(located), located.schema, problem)
        if seen in self.seen or len(self.seen) < MOST_SEEN:
            self.seen[seen] += 1

    def kinds(self, topic: str) -> dict[str, Kind]:
        """Return the types in SQL of fields of a topic's values, where all its schemas agree."""
        values = {one.schema for one in self.seen if (one.topic, one.part, one.problem) == (topic, "value", None)}
        found = [
            self.schemas.compiled(schema).kinds(indexes)
            for schema in values
            if schema is not None
            for indexes in self._messages.get((topic, schema), {None})
        ]
        return agreed(found)

    def rows(self) -> list[dict[str, Any]]:
        """Return what was seen so far: a row for each topic, part, schema and problem."""
        return [
            {
                "topic": one.topic,
                "part": one.part,
                "framing": one.framing,
                "id": one.id,
                "subject": one.schema and one.schema.subject,
                "version": one.schema and one.schema.version,
                "type": one.schema and one.schema.type,
                "records": count,
                "problem": one.problem,
            }
            for one, count in sorted(self.seen.items(), key=lambda item: tuple(map(str, item[0])))
        ]

    def needed(self) -> list[Schema]:
        """Return the schemas that were used, and those that they refer to."""
        needed: dict[Schema, None] = {}
        for schema in (one.schema for one in self.seen if one.schema is not None):
            needed.update(dict.fromkeys((*self.schemas.needed(schema), schema)))
        return list(needed)


def why_no_objects(count: int, encrypted: int, problem: str | None) -> str:
    """Return why no value of a topic is an object in JSON.

    Args:
        count: its records.
        encrypted: those whose values are still encrypted.
        problem: why they are.
    """
    if not count:
        return "there is no record of this topic"
    if encrypted:
        why = problem or NO_SERVICE
        return f"{encrypted:,} of its {count:,} values are encrypted, and no other is an object: {why}"
    return "no value of this topic could be read as an object; see kproxy help schemas"


def _id_of(located: Located) -> Id | None:
    holder = located.schema if located.framed is None else located.framed
    known = None if holder is None else holder.id
    return int(known) if isinstance(known, int) else known  # a global id is shown as a number


def _undescribed(payload: bytes, content: Content) -> dict[str, Any]:
    document = JsonViewer().view(payload, content)
    return {"hex": payload[:MOST_SHOWN].hex()} if document is None else {"json": document}
