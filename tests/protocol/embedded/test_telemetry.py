"""PushTelemetry's metrics: Kafka's own bytes with every compression, and bombs."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.telemetry import open_metrics
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
