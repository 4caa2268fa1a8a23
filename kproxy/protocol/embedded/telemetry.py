"""PushTelemetry (KIP-714): metrics of a client, compressed OpenTelemetry MetricsData.

Compression types are those of record batches, in the variants of magic 2 (ClientTelemetryUtils.decompress).
"""

from typing import Any

from kproxy.errors import Malformed
from kproxy.protocol.embedded.otlp import ENUMS, MESSAGES
from kproxy.protocol.embedded.protobuf import ProtobufReader
from kproxy.protocol.records.compression import decompress
from kproxy.protocol.records.limits import MIB, Limits

LIMITS = Limits(decompressed=16 * MIB)  # a broker takes 1 MiB (telemetry.max.bytes)


def open_metrics(data: bytes, compression_type: int) -> dict[str, Any]:
    """MetricsData with protobuf's field names, enums by name, only fields that are set. Raises DecodeError."""
    return ProtobufReader(MESSAGES, ENUMS).read("MetricsData", _plain(data, compression_type))


def _plain(data: bytes, compression_type: int) -> bytes:
    unpacked = decompress(compression_type, data, limits=LIMITS)
    why = unpacked.error or unpacked.skipped
    if why is not None:
        raise Malformed(why, message="metrics")
    return bytes(unpacked.data)
