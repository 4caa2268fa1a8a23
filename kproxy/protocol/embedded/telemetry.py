"""PushTelemetry (KIP-714): metrics of a client, compressed OpenTelemetry MetricsData.

Compression types are those of record batches, in the variants of magic 2 (ClientTelemetryUtils.decompress). The fields by number
are those of opentelemetry-proto 1.x: metrics/v1, common/v1, resource/v1. ``!`` marks fields with explicit presence (optional, or
member of a oneof), ``*`` repeated ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.errors import Malformed
from kproxy.protocol.embedded.protobuf import (
    MOST_PARTS,
    SIZED,
    EnumTable,
    FieldType,
    MessageTable,
    ProtobufReader,
    Window,
)
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


ENUMS: EnumTable = {
    "AggregationTemporality": {
        0: "AGGREGATION_TEMPORALITY_UNSPECIFIED",
        1: "AGGREGATION_TEMPORALITY_DELTA",
        2: "AGGREGATION_TEMPORALITY_CUMULATIVE",
    }
}

_FIELDS = """
MetricsData: 1 resource_metrics ResourceMetrics*
ResourceMetrics: 1 resource Resource, 2 scope_metrics ScopeMetrics*, 3 schema_url string
Resource: 1 attributes KeyValue*, 2 dropped_attributes_count uint32
ScopeMetrics: 1 scope InstrumentationScope, 2 metrics Metric*, 3 schema_url string
InstrumentationScope: 1 name string, 2 version string, 3 attributes KeyValue*, 4 dropped_attributes_count uint32
Metric: 1 name string, 2 description string, 3 unit string, 5 gauge Gauge, 7 sum Sum, 9 histogram Histogram
Metric: 10 exponential_histogram ExponentialHistogram, 11 summary Summary, 12 metadata KeyValue*
Gauge: 1 data_points NumberDataPoint*
Sum: 1 data_points NumberDataPoint*, 2 aggregation_temporality AggregationTemporality, 3 is_monotonic bool
Histogram: 1 data_points HistogramDataPoint*, 2 aggregation_temporality AggregationTemporality
ExponentialHistogram: 1 data_points ExponentialHistogramDataPoint*, 2 aggregation_temporality AggregationTemporality
Summary: 1 data_points SummaryDataPoint*
NumberDataPoint: 2 start_time_unix_nano fixed64, 3 time_unix_nano fixed64, 4 as_double double!, 5 exemplars Exemplar*
NumberDataPoint: 6 as_int sfixed64!, 7 attributes KeyValue*, 8 flags uint32
HistogramDataPoint: 2 start_time_unix_nano fixed64, 3 time_unix_nano fixed64, 4 count fixed64, 5 sum double!
HistogramDataPoint: 6 bucket_counts fixed64*, 7 explicit_bounds double*, 8 exemplars Exemplar*, 9 attributes KeyValue*
HistogramDataPoint: 10 flags uint32, 11 min double!, 12 max double!
ExponentialHistogramDataPoint: 1 attributes KeyValue*, 2 start_time_unix_nano fixed64, 3 time_unix_nano fixed64
ExponentialHistogramDataPoint: 4 count fixed64, 5 sum double!, 6 scale sint32, 7 zero_count fixed64
ExponentialHistogramDataPoint: 8 positive Buckets, 9 negative Buckets, 10 flags uint32, 11 exemplars Exemplar*
ExponentialHistogramDataPoint: 12 min double!, 13 max double!, 14 zero_threshold double
Buckets: 1 offset sint32, 2 bucket_counts uint64*
SummaryDataPoint: 2 start_time_unix_nano fixed64, 3 time_unix_nano fixed64, 4 count fixed64, 5 sum double
SummaryDataPoint: 6 quantile_values ValueAtQuantile*, 7 attributes KeyValue*, 8 flags uint32
ValueAtQuantile: 1 quantile double, 2 value double
Exemplar: 2 time_unix_nano fixed64, 3 as_double double!, 4 span_id bytes, 5 trace_id bytes, 6 as_int sfixed64!
Exemplar: 7 filtered_attributes KeyValue*
KeyValue: 1 key string, 2 value AnyValue
AnyValue: 1 string_value string!, 2 bool_value bool!, 3 int_value int64!, 4 double_value double!
AnyValue: 5 array_value ArrayValue, 6 kvlist_value KeyValueList, 7 bytes_value bytes!
ArrayValue: 1 values AnyValue*
KeyValueList: 1 values KeyValue*
"""
# ExportTraceServiceResponse and ExportMetricsServiceResponse differ only in the names of their fields.
_RESPONSE = """
ExportResponse: 1 partial_success PartialSuccess
PartialSuccess: 1 rejected int64, 2 error_message string
"""


def _table(text: str) -> MessageTable:
    table: MessageTable = {}
    for line in text.strip().splitlines():
        message, _, fields = line.partition(": ")
        for entry in fields.split(", "):
            number, name, kind = entry.split(" ")
            field = FieldType(name, kind.rstrip("*!"), repeated=kind.endswith("*"), explicit=kind.endswith("!"))
            table.setdefault(message, {})[int(number)] = field
    return table


MESSAGES = _table(_FIELDS)
RESPONSE = _table(_RESPONSE)


def read_rejected(response: bytes) -> int:
    """Return how many items a collector rejected, from its ExportTraceServiceResponse or ExportMetricsServiceResponse.

    Raises DecodeError for bytes that are neither.
    """
    return int(
        ProtobufReader(RESPONSE, {}, 100).read("ExportResponse", response).get("partial_success", {}).get("rejected", 0)
    )
