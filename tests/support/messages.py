"""Messages made of keyword arguments, and frames of kproxy's own writing around them."""

from struct import pack, unpack_from
from typing import Any

from kproxy.protocol import (
    Direction,
    MessageStruct,
    known_message,
    message,
    response_header_version,
)
from kproxy.protocol.structs import struct_types
from tests.support.frames import frame, request


def make(name: str, struct: str = "", /, **values: Any) -> Any:
    """A message, or a *struct* of it; dicts in it are made into structs."""
    kind = struct_types(name)[struct or name]

    def made(attribute: str, value: Any) -> Any:
        if isinstance(value, list):
            return [made(attribute, one) for one in value]
        return make(name, kind.by_attribute[attribute].type, **value) if isinstance(value, dict) else value

    return kind(**{attribute: made(attribute, value) for attribute, value in values.items()})


def response_frame(api_key: int, api_version: int, body: bytes, correlation_id: int = 7) -> bytes:
    """A response frame around a body."""
    tags = b"\0" * response_header_version(api_key, api_version)
    return frame(pack(">i", correlation_id) + tags + body)


def answer_frame(name: str, version: int, /, correlation_id: int = 7, **values: Any) -> bytes:
    """A response frame of kproxy's own writing."""
    codec = message(name)
    assert codec.api_key is not None
    return response_frame(codec.api_key, version, codec.encode(version, make(name, **values)), correlation_id)


def request_frame(
    name: str, version: int, value: MessageStruct | None = None, /, correlation_id: int = 7, **values: Any
) -> bytes:
    """A request frame of kproxy's own writing: of a message, or of one with *values*."""
    codec = message(name)
    assert codec.api_key is not None
    tags = b"\0" if version in codec.flexible_versions else b""
    body = codec.encode(version, value or make(name, **values))
    return request(codec.api_key, version, correlation_id, body, tags=tags)


def answer_in(api_key: int, api_version: int, frame: bytes) -> Any:
    """The message in a response frame."""
    codec = known_message(Direction.RESPONSE, api_key)
    return codec.decode(api_version, frame, 8 + response_header_version(api_key, api_version))


def request_in(frame: bytes) -> Any:
    """The message in a request frame."""
    api_key, api_version, _, client_id_size = unpack_from(">hhih", frame, 4)
    codec = known_message(Direction.REQUEST, api_key)
    return codec.decode(api_version, frame, 14 + client_id_size + (api_version in codec.flexible_versions))
