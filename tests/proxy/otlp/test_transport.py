"""transport_to: the transport that an endpoint asks for, with a collector that decodes what it gets."""

from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from kproxy.errors import UsageError
from kproxy.filters.otlp_endpoint import OtlpEndpoint
from kproxy.proxy.otlp.transport import Delivered, Outcome, Refused, Signal, outcome_of_answer, transport_to
from tests.support.loops import LOOPS, run
from tests.support.otlp import grpc_collector, http_collector

ENDPOINTS = {"http/protobuf": http_collector, "grpc": grpc_collector}


async def sent(endpoint: OtlpEndpoint, *bodies: bytes, signal: Signal = "traces") -> list[Outcome]:
    transport = transport_to(endpoint, signal)
    try:
        return [await transport.send(body) for body in bodies]
    finally:
        transport.close()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("protocol", ENDPOINTS)
@pytest.mark.parametrize("signal", ["traces", "metrics"])
def test_each_protocol_carries_each_signal(loop: str, protocol: str, signal: Signal) -> None:
    with ENDPOINTS[protocol]() as collector:
        endpoint = OtlpEndpoint(otlp=collector.address, protocol=protocol, headers={"Authorization": "Bearer x"})  # type: ignore[arg-type]
        assert run(loop, sent(endpoint, b"", b"", signal=signal)) == [Delivered(), Delivered()]
        assert [type(each).__name__ for each in collector.requests] == [
            f"Export{signal.title()[:-1] if signal == 'traces' else 'Metrics'}ServiceRequest"
        ] * 2
        assert [headers["authorization"] for headers in collector.headers] == ["Bearer x"] * 2


def test_a_path_stays_before_that_of_otlp() -> None:
    with http_collector() as collector:
        outcome = run("asyncio", sent(OtlpEndpoint(otlp=f"{collector.address}/tenant"), b""))
    assert outcome == [Refused("HTTP 404")]  # this collector has no /tenant/v1/traces


def test_a_file_with_authorities_that_is_missing_or_none_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("no certificate")
    for file, words in ((tmp_path / "missing", "No such file"), (other, "does not contain a certificate")):
        with pytest.raises(UsageError, match=words):
            transport_to(OtlpEndpoint(otlp="https://c:1", ca=str(file)), "traces")


def test_what_is_sent_is_what_was_given() -> None:
    body = ExportTraceServiceRequest()
    body.resource_spans.add().scope_spans.add().spans.add(name="x" * 100_000)
    for protocol, collector_of in ENDPOINTS.items():
        with collector_of() as collector:
            endpoint = OtlpEndpoint(otlp=collector.address, protocol=protocol)  # type: ignore[arg-type]
            assert run("uvloop", sent(endpoint, body.SerializeToString())) == [Delivered()]
            assert collector.requests == [body]


def test_the_number_rejected_is_read_and_rubbish_is_refused() -> None:
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="no")
    )
    assert outcome_of_answer(partial.SerializeToString()) == Delivered(3)
    assert outcome_of_answer(ExportMetricsServiceResponse().SerializeToString()) == Delivered(0)
    for rubbish in (b"<html>welcome</html>", b"\x0a\xff", b"{}", b"\x00"):
        assert isinstance(outcome_of_answer(rubbish), Refused)
