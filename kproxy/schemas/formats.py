"""The formats of schemas: what compiles a schema of each type to something that reads payloads."""

import functools
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from typing import Any, Protocol

from kproxy.errors import KproxyError, UsageError

EXTRA = "pip install 'kproxy-kafka[schemas]'"
LEAF = -1  # in place of a state of an automaton of paths: the value is at the end of a path
MOST_TEXT = 4 * 1024 * 1024  # bytes of a schema's text


class SchemaError(KproxyError):
    """A schema that cannot be used, or a payload that it does not describe."""


class PayloadError(SchemaError):
    """A payload that its schema does not describe."""


class SchemaType(StrEnum):
    """The types of schemas by the names that registries give them. Registries leave AVRO out."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class Compiled(Protocol):
    """A schema that reads payloads."""

    def read(self, payload: bytes, indexes: tuple[int, ...] | None = None) -> object:
        """Return a JSON value. Raises PayloadError.

        Args:
            payload: behind the framing.
            indexes: which message of a .proto file; None: not said.
        """

    @property
    def is_bounded(self) -> bool:
        """Return False if ``problems`` may take long for a value that was made for it."""
        return True

    def problems(self, value: object) -> list[str]:
        """Return what a value that could be read breaks of its schema, without contents; at most some. Raises SchemaError."""
        return []

    def kinds(self) -> dict[str, str]:
        """Return the types in SQL of fields at the top that JSON has no type for: decimals, times, UUIDs."""
        return {}


COMPILERS = {
    SchemaType.AVRO: ("kproxy.schemas.avro", "AvroSchema"),
    SchemaType.PROTOBUF: ("kproxy.schemas.protobuf", "ProtobufSchema"),
    SchemaType.JSON: ("kproxy.schemas.json_schema", "JsonSchema"),
}


def compile_schema(schema_type: str, text: str, references: Mapping[str, str]) -> Compiled:
    """Compile a schema. *references*: texts by the name under which the schema refers to them. Raises SchemaError, UsageError."""
    if schema_type not in COMPILERS:
        raise SchemaError(f"schemas of type {schema_type} cannot be read, only {', '.join(COMPILERS)}")
    if len(text) > MOST_TEXT:
        raise SchemaError(f"a schema of {len(text):,} characters; at most {MOST_TEXT:,} are compiled")
    module, name = COMPILERS[SchemaType(schema_type)]
    compiled: Compiled = getattr(import_module(module), name)(text, references)
    return compiled


@functools.cache
def require(module: str) -> Any:
    """Import a library of the extra. Raises UsageError with how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(f"schemas need {module.partition('.')[0]}: {EXTRA}") from error


def any_of(steps: Mapping[Any, int], every: int | None) -> int | None:
    """Return the state of an item, whichever it is: LEAF if that depends on which one."""
    states = {*steps.values(), *(() if every is None else (every,))}
    return next(iter(states), None) if len(states) < 2 else LEAF
