"""PushTelemetry (KIP-714): metrics of a client, compressed OpenTelemetry MetricsData.

Compression types are those of record batches, in the variants of magic 2 (ClientTelemetryUtils.decompress).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.errors import Malformed
from kproxy.protocol.embedded.otlp import ENUMS, MESSAGES
from kproxy.protocol.embedded.protobuf import MOST_PARTS, SIZED, ProtobufReader, Window
from kproxy.protocol.records.compression import decompress
from kproxy.protocol.records.limits import MIB, Limits

LIMITS = Limits(decompressed=16 * MIB)  # brokers accept 1 MiB (telemetry.max.bytes)


class TooLarge(Malformed):
    """The metrics decompress to more than the limits allow."""


def open_metrics(data: bytes, compression_type: int) -> dict[str, Any]:
    """Decode to MetricsData with protobuf's field names, enums by name, only fields that are set. Raises DecodeError."""
    return read_metrics(unpack_metrics(data, compression_type))


def read_metrics(plain: bytes, most_parts: int = MOST_PARTS) -> dict[str, Any]:
    """As open_metrics, for uncompressed metrics of at most *most_parts* values. Raises DecodeError."""
    return ProtobufReader(MESSAGES, ENUMS, most_parts).read("MetricsData", plain)


def unpack_metrics(data: bytes, compression_type: int, limits: Limits = LIMITS) -> bytes:
    """Return the decompressed metrics. Raises TooLarge beyond the limits, DecodeError for malformed bytes."""
    unpacked = decompress(compression_type, data, limits=limits)
    if unpacked.skipped is not None:
        raise TooLarge(unpacked.skipped, message="metrics")
    if unpacked.error is not None:
        raise Malformed(unpacked.error, message="metrics")
    return bytes(unpacked.data)


RESOURCE_METRICS = RESOURCE = ATTRIBUTES = KEY = 1  # field numbers: of MetricsData, ResourceMetrics, Resource, KeyValue
VALUE = 2  # of KeyValue
STRING = 1  # of AnyValue


def with_resource_attributes(plain: bytes, attributes: Mapping[str, str]) -> bytes:
    """Return MetricsData with these attributes in every resource, replacing those of the same names; all else is unchanged.

    Raises DecodeError if the examined bytes are not MetricsData.
    """
    names = {name.encode() for name in attributes}
    added = b"".join(
        _sized(ATTRIBUTES, _sized(KEY, name.encode()) + _sized(VALUE, _sized(STRING, value.encode())))
        for name, value in attributes.items()
    )
    out = bytearray()
    for number, content, field in _fields(Window("MetricsData", plain, 0, len(plain))):
        if number == RESOURCE_METRICS and content is not None:
            field = _sized(RESOURCE_METRICS, _resource_metrics(content, names, added))  # noqa: PLW2901
        out += field
    return bytes(out)


def _resource_metrics(window: Window, names: set[bytes], added: bytes) -> bytes:
    resource, rest = bytearray(), bytearray()
    for number, content, field in _fields(window):
        if number == RESOURCE and content is not None:  # of several, protobuf merges the fields
            resource += b"".join(part for part in _other_attributes(content, names))
        else:
            rest += field
    return _sized(RESOURCE, bytes(resource) + added) + bytes(rest)


def _other_attributes(resource: Window, names: set[bytes]) -> Iterator[bytes]:
    """Yield the fields of a Resource, without attributes of these names."""
    for number, content, field in _fields(resource):
        if number != ATTRIBUTES or content is None or _key(content) not in names:
            yield field


def _key(attribute: Window) -> bytes:
    key = b""
    for number, content, _ in _fields(attribute):
        if number == KEY and content is not None:  # the last one counts
            key = content.data[content.position : content.limit]
    return key


def _fields(window: Window) -> Iterator[tuple[int, Window | None, bytes]]:
    """Yield number, content (if length-delimited) and all bytes of each field."""
    start = window.position
    for number, wire_type in window.tags():
        content = window.sized() if wire_type == SIZED else None
        if content is None:
            window.skip(wire_type)
        yield number, content, window.data[start : window.position]
        start = window.position


def _sized(number: int, content: bytes) -> bytes:
    """Return a length-delimited field."""
    size, prefix = len(content), bytearray((number << 3 | SIZED,))
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + content
