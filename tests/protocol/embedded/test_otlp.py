"""The table of OpenTelemetry's fields, compared with the package that OpenTelemetry makes from its .proto files."""

from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.metrics.v1.metrics_pb2 import DESCRIPTOR, MetricsData

from kproxy.protocol.embedded.otlp import ENUMS, MESSAGES, RESPONSE, read_rejected
from kproxy.protocol.embedded.protobuf import ProtobufReader

TYPES = {
    FieldDescriptor.TYPE_DOUBLE: "double", FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_SFIXED64: "sfixed64", FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64", FieldDescriptor.TYPE_SINT32: "sint32", FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_INT32: "int32", FieldDescriptor.TYPE_BOOL: "bool", FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
}  # fmt: skip
NEWER = {"entity_refs", "key_strindex", "string_value_strindex"}  # in development, no client sends them


def described(message: Any, found: dict[str, Any]) -> None:
    if message.name in found:
        return
    found[message.name] = message
    for field in message.fields:
        if field.message_type is not None and field.name not in NEWER:
            described(field.message_type, found)


def test_every_field_has_the_number_type_and_presence_of_the_proto_files() -> None:
    found: dict[str, Any] = {}
    described(DESCRIPTOR.message_types_by_name["MetricsData"], found)
    assert set(found) == set(MESSAGES)
    for name, message in found.items():
        theirs = {
            field.number: (
                field.name,
                (field.message_type or field.enum_type).name if field.type in (11, 14) else TYPES[field.type],
                field.is_repeated if hasattr(field, "is_repeated") else field.label == 3,
            )
            for field in message.fields
            if field.name not in NEWER
        }
        assert {number: (f.name, f.type, f.repeated) for number, f in MESSAGES[name].items()} == theirs
        for number, ours in MESSAGES[name].items():
            field = message.fields_by_number[number]
            scalar = field.message_type is None and not ours.repeated
            assert ours.explicit == (scalar and field.containing_oneof is not None), f"{name}.{ours.name}"


def test_enums_are_those_of_the_proto_files() -> None:
    for name, values in ENUMS.items():
        assert {value.number: value.name for value in DESCRIPTOR.enum_types_by_name[name].values} == values


def test_a_message_of_every_kind_is_read_as_protobuf_reads_it() -> None:
    metrics = [
        {"name": "e", "exponentialHistogram": {"dataPoints": [{
            "count": "7", "sum": 1.5, "scale": -3, "zeroCount": "2", "positive": {"offset": -5, "bucketCounts": ["1", "300"]},
            "negative": {"offset": 4}, "min": 0.0, "max": 9.5, "zeroThreshold": 0.25, "startTimeUnixNano": "11",
            "exemplars": [{"asInt": "-4", "timeUnixNano": "5",
                           "filteredAttributes": [{"key": "k", "value": {"boolValue": False}}]}],
        }], "aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA"}},
        {"name": "s", "summary": {"dataPoints": [
            {"count": "3", "sum": 2.5, "quantileValues": [{"quantile": 0.5, "value": -1.0}]}]}},
        {"name": "g", "gauge": {"dataPoints": [{"asInt": "0", "attributes": [
            {"key": "a", "value": {"arrayValue": {"values": [{"intValue": "-9"}, {"doubleValue": 0.0}, {"stringValue": ""}]}}},
            {"key": "m", "value": {"kvlistValue": {"values": [{"key": "x", "value": {"bytesValue": "AAE="}}]}}},
        ], "flags": 1}]}, "metadata": [{"key": "z", "value": {"stringValue": "ü"}}]},
    ]  # fmt: skip
    text = {"resourceMetrics": [{"resource": {"droppedAttributesCount": 2}, "scopeMetrics": [
        {"scope": {"name": "n", "version": "1"}, "metrics": metrics, "schemaUrl": "u"}]}]}  # fmt: skip
    wire = json_format.ParseDict(text, MetricsData()).SerializeToString()
    ours = ProtobufReader(MESSAGES, ENUMS).read("MetricsData", wire)
    theirs = json_format.MessageToDict(MetricsData.FromString(wire), preserving_proto_field_name=True)
    assert numbers_as_text(ours) == theirs


def numbers_as_text(value: Any, name: str = "") -> Any:
    """protobuf's JSON has 64-bit integers as strings."""
    if isinstance(value, dict):
        return {key: numbers_as_text(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [numbers_as_text(inner, name) for inner in value]
    small = {"offset", "scale", "flags", "dropped_attributes_count"}
    return str(value) if type(value) is int and name not in small else value


def test_the_number_rejected_has_its_place_in_the_responses_of_both_services() -> None:
    for response, name in (
        (ExportTraceServiceResponse(), "rejected_spans"),
        (ExportMetricsServiceResponse(), "rejected_data_points"),
    ):
        assert read_rejected(response.SerializeToString()) == 0
        setattr(response.partial_success, name, 7)
        response.partial_success.error_message = "no"
        assert read_rejected(response.SerializeToString()) == 7
        assert len(response.DESCRIPTOR.fields) == len(RESPONSE["ExportResponse"])
