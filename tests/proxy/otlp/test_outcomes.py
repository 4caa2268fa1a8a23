"""outcome_of_answer, with answers that OpenTelemetry's own classes wrote."""

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from kproxy.proxy.otlp.outcomes import Delivered, Refused, outcome_of_answer


def test_the_number_rejected_is_read_and_rubbish_is_refused() -> None:
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="no")
    )
    assert outcome_of_answer(partial.SerializeToString()) == Delivered(3)
    assert outcome_of_answer(ExportMetricsServiceResponse().SerializeToString()) == Delivered(0)
    for rubbish in (b"<html>welcome</html>", b"\x0a\xff", b"{}", b"\x00"):
        assert isinstance(outcome_of_answer(rubbish), Refused)
