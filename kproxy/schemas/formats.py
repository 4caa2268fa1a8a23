"""The formats of schemas: what compiles a schema of each type to something that reads payloads."""

import base64
import functools
import math
import struct
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Any, Protocol

from kproxy.errors import KproxyError, UsageError
from kproxy.schemas.kinds import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kproxy.schemas.fields import Edit, FieldPaths

EXTRA = "pip install 'kproxy-kafka[schemas]'"
LEAF = -1  # in place of a state of an automaton of paths: the value is at the end of a path
DESCRIPTOR_SET = "descriptor-set:"  # before a FileDescriptorSet of Protobuf in base64, as a file of it is held
MOST_TEXT = 4 * 1024 * 1024  # bytes of a schema's text

NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # as readable.pyx writes them


class SchemaError(KproxyError):
    """A schema that cannot be used, or a payload that it does not describe."""


class PayloadError(SchemaError):
    """A payload that its schema does not describe."""


class ValueMismatch(SchemaError):
    """A JSON value that its schema has no place for.

    Args:
        reason: a clause ("is missing").
        path: where in the value ("lines[0].sku"); "" for the value itself.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path or 'the value'} {reason}")
        self.reason, self.path = reason, path


class SchemaType(StrEnum):
    """The types of schemas by the names that registries give them. Registries leave AVRO out."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class Substitutes(Protocol):
    """Returns another value of the same kind, each time the same one for a value."""

    def text(self, text: str) -> str:
        """Return another text."""

    def data(self, data: bytes) -> bytes:
        """Return as many other bytes."""

    def whole(self, number: int, low: int, high: int) -> int:
        """Return another whole number from *low* to *high*."""

    def real(self, number: float) -> float:
        """Return another number."""

    def one_of(self, value: Any, values: Sequence[Any]) -> Any:
        """Return one of *values* for a value that is one of them."""


class Compiled(Protocol):
    """A schema that reads payloads."""

    def read(self, payload: bytes, indexes: tuple[int, ...] | None = None) -> object:
        """Return a JSON value. Raises PayloadError.

        Args:
            payload: behind the framing.
            indexes: which message of a .proto file; None: not said.
        """

    def write(self, value: object, like: bytes | None = None, indexes: tuple[int, ...] | None = None) -> bytes:
        """Return the payload of a JSON value, as ``read`` returns it. Raises ValueMismatch.

        Args:
            value: the value.
            like: a payload of the same schema: the value is written as this one was where JSON does not say how. That is a
                type of a union that others look like, and fields that the schema does not name.
            indexes: which message of a .proto file; None: not said.
        """

    def substituted(self, payload: bytes, indexes: tuple[int, ...] | None, substitutes: Substitutes) -> bytes:
        """Return a payload of the same schema with a substitute for each value; only null, true and false stay.

        Raises PayloadError.
        """

    def editing(self, paths: "FieldPaths") -> "Edit":
        """Return what changes the texts and bytes at some paths of payloads. Raises FieldRefused, NotDescribed.

        It returns the same object for a payload in which all stay, and raises PayloadError.
        """

    @property
    def is_bounded(self) -> bool:
        """Return False if ``problems`` may take long for a value that was made for it."""
        return True

    def problems(self, value: object) -> list[str]:
        """Return what a value that could be read breaks of its schema, without contents; at most some. Raises SchemaError."""
        return []

    def kinds(self, indexes: tuple[int, ...] | None = None) -> dict[str, Kind]:
        """Return the types in SQL of the fields at the top, for views of topics; empty if the schema is not one of fields.

        *indexes*: which message of a .proto file.
        """
        return {}


COMPILERS = {
    SchemaType.AVRO: ("kproxy.schemas.avro", "AvroSchema"),
    SchemaType.PROTOBUF: ("kproxy.schemas.protobuf", "ProtobufSchema"),
    SchemaType.JSON: ("kproxy.schemas.json_schema", "JsonSchema"),
}


def compile_schema(schema_type: str, text: str, references: Mapping[str, str], message: str | None = None) -> Compiled:
    """Compile a schema. Raises SchemaError, UsageError.

    Args:
        schema_type, text: of the schema.
        references: texts by the name under which the schema refers to them.
        message: the name of the message of a .proto file that payloads are where nothing else says it; None: its first.
    """
    if schema_type not in COMPILERS:
        raise SchemaError(f"schemas of type {schema_type} cannot be read, only {', '.join(COMPILERS)}")
    if len(text) > MOST_TEXT:
        raise SchemaError(f"a schema of {len(text):,} characters; at most {MOST_TEXT:,} are compiled")
    module, name = COMPILERS[SchemaType(schema_type)]
    chosen = {} if message is None else {"message": message}
    compiled: Compiled = getattr(import_module(module), name)(text, references, **chosen)
    return compiled


@functools.cache
def require(module: str) -> Any:
    """Import a library of the extra. Raises UsageError with how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(f"schemas need {module.partition('.')[0]}: {EXTRA}") from error


def below(path: str, name: str | int) -> str:
    """Return the path of a field, or of an item of an array."""
    return f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}" if path else name


def from_base64(value: object, path: str) -> bytes:
    """Return bytes that JSON has in base64. Raises ValueMismatch."""
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except ValueError:
        pass
    raise ValueMismatch("is not bytes in base64", path)


def as_float(value: object, is_short: bool, path: str) -> float:
    """Return a number of JSON; NaN and infinities are texts there. Raises ValueMismatch.

    *is_short*: for a float of four bytes.
    """
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueMismatch("is not a number", path)
    try:
        number = float(value)
        if math.isfinite(number) and (not is_short or struct.pack("<f", number)):
            return number
    except OverflowError:
        pass
    raise ValueMismatch("is beyond float" if is_short else "is beyond double", path)


def any_of(steps: Mapping[Any, int], every: int | None) -> int | None:
    """Return the state of an item, whichever it is: LEAF if that depends on which one."""
    states = {*steps.values(), *(() if every is None else (every,))}
    return next(iter(states), None) if len(states) < 2 else LEAF
