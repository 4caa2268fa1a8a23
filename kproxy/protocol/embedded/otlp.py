"""The fields of OpenTelemetry's metrics by number (opentelemetry-proto 1.x: metrics/v1, common/v1, resource/v1).

Field names are protobuf's. ``!`` marks fields with explicit presence (optional, or member of a oneof), ``*`` repeated ones.
"""

from kproxy.protocol.embedded.protobuf import EnumTable, FieldType, MessageTable, ProtobufReader

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
