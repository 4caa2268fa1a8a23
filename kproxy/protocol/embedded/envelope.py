"""Decode Envelope (KIP-590): a request that a broker forwards for a client, its principal and address, and the response.

A nested message is a header and a body without a size field. Credentials in it are withheld as everywhere.
"""

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

import msgspec

from kproxy.errors import DecodeError, Malformed, UnknownVersion
from kproxy.protocol.addresses import unmapped
from kproxy.protocol.embedded.reader import Reader
from kproxy.protocol.headers import (
    read_request_header,
    read_response_header,
    response_header_version,
)
from kproxy.protocol.message import Message, message, request_message, response_message
from kproxy.protocol.structs import MessageStruct


def open_nested_request(data: bytes) -> dict[str, Any]:
    """Decode to ``headerVersion``, ``header``, ``message``, ``version``, ``value``. Raises DecodeError."""
    header = read_request_header(data)
    nested = _known(request_message(header.api_key), header.api_key)
    return {
        "headerVersion": header.header_version,
        "header": msgspec.Raw(header.to_json()),
    } | _body(nested, header.api_version, data, header.size)


def open_nested_response(data: bytes, api_key: int, api_version: int) -> dict[str, Any]:
    """As open_nested_request, for the response to a request of that API and version. Raises DecodeError."""
    nested = _known(response_message(api_key), api_key)
    header_version = response_header_version(api_key, api_version)
    header = read_response_header(data, header_version)
    return {"headerVersion": header_version, "header": msgspec.Raw(header.to_json())} | _body(
        nested, api_version, data, header.size
    )


@dataclass(frozen=True, slots=True)
class Nested:
    """A decoded message from an Envelope."""

    name: str
    api_key: int
    version: int
    body: MessageStruct


def nested_request(data: bytes) -> Nested | None:
    """Return the request inside an Envelope; None if it cannot be read (open_nested_request says why)."""
    try:
        header = read_request_header(data)
        nested = _known(request_message(header.api_key), header.api_key)
        body = nested.decode(header.api_version, data, header.size)
    except DecodeError:
        return None
    return Nested(nested.name, header.api_key, header.api_version, body)


def nested_response(data: bytes, request: Nested) -> Nested | None:
    """Return the response to *request*; None if it cannot be read."""
    try:
        nested = _known(response_message(request.api_key), request.api_key)
        header = read_response_header(data, response_header_version(request.api_key, request.version))
        body = nested.decode(request.version, data, header.size)
    except DecodeError:
        return None
    return Nested(nested.name, request.api_key, request.version, body)


def open_principal(data: bytes) -> dict[str, Any]:
    """Decode to ``version`` and ``value``: DefaultPrincipalData (DefaultKafkaPrincipalBuilder). Raises DecodeError."""
    version = Reader("DefaultPrincipalData", data).int16()
    value = message("DefaultPrincipalData").to_json(version, data, 2, withhold=True)
    return {"version": version, "value": msgspec.Raw(value)}


def open_address(data: bytes) -> str:
    """Return 4 or 16 bytes as an address in the form of Java's getHostAddress, without leaving out zeros. Raises DecodeError."""
    if len(data) == 4:
        return ".".join(map(str, data))
    if len(data) != 16:
        raise Malformed(f"{len(data)} bytes are no IP address, 4 or 16 would be", message="client host address")
    address = unmapped(IPv6Address(data))
    if address.version == 4:
        return str(address)
    return ":".join(f"{int.from_bytes(data[at : at + 2]):x}" for at in range(0, 16, 2))


def _known(nested: Message | None, api_key: int) -> Message:
    if nested is None:
        raise UnknownVersion(f"API {api_key} is not known", message="nested message")
    return nested


def _body(nested: Message, version: int, data: bytes, start: int) -> dict[str, Any]:
    value = msgspec.Raw(nested.to_json(version, data, start, withhold=True))
    return {"message": nested.name, "version": version, "value": value}
