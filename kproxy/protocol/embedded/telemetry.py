"""PushTelemetry (KIP-714): metrics of a client, compressed OpenTelemetry MetricsData.

Compression types are those of record batches, in the variants of magic 2 (ClientTelemetryUtils.decompress).
"""

from typing import Any

from kproxy.errors import Malformed
from kproxy.protocol.embedded.otlp import ENUMS, MESSAGES
from kproxy.protocol.embedded.protobuf import MOST_PARTS, ProtobufReader
from kproxy.protocol.records.compression import decompress
from kproxy.protocol.records.limits import MIB, Limits

LIMITS = Limits(decompressed=16 * MIB)  # a broker takes 1 MiB (telemetry.max.bytes)


class TooLarge(Malformed):
    """The metrics decompress to more than the limits allow."""


def open_metrics(data: bytes, compression_type: int) -> dict[str, Any]:
    """MetricsData with protobuf's field names, enums by name, only fields that are set. Raises DecodeError."""
    return read_metrics(unpack_metrics(data, compression_type))


def read_metrics(plain: bytes, most_parts: int = MOST_PARTS) -> dict[str, Any]:
    """The same of metrics that are not compressed, with at most so many values. Raises DecodeError."""
    return ProtobufReader(MESSAGES, ENUMS, most_parts).read("MetricsData", plain)


def unpack_metrics(data: bytes, compression_type: int, limits: Limits = LIMITS) -> bytes:
    """Decompress. Raises TooLarge beyond the limits, DecodeError for bytes that are not compressed so."""
    unpacked = decompress(compression_type, data, limits=limits)
    if unpacked.skipped is not None:
        raise TooLarge(unpacked.skipped, message="metrics")
    if unpacked.error is not None:
        raise Malformed(unpacked.error, message="metrics")
    return bytes(unpacked.data)
