"""The classes of decoded messages: one slotted, mutable class a struct, with the fields of all its versions.

A field that a version does not carry has its default. Attributes are Kafka's names in snake_case; arrays are lists,
uuids are strings in Kafka's text form (22 characters of URL-safe base64), bytes and records are bytes, null is None.

Decoded instances are not tracked by the cyclic garbage collector: a message is a tree. Who puts a reference back to the
message into it makes a cycle that is never collected.
"""

import functools
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from kproxy.protocol.facts import Field, facts
from kproxy.protocol.secrets import WITHHELD, Secrecy, is_secret_value, secrecy


class Struct:
    """Base of all message and struct classes.

    Keyword arguments set fields, the others get their defaults. Raises TypeError for a name that is not a field.
    """

    __slots__ = ("unknown_tags",)

    fields: ClassVar[tuple[Field, ...]] = ()
    by_attribute: ClassVar[dict[str, Field]] = {}
    struct_types: ClassVar[dict[str, type["Struct"]]] = {}
    unknown_tags: tuple[tuple[int, bytes], ...]  # (tag, data) of tagged fields that the facts do not know

    def __init__(self, **values: Any) -> None:
        self.unknown_tags = values.pop("unknown_tags", ())
        for field in self.fields:
            value = values.pop(field.attribute) if field.attribute in values else self._default(field)
            setattr(self, field.attribute, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")

    @classmethod
    def unset(cls) -> Self:
        """One of which no field is set: each has its default, which is made when it is first asked for."""
        return cls.__new__(cls)

    def __getattr__(self, name: str) -> Any:
        """An unset field has its default: decoding leaves lists and structs that the bytes did not carry to be made here."""
        if name == "unknown_tags":
            return ()
        field = self.by_attribute.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name}")
        value = self._default(field)
        setattr(self, name, value)
        return value

    def _default(self, field: Field) -> object:
        if field.default != ():
            return field.default
        return [] if field.is_array else self.struct_types[field.type]()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(a == b for a, b in zip(self._values(), other._values(), strict=True))

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        given = (
            f"{f.attribute}={self._shown(f, v)}"
            for f, v in zip(self.fields, self._values(), strict=False)
            if v != self._default(f)
        )
        tags = (f"unknown_tags={self.unknown_tags!r}",) if self.unknown_tags else ()
        return f"{type(self).__name__}({', '.join([*given, *tags])})"

    def _shown(self, field: Field, value: object) -> str:
        """Return the value as text; credentials withheld, as a repr ends in logs and tracebacks."""
        message = next(iter(self.struct_types))
        match secrecy(message, (field.json_name,)):
            case Secrecy.ALWAYS:
                return WITHHELD
            case Secrecy.BY_NAME if getattr(self, "is_sensitive", False) or is_secret_value(
                message, str(getattr(self, "name", "")).encode(errors="replace")
            ):
                return WITHHELD
        return repr(value)

    def _values(self) -> Iterator[Any]:
        for field in self.fields:
            yield getattr(self, field.attribute)
        yield self.unknown_tags


class MessageStruct(Struct):
    """Base of the classes of whole messages.

    ``layout`` is the Kafka release whose layout the bytes had, where that is not the newest one of that version (the
    few versions that were changed in place); None otherwise. It decides how the object is written again.
    """

    __slots__ = ("layout",)
    layout: str | None

    @classmethod
    def unset(cls) -> Self:
        """See Struct."""
        made = super().unset()
        made.layout = None
        return made

    def __init__(self, **values: Any) -> None:
        self.layout = values.pop("layout", None)
        super().__init__(**values)


@functools.cache
def struct_types(message: str) -> dict[str, type[Struct]]:
    """Return the classes of a message by struct name, the message's own first. Raises KeyError for an unknown message."""
    found: dict[str, dict[str, Field]] = {message: {}}
    for layout in facts().layouts(message):
        _collect(message, layout.fields, found)
    types: dict[str, type[Struct]] = {}
    for name, fields in found.items():
        base = MessageStruct if name == message else Struct
        types[name] = _make_type(name, message, tuple(fields.values()), base, types)
    return types


def _collect(name: str, fields: tuple[Field, ...], found: dict[str, dict[str, Field]]) -> None:
    """Add *fields* of struct *name*, and of all structs below, to *found*; the first (newest) definition of one wins."""
    mine = found.setdefault(name, {})
    for field in fields:
        mine.setdefault(field.attribute, field)
        if field.is_struct:
            _collect(field.type, field.fields, found)


def _make_type(
    name: str, message: str, fields: tuple[Field, ...], base: type[Struct], types: dict[str, type[Struct]]
) -> type[Struct]:
    body = {
        "__slots__": tuple(field.attribute for field in fields),
        "__doc__": f"{name} at all its versions." if name == message else f"{name} of {message}, at all its versions.",
        "__module__": __name__,
        "__qualname__": name if name == message else f"{message}.{name}",
        "fields": fields,
        "by_attribute": {field.attribute: field for field in fields},
        "struct_types": types,
    }
    return type(name, (base,), body)
