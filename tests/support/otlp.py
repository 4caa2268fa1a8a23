"""A collector for tests: takes OTLP over HTTP and gRPC, and decodes it with opentelemetry-proto; told to, it misbehaves."""

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.http_servers import Quiet, serving

Answer = tuple[int, dict[str, str], bytes]  # status, headers, body
KINDS = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}


def plain(value: Any) -> Any:
    """An AnyValue as Python's."""
    return getattr(value, value.WhichOneof("value"))


def attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span, a resource or a data point."""
    return {each.key: plain(each.value) for each in holder.attributes}


@dataclass
class Collector:
    """What has come. ``answer`` may be set: it gives the answer to the n-th request (from 0); None: the proper one."""

    answer: Callable[[int], Answer | None] = lambda number: None
    status: Callable[[int], grpc.StatusCode] = lambda number: grpc.StatusCode.OK
    hang: threading.Event | None = None  # requests wait for it before they are answered
    requests: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bytes: list[bytes] = field(default_factory=list)
    address: str = ""
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self) -> int:
        with self._lock:
            self._count += 1
            return self._count - 1

    def spans(self) -> list[Span]:
        """All spans, in the order in which they came."""
        return [
            span
            for request in list(self.requests)
            if isinstance(request, ExportTraceServiceRequest)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resources(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """The attributes of each resource of metrics, and its ResourceMetrics."""
        for request in list(self.requests):
            if isinstance(request, ExportMetricsServiceRequest):
                for each in request.resource_metrics:
                    yield attributes(each.resource), each

    def points(self) -> Iterator[tuple[dict[str, Any], str, Any]]:
        """Attributes of the resource, name and data point of each number."""
        for resource, metrics in self.resources():
            for scope in metrics.scope_metrics:
                for metric in scope.metrics:
                    for point in getattr(metric, metric.WhichOneof("data")).data_points:
                        yield resource, metric.name, point


def _handler(collector: Collector) -> type[Quiet]:
    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            number = collector.next()
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if collector.hang is not None:
                collector.hang.wait()
            forced = collector.answer(number)
            if forced is None:
                if self.path not in KINDS or self.headers["content-type"] != "application/x-protobuf":
                    forced = 404, {}, b""
                else:
                    request, response = KINDS[self.path]
                    collector.bytes.append(body)
                    collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                    collector.requests.append(request.FromString(body))
                    forced = 200, {"Content-Type": "application/x-protobuf"}, response().SerializeToString()
            status, headers, answer = forced
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    return Handler


@contextmanager
def http_collector(context: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Collector]:
    """A collector over HTTP, with TLS if there is a context."""
    collector = Collector()
    with serving(_handler(collector), context, port) as collector.address:
        try:
            yield collector
        finally:
            if collector.hang is not None:
                collector.hang.set()


@contextmanager
def grpc_collector(credentials: grpc.ServerCredentials | None = None) -> Iterator[Collector]:
    """A collector over gRPC."""
    collector = Collector()

    def exports(path: str) -> Any:
        request_kind, response_kind = KINDS[path]

        def export(request: Any, context: grpc.ServicerContext) -> Any:
            status = collector.status(collector.next())
            if collector.hang is not None:
                collector.hang.wait()
            if status is not grpc.StatusCode.OK:
                context.abort(status, "no")
            collector.headers.append(dict(context.invocation_metadata()))
            collector.requests.append(request)
            return response_kind()

        return grpc.unary_unary_rpc_method_handler(
            export, request_deserializer=request_kind.FromString, response_serializer=response_kind.SerializeToString
        )

    threads = ThreadPoolExecutor(4)
    server = grpc.server(threads)
    for service, path in (("trace.v1.Trace", "/v1/traces"), ("metrics.v1.Metrics", "/v1/metrics")):
        name = f"opentelemetry.proto.collector.{service}Service"
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, {"Export": exports(path)})])
    port = (
        server.add_insecure_port("127.0.0.1:0")
        if credentials is None
        else server.add_secure_port("127.0.0.1:0", credentials)
    )
    collector.address = f"{'http' if credentials is None else 'https'}://127.0.0.1:{port}"
    server.start()
    try:
        yield collector
    finally:
        if collector.hang is not None:
            collector.hang.set()
        server.stop(None).wait()
        threads.shutdown()
