"""Joins check.py to kproxy: the public API under the names that check.py asks for (its docstring has the contract)."""

import json
from typing import Any

from kproxy.protocol import (
    DecodeError,
    message,
    read_request_header,
    read_response_header,
    request_message,
    response_header_version,
    response_message,
)

__all__ = ["DecodeError", "from_json", "reencode", "request_frame", "response_frame", "to_json", "walk"]

API_VERSIONS = 18
SIZE_FIELD = 4  # int32 before every frame


def to_json(name: str, version: int, data: bytes) -> bytes:
    return message(name).to_json(version, data)


def reencode(name: str, version: int, data: bytes) -> bytes:
    layout = message(name)
    return layout.encode(version, layout.decode(version, data))


def from_json(name: str, version: int, text: str) -> bytes:
    layout = message(name)
    return layout.encode(version, layout.from_json(version, text))


def walk(name: str, version: int, data: bytes) -> int:
    return message(name).walk(version, data)


def request_frame(frame: bytes) -> dict[str, Any]:
    data = frame[SIZE_FIELD:]
    header = read_request_header(data)
    body = request_message(header.api_key).to_json(header.api_version, data, header.size)
    return {"header": json.loads(header.to_json()), "body": json.loads(body)}


def response_frame(frame: bytes, api_key: int, api_version: int) -> dict[str, Any]:
    data = frame[SIZE_FIELD:]
    header = read_response_header(data, response_header_version(api_key, api_version))
    layout = response_message(api_key)
    try:
        body = layout.to_json(api_version, data, header.size)
    except DecodeError:
        if api_key != API_VERSIONS:
            raise
        body = layout.to_json(0, data, header.size)  # what a broker answers to a version it does not know (KIP-511)
    return {"header": json.loads(header.to_json()), "body": json.loads(body)}
