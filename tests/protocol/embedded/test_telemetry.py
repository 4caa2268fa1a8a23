"""PushTelemetry's metrics: Kafka's own bytes with every compression, and bombs."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.telemetry import open_metrics, with_resource_attributes
from tests.support.corpus import payloads

LINES = payloads("telemetry-metrics")


def test_metrics_are_what_kafka_says() -> None:
    assert {line["compression"] for line in LINES} == {"none", "gzip", "snappy", "lz4", "zstd"}
    for line in LINES:
        assert open_metrics(bytes.fromhex(line["hex"]), line["compressionId"]) == line["json"]
        assert open_metrics(bytes.fromhex(line["plainHex"]), 0) == line["json"]


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
