"""The classes of decoded messages: one slotted, mutable class for each struct, with the fields of all its versions.

A field that a version lacks has its default. Attributes are Kafka's names in snake_case; arrays are lists, uuids are strings in
Kafka's text form (22 characters of URL-safe base64), bytes and records are bytes, null is None.

The cyclic garbage collector does not track decoded instances, as a message is a tree. Do not store a reference to the message
inside it: such a cycle would never be collected.
"""

import functools
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from kproxy.protocol.facts import Field, facts
from kproxy.protocol.secrets import WITHHELD, Secrecy, is_secret_value, secrecy


class Struct:
    """Base of all message and struct classes.

    Keyword arguments set fields; other fields get their defaults. Raises TypeError for an unknown name.
    """

    __slots__ = ("unknown_tags",)

    fields: ClassVar[tuple[Field, ...]] = ()
    by_attribute: ClassVar[dict[str, Field]] = {}
    struct_types: ClassVar[dict[str, type["Struct"]]] = {}
    unknown_tags: tuple[tuple[int, bytes], ...]  # (tag, data) of tagged fields that are not in the facts

    def __init__(self, **values: Any) -> None:
        self.unknown_tags = values.pop("unknown_tags", ())
        for field in self.fields:
            value = values.pop(field.attribute) if field.attribute in values else self._default(field)
            setattr(self, field.attribute, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")

    @classmethod
    def unset(cls) -> Self:
        """Return an instance without set fields; each default is created when the field is first read."""
        return cls.__new__(cls)

    def __getattr__(self, name: str) -> Any:
        """Create the default of an unset field; decoding leaves absent lists and structs unset."""
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
        fields = (
            f"{f.attribute}={self._shown(f, v)}"
            for f, v in zip(self.fields, self._values(), strict=False)
            if v != self._default(f)
        )
        tags = (f"unknown_tags={self.unknown_tags!r}",) if self.unknown_tags else ()
        return f"{type(self).__name__}({', '.join([*fields, *tags])})"

    def _shown(self, field: Field, value: object) -> str:
        """Return the value as text, with credentials withheld, as a repr may appear in logs and tracebacks."""
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

    ``layout`` is the Kafka release of the layout that the bytes had, if that is not the newest layout of the version (a few
    versions were changed in place); otherwise None. It decides how the object is encoded.
    """

    __slots__ = ("layout",)
    layout: str | None

    @classmethod
    def unset(cls) -> Self:
        instance = super().unset()
        instance.layout = None
        return instance

    def __init__(self, **values: Any) -> None:
        self.layout = values.pop("layout", None)
        super().__init__(**values)


@functools.cache
def struct_types(message: str) -> dict[str, type[Struct]]:
    """Return the classes of a message by struct name, the message's class first. Raises KeyError for an unknown message."""
    fields_of: dict[str, dict[str, Field]] = {message: {}}
    for layout in facts().layouts(message):
        _collect(message, layout.fields, fields_of)
    types: dict[str, type[Struct]] = {}
    for name, fields in fields_of.items():
        base = MessageStruct if name == message else Struct
        types[name] = _make_type(name, message, tuple(fields.values()), base, types)
    return types


def _collect(name: str, fields: tuple[Field, ...], fields_of: dict[str, dict[str, Field]]) -> None:
    """Add the fields of struct *name*, and of all structs inside, to *fields_of*; the first (newest) definition wins."""
    by_attribute = fields_of.setdefault(name, {})
    for field in fields:
        by_attribute.setdefault(field.attribute, field)
        if field.is_struct:
            _collect(field.type, field.fields, fields_of)


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
