"""telemetry: what clients measure of themselves and push (KIP-714), decoded and shown at /metrics.

    options.py         TelemetryOptions
    filter.py          Telemetry: the filter, in the modes tap and terminate
    subscriptions.py   Subscriptions: what clients are asked for and told, as Kafka's ClientMetricsManager does
    data_points.py     the numbers in a push: OpenTelemetry's MetricsData, decompressed and read within bounds

A client asks what to measure (GetTelemetrySubscriptions), gets an id of its own (client instance id) and a subscription id, and
then pushes every interval (PushTelemetry), to any broker. It does so only if ApiVersions offers both APIs, which a broker does
that has a MetricsReporter plugin with ClientTelemetry.

    tap         the broker answers; a push that it takes is shown as well. No byte is changed; a fault disturbs nothing.
    terminate   ApiVersions of the broker gets both APIs, and kproxy answers them. The broker sees none of it.

What clients push is forwarded to a collector too, if the option forward names one: the bytes stay OpenTelemetry's, and resource
attributes say whose they are (kproxy.proxy.otlp has the queue, the batches and the connection, in each worker's event loop).

A subscription id follows from the subscription and the client instance id, so that each worker and each kproxy knows those of the
others. When a client asks or pushes too early is known to the worker that it came to before.
"""

from kproxy.filters.telemetry.filter import Telemetry

__all__ = ["Telemetry"]
