"""A request or response of any API at any version about several things: two elements in every array, every field of its own."""

import base64
from itertools import count
from typing import Any

from kproxy.protocol import Message, request_message, response_message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.structs import struct_types
from tests.support.wire import newest_layout

VERSIONS = [
    (key, version)
    for key in sorted(facts().apis)
    if (known := request_message(key)) is not None
    for version in known.versions
]


def sample_request(api_key: int, version: int) -> Any:
    """The request; the same at every call."""
    return _sample(request_message(api_key), version)


def sample_response(api_key: int, version: int) -> Any:
    """The response; the same at every call."""
    return _sample(response_message(api_key), version)


def _sample(message: Message | None, version: int) -> Any:
    assert message is not None
    layout = newest_layout(message.name, version)
    return _struct(layout.name, message.name, layout.fields, version, count(1))


def _struct(message: str, name: str, fields: tuple[Field, ...], version: int, numbers: Any) -> Any:
    values = {
        field.attribute: _value(message, field, version, numbers) for field in fields if version in field.versions
    }
    return struct_types(message)[name](**values)


def _value(message: str, field: Field, version: int, numbers: Any) -> Any:
    if field.is_array:
        return [_single(message, field, version, numbers) for _ in range(2)]
    return _single(message, field, version, numbers)


def _single(message: str, field: Field, version: int, numbers: Any) -> Any:
    number = next(numbers)
    if field.is_struct:
        return _struct(message, field.type, field.fields, version, numbers)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode()[:22]
    others = {"string": f"{field.attribute[:10]}{number}", "bytes": b"", "records": b"", "bool": False}
    return others.get(field.type, float(number) if field.type == "float64" else number % 100)
