"""PushTelemetry (KIP-714): metrics of a client, compressed OpenTelemetry MetricsData.

Compression types are those of record batches, in the variants of magic 2 (ClientTelemetryUtils.decompress).
"""

from typing import Any

from kproxy.errors import Malformed
from kproxy.protocol.embedded.otlp import ENUMS, MESSAGES
from kproxy.protocol.embedded.protobuf import ProtobufReader

MOST_BYTES = 16 * 1024 * 1024  # decompressed; a broker takes 1 MiB (telemetry.max.bytes)


def open_metrics(data: bytes, compression_type: int) -> dict[str, Any]:
    """MetricsData with protobuf's field names, enums by name, only fields that are set. Raises DecodeError."""
    return ProtobufReader(MESSAGES, ENUMS).read("MetricsData", _plain(data, compression_type))


def _plain(data: bytes, compression_type: int) -> bytes:
    if compression_type == 0:
        return data
    import zlib, zstandard
    if compression_type == 1: return zlib.decompress(data, 31)
    if compression_type == 4: return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    raise Malformed("x")
