"""PushTelemetry's metrics: Kafka's own bytes with every compression, and bombs."""

import zlib
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.metrics.v1.metrics_pb2 import DESCRIPTOR, MetricsData

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.protobuf import ProtobufReader
from kproxy.protocol.embedded.telemetry import (
    ENUMS,
    MESSAGES,
    RESPONSE,
    open_metrics,
    read_rejected,
    with_resource_attributes,
)
from tests.support.corpus import payloads

LINES = payloads("telemetry-metrics")


def test_a_bomb_is_refused() -> None:
    """Hostile input 5: 64 MiB of zeroes in 64 KiB."""
    stream = zlib.compressobj(wbits=31)
    bomb = stream.compress(bytes(64 << 20)) + stream.flush()
    with pytest.raises(DecodeError, match="more than 16,777,216 bytes"):
        open_metrics(bomb, 1)


def test_the_snappy_preamble_that_claims_4_gib_is_refused() -> None:
    """Hostile input 1."""
    with pytest.raises(DecodeError):
        open_metrics(b"\xff\xff\xff\xff\x0f", 2)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(DecodeError, match="codec 9"):
        open_metrics(b"", 9)


@given(data=st.binary(max_size=60), compression=st.integers(-1, 8))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, compression: int) -> None:
    try:
        assert isinstance(open_metrics(data, compression), dict)
    except DecodeError:
        return


def changed(data: MetricsData, **attributes: str) -> MetricsData:
    return MetricsData.FromString(with_resource_attributes(data.SerializeToString(), attributes))


def test_what_kafka_wrote_has_the_attributes_and_all_it_had() -> None:
    for line in LINES:
        before = MetricsData.FromString(bytes.fromhex(line["plainHex"]))
        after = changed(before, client_id="app", client_instance_id="x" * 300)
        for was, now in zip(before.resource_metrics, after.resource_metrics, strict=True):
            added = now.resource.attributes[len(was.resource.attributes) :]
            assert [(each.key, each.value.string_value) for each in added] == [
                ("client_id", "app"),
                ("client_instance_id", "x" * 300),
            ]
            del now.resource.attributes[len(was.resource.attributes) :]
            if not was.HasField("resource"):
                now.ClearField("resource")
        assert after == before


def test_a_client_cannot_say_that_it_is_another_one() -> None:
    data = MetricsData()
    for _ in range(2):
        resource = data.resource_metrics.add(schema_url="s").resource
        resource.dropped_attributes_count = 3
        for key in ("client_id", "region", "client_id"):
            resource.attributes.add(key=key).value.string_value = "mine"
    for metrics in changed(data, client_id="app").resource_metrics:
        found = [(each.key, each.value.string_value) for each in metrics.resource.attributes]
        assert found == [("region", "mine"), ("client_id", "app")]
        assert (metrics.resource.dropped_attributes_count, metrics.schema_url) == (3, "s")


def test_a_resource_in_two_parts_is_one_and_unknown_fields_stay() -> None:
    part = MetricsData().resource_metrics.add()
    part.resource.attributes.add(key="region").value.string_value = "eu"
    twice = part.SerializeToString() * 2 + b"\x7a\x02ab"  # and field 15
    plain = b"\x0a" + bytes([len(twice)]) + twice + b"\x78\x05"
    after = MetricsData.FromString(with_resource_attributes(plain, {"client_id": "app"}))
    [metrics] = after.resource_metrics
    assert [each.key for each in metrics.resource.attributes] == ["region", "region", "client_id"]
    assert after.SerializeToString().count(b"\x7a\x02ab") == 1
    assert after.SerializeToString().endswith(b"\x78\x05")


@given(data=st.binary(max_size=80) | st.binary(max_size=40).map(lambda inner: b"\x0a" + bytes([len(inner)]) + inner))
def test_attributes_for_any_bytes_are_a_message_or_a_decode_error(data: bytes) -> None:
    try:
        after = with_resource_attributes(data, {"client_id": "app"})
    except DecodeError:
        return
    assert with_resource_attributes(after, {"client_id": "app"}) == after


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
