"""Spans as OTLP: protobuf's messages of the package opentelemetry-proto.

It was chosen over opentelemetry-sdk with its exporter: 20 µs of CPU a span against 145, 6 MB against 14, and no threads; and
the SDK counts no span that it drops (CPython 3.11, 15 attributes; opentelemetry-proto and opentelemetry-sdk 1.45).
"""

from collections.abc import Callable, Iterable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from kproxy import __version__
from kproxy.output.spans import Span
from kproxy.output.trace_context import TraceContext

SAMPLED, HAS_IS_REMOTE, IS_REMOTE = 0x1, 0x100, 0x200  # SpanFlags of trace.proto


def encode_span(span: Span) -> bytes:
    """Encode a span as a ScopeSpans message. Several of them concatenated are one valid message with all spans."""
    scope = ScopeSpans()
    encoded = scope.spans.add(
        trace_id=span.trace_id,
        span_id=span.span_id,
        flags=SAMPLED | HAS_IS_REMOTE,
        name=span.name,
        kind=OtlpSpan.SPAN_KIND_CLIENT,
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        dropped_links_count=span.links_dropped,
    )
    if span.parent is not None:
        encoded.parent_span_id = span.parent.span_id
        encoded.flags |= IS_REMOTE
    for context in span.links:
        encoded.links.add(trace_id=context.trace_id, span_id=context.span_id, flags=_flags(context))
    for name, value in span.attributes.items():
        attribute = encoded.attributes.add(key=name).value
        if isinstance(value, str):
            attribute.string_value = value
        elif isinstance(value, float):
            attribute.double_value = value
        else:
            attribute.int_value = value
    for name, at in span.events:
        encoded.events.add(name=name, time_unix_nano=at)
    if span.error is not None:
        encoded.status.code = Status.STATUS_CODE_ERROR
        encoded.status.message = span.error
    encoded_scope: bytes = scope.SerializeToString()
    return encoded_scope


def request_of(service_name: str) -> Callable[[Iterable[bytes]], bytes]:
    """Return a function that makes an ExportTraceServiceRequest from encoded spans."""
    resource = ResourceSpans()
    for name, value in (("service.name", service_name), ("service.version", __version__)):
        resource.resource.attributes.add(key=name).value.string_value = value
    resource.scope_spans.add().scope.name = "kproxy"
    resource.scope_spans[0].scope.version = __version__

    def request(spans: Iterable[bytes]) -> bytes:
        export = ExportTraceServiceRequest()
        export.resource_spans.add().CopyFrom(resource)
        export.resource_spans[0].scope_spans[0].MergeFromString(b"".join(spans))
        body: bytes = export.SerializeToString()
        return body

    return request


def _flags(context: TraceContext) -> int:
    return HAS_IS_REMOTE | IS_REMOTE | (SAMPLED if context.sampled else 0)
