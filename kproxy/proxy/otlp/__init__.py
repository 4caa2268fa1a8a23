"""Exporting over OTLP: spans by the analyzer, metrics that clients have pushed by workers (filter telemetry).

    exporter.py      Exporter: a bounded queue, batches, retries, counts of what became of each item; a task of the event loop
    exporters.py     Exporters: those of a worker, for metrics that filters forward
    outcomes.py      what sending may lead to: delivered, refused, unavailable
    transport.py     what a transport is; makes the one that an OtlpEndpoint asks for
    http_client.py   OTLP/HTTP with protobuf: h11 on a stream of asyncio
    grpc_client.py   OTLP/gRPC: grpcio, whose threads do the work

A collector that is down, hangs, is slow or answers anything at all costs what is bounded in exporter.py and is counted: the loop
never waits for it. Nothing here knows what the bytes are.
"""
