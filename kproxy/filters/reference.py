"""The reference of filters, made from their options and docstrings: as data, and as text."""

import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as types

from kproxy.filters.contract import Filter
from kproxy.options import CONDITION, EXAMPLES, RANGES, UNIT, render_quantity
from kproxy.protocol.vocabulary import Scope, table_rows

REQUIRED = "required"
WORDS: dict[type[types.Type], str] = {
    types.StrType: "text",
    types.IntType: "whole number",
    types.FloatType: "number",
    types.BoolType: "true or false",
    types.NoneType: "null",
    types.AnyType: "any value",
    types.DictType: "names with values",
}


class Option(NamedTuple):
    """One option. Those of a group are named after it: ``file.path``, ``rules[].when``."""

    name: str
    type: str
    default: str  # as in YAML; REQUIRED
    description: str


def summary(class_: type[Filter]) -> str:
    """Return the first sentence of its docstring."""
    return " ".join(_documentation(class_).split("\n\n")[0].split())


def options_of(class_: type[Filter]) -> list[Option]:
    """Return its options in the order of their declaration; if it declares none, the arguments of its constructor."""
    if class_.Options is not None:
        return list(_options(class_.Options, ""))
    arguments = list(inspect.signature(class_).parameters.values())
    return [Option(each.name, _annotation(each), _argument_default(each), "") for each in arguments]


def described(name: str, class_: type[Filter]) -> dict[str, Any]:
    """Return everything about a filter as plain values."""
    options = [option._asdict() for option in options_of(class_)]
    return {"name": name, "summary": summary(class_), "documentation": _documentation(class_), "options": options}


def render_list(names: Sequence[str], classes: Sequence[type[Filter]], width: int) -> Iterator[str]:
    widest = max(map(len, names), default=0)
    for name, class_ in zip(names, classes, strict=True):
        yield f"{name:{widest}}  {textwrap.shorten(summary(class_), max(width - widest - 2, 20), placeholder=' …')}"


def render_page(name: str, class_: type[Filter], width: int) -> Iterator[str]:
    yield name
    yield ""
    yield from _documentation(class_).splitlines()
    options = options_of(class_)
    if not options:
        return
    yield ""
    yield "Options, under with:"
    for option in options:
        default = option.default if option.default == REQUIRED else f"default {option.default}"
        yield ""
        yield f"  {option.name}  ({option.type}; {default})"
        yield from textwrap.wrap(option.description, width, initial_indent="      ", subsequent_indent="      ")
    if class_.Options is not None and has_condition(class_.Options):
        yield from _render_vocabulary(width)


def has_condition(kind: type[msgspec.Struct]) -> bool:
    """Return whether one of the options is a condition, also in a group of options."""
    structure = types.type_info(kind)
    assert isinstance(structure, types.StructType)
    for field in structure.fields:
        group, _ = _group(field.type)
        if any(CONDITION in _unwrapped(each)[1] for each in _members(field.type)) or (group and has_condition(group)):
            return True
    return False


def _render_vocabulary(width: int) -> Iterator[str]:
    """Yield the fields of conditions, one a line."""
    yield ""
    yield "Fields in conditions:"
    yield ""
    rows = [(name, f"{kind}: {meaning}") for name, kind, meaning, _ in table_rows(Scope.REQUEST)]
    widest = max(len(name) for name, _ in rows)
    for name, meaning in rows:
        yield from textwrap.wrap(
            meaning, width, initial_indent=f"  {name:{widest}}  ", subsequent_indent=" " * (widest + 4)
        )


def _documentation(class_: type[Filter]) -> str:
    return inspect.cleandoc(class_.__doc__ or "")


def _options(kind: type[msgspec.Struct], before: str) -> Iterator[Option]:
    structure = types.type_info(kind)
    assert isinstance(structure, types.StructType)
    for field in structure.fields:
        name = f"{before}{field.encode_name}"
        yield Option(name, _words(field.type), _default(field), _description(field.type))
        group, suffix = _group(field.type)
        if group is not None:
            yield from _options(group, f"{name}{suffix}.")


def _group(kind: types.Type) -> tuple[type[msgspec.Struct] | None, str]:
    """Return the struct in a type, and what stands between the names of the option and of its fields."""
    match _unwrapped(kind)[0]:
        case types.StructType(cls=cls):
            return cls, ""
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item):
            return _group(item)[0], "[]"
        case types.DictType(value_type=value):
            return _group(value)[0], ".NAME"
        case types.UnionType(types=kinds):
            return next((group for each in kinds if (group := _group(each))[0] is not None), (None, ""))
    return None, ""


def _unwrapped(kind: types.Type) -> tuple[types.Type, dict[str, Any]]:
    schema: dict[str, Any] = {}
    while isinstance(kind, types.Metadata):
        schema = {**(kind.extra_json_schema or {}), **schema}
        kind = kind.type
    return kind, schema


def _description(kind: types.Type) -> str:
    return str(_unwrapped(kind)[1].get("description", ""))


def _words(kind: types.Type) -> str:
    kind, schema = _unwrapped(kind)
    unit = schema.get(UNIT)
    match kind:
        case types.UnionType(types=kinds):
            return " or ".join(_words(each) for each in kinds)
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item):
            return f"list of {'groups' if _unwrapped(item)[0].__class__ is types.StructType else _words(item)}"
        case types.StructType():
            return "group"
        case types.LiteralType(values=values):
            return ", ".join(map(str, values))
    if unit is not None:
        return f"{'time' if unit == 'seconds' else 'size'}: {EXAMPLES[unit]}"
    limits = (f" {words} {limit:,}" for name, _, words in RANGES if (limit := getattr(kind, name, None)) is not None)
    return WORDS.get(type(kind), "value") + ",".join(limits)


def _default(field: types.Field) -> str:
    if field.required:
        return REQUIRED
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct):
        return "as below"
    unit = next((unit for each in _members(field.type) if (unit := _unwrapped(each)[1].get(UNIT)) is not None), None)
    if unit is not None and isinstance(value, int | float):
        return render_quantity(value, unit)
    return msgspec.json.encode(value).decode()


def _members(kind: types.Type) -> tuple[types.Type, ...]:
    """Return the types of a union, each with its metadata; else the type alone."""
    bare = _unwrapped(kind)[0]
    return bare.types if isinstance(bare, types.UnionType) else (kind,)


def _annotation(argument: inspect.Parameter) -> str:
    kind = argument.annotation
    if kind is inspect.Parameter.empty:
        return "any value"
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _argument_default(argument: inspect.Parameter) -> str:
    return REQUIRED if argument.default is inspect.Parameter.empty else repr(argument.default)
