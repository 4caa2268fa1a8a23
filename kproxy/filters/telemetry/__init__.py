"""telemetry: what clients measure of themselves and push (KIP-714), decoded and shown at /metrics.

    filter.py          Telemetry: the filter, in the modes tap and terminate; the numbers in a push (OpenTelemetry's MetricsData)
    subscriptions.py   TelemetryOptions; Subscriptions: which metrics are requested of clients, and error codes

A client asks what to measure (GetTelemetrySubscriptions), gets an id of its own (client instance id) and a subscription id, and
then pushes every interval (PushTelemetry), to any broker. It does so only if ApiVersions offers both APIs. A broker offers them
if it has a MetricsReporter plugin with ClientTelemetry.

    tap         the broker answers; pushes that it accepts are shown as well. No byte is changed, and faults affect no client.
    terminate   ApiVersions of the broker gets both APIs, and kproxy answers them. The broker sees none of it.

What clients push is forwarded to a collector too, if the option forward names one: the bytes stay OpenTelemetry's, and resource
attributes name the client (kproxy.proxy.otlp has the queue, the batches and the connection, in each worker's event loop).

A subscription id is computed from the subscription and the client instance id, so all workers and all kproxies get the same one.
Only the worker that served a client before knows whether that client asks or pushes too early.
"""

from kproxy.filters.telemetry.filter import Telemetry

__all__ = ["Telemetry"]
