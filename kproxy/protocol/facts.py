"""Read facts.txt: every message, field, version and error code that Kafka's jars define.

The file is split into blocks at first use, and each block is parsed when its message is needed, so a command that needs ten
messages does not pay for two hundred.
"""

import functools
import json
import pkgutil
import sys
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.versions import Versions

Row: TypeAlias = tuple[int, str] | None  # indent and text of a line; None after the last
TYPE_DEFAULTS: dict[str, object] = {"string": "", "bytes": b"", "bool": False, "float64": 0.0, "records": None}
NONE = Versions()


class Field(Struct, frozen=True):
    """One field of a struct, at all its versions."""

    name: str  # as in Kafka's definition
    json_name: str  # its key in Kafka's JSON
    attribute: str  # its name in Python
    type: str  # Kafka's word, without the brackets of an array
    is_array: bool
    versions: Versions
    nullable: Versions = NONE
    tag: int | None = None
    tagged: Versions = NONE
    default: object = None  # as a Python value; None is null
    ignorable: bool = False
    never_flexible: bool = False  # field-level "flexibleVersions": "none"; only RequestHeader.ClientId (KIP-511)
    is_key: bool = False
    entity: str | None = None
    fields: tuple["Field", ...] = ()

    @property
    def is_struct(self) -> bool:
        """Whether it, or each of its elements, is a struct."""
        return self.type[0].isupper()

    @property
    def type_text(self) -> str:
        """Its type as Kafka writes it, ``[]int32`` for an array."""
        return f"[]{self.type}" if self.is_array else self.type


class Layout(Struct, frozen=True):
    """The layout of a message at the versions of one release."""

    name: str
    type: str  # request, response, header, data, metadata, coordinator-key ...
    api_key: int | None
    record_id: int | None  # type number of a record of an internal topic
    module: str  # the jar that defines it
    release: str  # the jar's Kafka release
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


class Api(Struct, frozen=True):
    """One API: a request and its response."""

    key: int
    name: str
    listeners: tuple[str, ...]
    versions: Versions
    unstable: Versions


class ErrorFact(Struct, frozen=True):
    """One error code."""

    code: int
    name: str
    retriable: bool


class Facts:
    """The contents of facts.txt; messages are parsed when needed."""

    def __init__(self, text: str) -> None:
        self.apis: dict[int, Api] = {}
        self.errors: list[ErrorFact] = []
        self.kafka_releases: tuple[str, ...] = ()
        self.spoken: dict[str, dict[int, Versions]] = {}  # release -> api key -> versions; from 3.5 on
        self._blocks: dict[str, list[str]] = {}  # as text: a line for itself would take three times the memory
        top, *blocks = f"\n{text}".split("\nmessage ")
        for block in blocks:
            self._blocks.setdefault(block.split(" ", 1)[0], []).append(block)
        for line in top.splitlines():
            self._top_line(line.split(" "))

    def _top_line(self, words: list[str]) -> None:
        if words[0] == "error":
            self.errors.append(ErrorFact(int(words[1]), words[2], words[3] == "retriable"))
        elif words[0] == "api":
            options = dict(word.split("=", 1) for word in words[3:])
            self.apis[int(words[1])] = Api(
                key=int(words[1]),
                name=words[2],
                listeners=tuple(options["listeners"].split(",")),
                versions=Versions.parse(options["versions"]),
                unstable=Versions.parse(options.get("unstable", "none")),
            )
        elif words[0] == "speaks":
            pairs = (word.split("=") for word in words[2:])
            self.spoken[words[1]] = {int(key): Versions.parse(versions) for key, versions in pairs}
        elif words[0] == "releases":
            self.kafka_releases = tuple(words[1:])

    def messages(self) -> list[str]:
        return list(self._blocks)

    def mentions(self, name: str, text: str) -> bool:
        """Return whether a line of the message has this text, without reading its fields. Raises KeyError."""
        return any(text in block for block in self._blocks[name])

    def flexible(self, name: str) -> Versions:
        """Return the flexible versions of a message, without reading its fields. Raises KeyError."""
        return Versions.parse(_option(self._blocks[name][0], "flexible"))

    def versions(self, name: str) -> Versions:
        """Return all versions of a message, without reading its fields. Raises KeyError."""
        return Versions.union(Versions.parse(_option(block, "versions")) for block in self._blocks[name])

    @functools.cache  # noqa: B019 - one Facts lives as long as the process
    def layouts(self, name: str) -> tuple[Layout, ...]:
        """Return the layouts of a message, newest first; several if a version was changed in place. Raises KeyError."""
        return tuple(map(_parse_layout, self._blocks[name]))


@functools.cache
def facts() -> Facts:
    return Facts(read_data_file("facts.txt"))


@functools.cache
def releases() -> dict[tuple[int, int], str]:
    """Return (api_key, api_version) -> the Kafka release that introduced it, if a published reference says so."""
    lines = (line.split() for line in read_data_file("releases.txt").splitlines() if not line.startswith("#"))
    found = ((int(key), word.split(":")) for key, *words in lines for word in words)
    return {(key, version): release for key, (versions, release) in found for version in Versions.parse(versions)}


def snake_case(name: str) -> str:
    """Convert a name: ``TransactionalId`` to ``transactional_id``, ``KRaftVersion`` to ``kraft_version``."""
    name = name.replace("KRaft", "Kraft")
    out = [name[0].lower()]
    for before, char, after in zip(name[:-1], name[1:], name[2:] + " ", strict=False):
        if char.isupper() and (not before.isupper() or after.islower()):
            out.append("_")
        out.append(char.lower())
    return "".join(out)


def _option(block: str, name: str) -> str:
    """Return an option of a message's first line."""
    return block.split("\n", 1)[0].split(f" {name}=", 1)[1].split(" ", 1)[0]


def _parse_layout(block: str) -> Layout:
    first, *lines = block.splitlines()
    message, *words = first.split(" ")
    options = dict(word.split("=", 1) for word in words)
    rows = iter([(len(line) - len(line.lstrip(" ")), line.strip()) for line in lines])
    fields, _ = _parse_fields(rows, 2, next(rows, None))
    return Layout(
        name=message,
        type=options["type"],
        api_key=int(options["api"]) if "api" in options else None,
        record_id=int(options["id"]) if "id" in options else None,
        module=options["module"],
        release=options["release"],
        versions=Versions.parse(options["versions"]),
        flexible=Versions.parse(options["flexible"]),
        fields=fields,
    )


def _parse_fields(rows: Iterator[tuple[int, str]], indent: int, row: Row) -> tuple[tuple[Field, ...], Row]:
    """Return the fields at *indent*, beginning with *row*, and the first row behind them."""
    fields: list[Field] = []
    while row is not None and row[0] == indent:
        text = row[1]
        children, row = _parse_fields(rows, indent + 2, next(rows, None))
        fields.append(_parse_field(text, children))
    return tuple(fields), row


def _parse_field(text: str, children: tuple[Field, ...]) -> Field:
    name, kind, versions, *rest = text.split(" ", 3)
    name, kind = sys.intern(name), sys.intern(kind)
    options = _parse_options(rest[0] if rest else "")
    is_array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    return Field(
        name=name,
        json_name=sys.intern(name[0].lower() + name[1:]),
        attribute=sys.intern(snake_case(name)),
        type=kind,
        is_array=is_array,
        versions=Versions.parse(versions),
        nullable=Versions.parse(options.get("nullable") or "none"),
        tag=int(options["tag"] or "") if "tag" in options else None,
        tagged=Versions.parse(options.get("tagged") or "none"),
        default=_parse_default(options.get("default"), "array" if is_array else kind),
        ignorable="ignorable" in options,
        never_flexible="flexible" in options,
        is_key="key" in options,
        entity=options.get("entity"),
        fields=children,
    )


def _parse_options(text: str) -> dict[str, str | None]:
    options: dict[str, str | None] = {}
    for word in text.split(" ") if text else ():
        name, equals, value = word.partition("=")
        options[name] = value if equals else None
    return options


def _parse_default(text: str | None, kind: str) -> object:
    """Return the default as a Python value; () for arrays and structs, whose empty value is created for each use."""
    if text == "null":
        return None
    if text is not None:
        return json.loads(text)
    if kind == "uuid":
        return ZERO_UUID
    if kind == "array" or kind[0].isupper():
        return ()
    return TYPE_DEFAULTS.get(kind, 0)


def read_data_file(name: str) -> str:
    """Return the text of a file of this package ("facts.txt"). importlib.resources would take 0.02 s more to import."""
    data = pkgutil.get_data("kproxy.protocol", name)
    assert data is not None, f"{name} is not installed"
    return data.decode("utf-8")
