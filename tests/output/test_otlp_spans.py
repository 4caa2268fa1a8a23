"""Spans as OTLP, decoded by opentelemetry-proto from the bytes of a whole request."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from kproxy.output.otlp_spans import encode_span, request_of
from kproxy.output.spans import Span
from kproxy.output.trace_context import TraceContext
from tests.support.otlp import attributes

PARENT = TraceContext(b"t" * 16, b"p" * 8, True)
OTHER = TraceContext(b"o" * 16, b"q" * 8, None)


def decoded(*spans: Span) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(request_of("edge")(map(encode_span, spans)))


def test_all_of_a_span_arrives() -> None:
    span = Span(b"t" * 16, b"s" * 8, "Produce orders", 10, 30, parent=PARENT, links_dropped=2)
    span.attributes = {"messaging.system": "kafka", "server.port": 9092, "kproxy.acks": -1}
    span.events = [("request received", 20)]
    span.error = "NOT_LEADER_OR_FOLLOWER"
    [resource] = decoded(span).resource_spans
    assert attributes(resource.resource)["service.name"] == "edge"
    [scope] = resource.scope_spans
    assert scope.scope.name == "kproxy"
    [found] = scope.spans
    assert (found.trace_id, found.span_id, found.parent_span_id) == (b"t" * 16, b"s" * 8, b"p" * 8)
    assert (found.name, found.kind) == ("Produce orders", OtlpSpan.SPAN_KIND_CLIENT)
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (10, 30)
    assert attributes(found) == span.attributes
    assert [(event.name, event.time_unix_nano) for event in found.events] == span.events
    assert (found.status.code, found.status.message) == (Status.STATUS_CODE_ERROR, "NOT_LEADER_OR_FOLLOWER")
    assert found.dropped_links_count == 2
    assert found.flags == 0x301  # sampled, and the parent is another program's


def test_several_spans_and_their_links_are_one_request() -> None:
    spans = [Span(b"t" * 16, bytes([n]) * 8, f"{n}", n, n, links=[PARENT, OTHER]) for n in range(1, 4)]
    [resource] = decoded(*spans).resource_spans
    [scope] = resource.scope_spans
    assert [span.name for span in scope.spans] == ["1", "2", "3"]
    for span in scope.spans:
        assert [(link.trace_id, link.span_id, link.flags) for link in span.links] == [
            (b"t" * 16, b"p" * 8, 0x301),
            (b"o" * 16, b"q" * 8, 0x300),
        ]
        assert (span.parent_span_id, span.status.code) == (b"", Status.STATUS_CODE_UNSET)
