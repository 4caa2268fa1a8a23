"""Read Kafka's message definitions, which are in a dialect of JSON, into Message and Field.

The dialect, as in released jars: ``//`` and ``/* */`` comments; numbers and booleans as strings, some in hexadecimal; the string
"null" for a null default, while JSON's null means "no default"; tagged fields without ``versions``; ``validVersions`` "none"
without any fields; text behind the definition (2.8's DescribeProducersRequest); structs defined in "commonStructs" or by an
earlier field.
Source: MessageSpec, FieldSpec, StructRegistry of Kafka's message generator.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from kproxy.protocol.versions import Versions

# Strings are matched first, so that slashes in them do not begin a comment.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_INTEGERS = ("int8", "int16", "int32", "int64", "uint16", "uint32")

Definition = dict[str, Any]  # a JSON object


@dataclass(frozen=True, slots=True)
class Field:
    """One field, at all versions of its message."""

    name: str
    type: str  # Kafka's word: int32, []int32, TopicData, []TopicData
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None  # as in facts.txt; None for the type's natural default (0, false, "", empty)
    ignorable: bool
    never_flexible: bool
    is_key: bool
    entity: str | None
    fields: tuple["Field", ...]

    @property
    def is_struct(self) -> bool:
        """Whether it, or each of its elements, is a struct."""
        return self.type.removeprefix("[]")[0].isupper()


@dataclass(frozen=True, slots=True)
class Message:
    """The definition of one message in one release."""

    name: str
    type: str  # request, response, header, data, metadata, coordinator-key, coordinator-value
    number: int | None  # api key of a request or response, else type number of a record
    module: str
    release: str
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    latest_unstable: bool
    fields: tuple[Field, ...]

    @property
    def is_api(self) -> bool:
        """Whether it is a request or a response."""
        return self.type in {"request", "response"}


def parse_message(text: str, *, module: str, release: str) -> Message:
    """Read one definition. Raises ValueError for anything else, KeyError for a missing key."""
    definition = parse_json(text)
    structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    return Message(
        name=definition["name"],
        type=definition["type"],
        number=definition.get("apiKey"),
        module=module,
        release=release,
        versions=Versions.parse(definition["validVersions"]),
        flexible=Versions.parse(definition.get("flexibleVersions", "none")),
        listeners=tuple(definition.get("listeners", ())),
        latest_unstable=bool(definition.get("latestVersionUnstable", False)),
        fields=tuple(_field(field, structs) for field in definition.get("fields", ())),
    )


def parse_json(text: str) -> Definition:
    """Parse JSON with comments; text behind the first value is ignored."""
    plain = _COMMENT.sub(lambda match: match[1] or " ", text).lstrip()
    value, _ = json.JSONDecoder().raw_decode(plain)
    if not isinstance(value, dict):
        raise ValueError(f"a definition must be a JSON object, not {plain[:20]!r}")
    return value


def _field(field: Definition, structs: dict[str, list[Definition]]) -> Field:
    tagged = Versions.parse(field.get("taggedVersions", "none"))
    return Field(
        name=field["name"],
        type=field["type"],
        versions=Versions.parse(field["versions"]) if "versions" in field else tagged,
        nullable=Versions.parse(field.get("nullableVersions", "none")),
        tag=int(field["tag"]) if "tag" in field else None,
        tagged=tagged,
        default=_default(field.get("default"), field["type"]),
        ignorable=_is_true(field.get("ignorable")),
        never_flexible=field.get("flexibleVersions") == "none",
        is_key=_is_true(field.get("mapKey")),
        entity=field.get("entityType"),
        fields=_children(field, structs),
    )


def _children(field: Definition, structs: dict[str, list[Definition]]) -> tuple[Field, ...]:
    kind = field["type"].removeprefix("[]")
    if not kind[0].isupper():
        return ()
    if "fields" in field:
        structs[kind] = field["fields"]
    return tuple(_field(child, structs) for child in structs[kind])


def _default(value: object, kind: str) -> str | None:
    """Return the text of a default that differs from the type's natural one (0, false, "", empty); else None."""
    if value is None:
        return None
    if value == "null":
        return "null"
    if kind in _INTEGERS:
        number = int(value, 0) if isinstance(value, str) else int(str(value))
        return str(number) if number else None
    if kind == "float64":
        return repr(float(str(value))) if float(str(value)) else None
    if kind == "bool":
        return "true" if _is_true(value) else None
    if kind == "string":
        return json.dumps(value) if value else None
    raise ValueError(f"a default of {value!r} for {kind} is not something that Kafka's generator accepts")


def _is_true(value: object) -> bool:
    return value is True or value == "true"
