"""Exporting over OTLP: spans by the analyzer, metrics that clients have pushed by workers (filter telemetry).

    exporter.py      Exporter: a bounded queue, batches, retries, counts of items by outcome; a task of the event loop.
                     Exporters: those of a worker, for metrics that filters forward
    transport.py     what a transport is and what sending may lead to; makes the transport that an OtlpEndpoint asks for
    http_client.py   OTLP/HTTP with protobuf: http.client in a thread
    grpc_client.py   OTLP/gRPC: grpcio, whose threads do the work

The event loop never waits for a collector. One that is down, slow, hangs or answers nonsense costs no more than the bounded queue
of exporter.py, and what it does not take is counted. No module here knows what the bytes mean.

The exporters of OpenTelemetry's SDK are not used: they take seven times the CPU for a span and count no span that they drop
(kproxy.output.spans has the figures), and they cannot forward metrics that a client has encoded.
"""
