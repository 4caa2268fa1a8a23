"""Hypothesis strategies made from the facts: objects of any message at any version."""

import base64
from typing import Any

import hypothesis.strategies as st

from kproxy.protocol import message
from kproxy.protocol.facts import Field, Layout, facts
from kproxy.protocol.structs import Struct, struct_types
from tests.support.wire import newest_layout

INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
SINGLES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(*ends) for kind, ends in INTEGERS.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16).map(lambda data: base64.urlsafe_b64encode(data).decode()[:22]),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
    "records": st.binary(max_size=12),
}

VERSIONS = [(name, version) for name in facts().messages() for version in message(name).versions]


@st.composite
def messages(draw: st.DrawFn, records: bool = True) -> tuple[str, int, Any]:
    """(message, version, object) with fields of that version only; *records*: whether those fields hold bytes."""
    name, version = draw(st.sampled_from(VERSIONS))
    layout = newest_layout(name, version)
    return name, version, draw(_struct(layout, version, name, layout.fields, records))


def _struct(
    layout: Layout, version: int, name: str, fields: tuple[Field, ...], records: bool
) -> st.SearchStrategy[Any]:
    present = [f for f in fields if version in f.versions]
    values = {f.attribute: _value(layout, version, f, records) for f in present}
    if version in layout.flexible:
        tags = st.dictionaries(st.integers(60, 1 << 32 - 1), st.binary(max_size=9), max_size=2)
        values["unknown_tags"] = tags.map(lambda found: tuple(sorted(found.items())))
    made: type[Struct] = struct_types(layout.name)[name]
    return st.fixed_dictionaries(values).map(lambda given: made(**given))


def _value(layout: Layout, version: int, field: Field, records: bool) -> st.SearchStrategy[Any]:
    single = _single(layout, version, field, records)
    value = st.lists(single, max_size=3) if field.is_array else single
    return st.none() | value if version in field.nullable else value


def _single(layout: Layout, version: int, field: Field, records: bool) -> st.SearchStrategy[Any]:
    if field.is_struct:
        return _struct(layout, version, field.type, field.fields, records)
    if field.type == "records" and not records:
        return st.none() if version in field.nullable else st.just(b"")
    return SINGLES[field.type]
