"""Telemetry: the filter, in the modes that the package's docstring describes; the numbers in a push, read within bounds."""

import math
from collections.abc import Awaitable, Iterator
from typing import Any, NamedTuple

from kproxy.errors import DecodeError
from kproxy.filters.contract import (
    ClientMetric,
    Close,
    Filter,
    Forward,
    MetricsExport,
    Replace,
    Reply,
    Request,
    Response,
    Verdict,
)
from kproxy.filters.telemetry.subscriptions import Subscriptions, TelemetryOptions
from kproxy.protocol import ApiKey
from kproxy.protocol.embedded.telemetry import TooLarge, read_metrics, unpack_metrics, with_resource_attributes
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.records.limits import Limits
from kproxy.protocol.structs import struct_types

OURS = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
LARGE = 16_384  # bytes of a push that takes more than some milliseconds to read
LONGEST = 255  # characters of an attribute
ATTRIBUTES = (  # as KIP-714 names them
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
)
KEPT_IN_TAP_S = 900.0
INTERVALS_KEPT = 3
MOST_BYTES_OF_BROKERS = 1 << 20  # telemetry.max.bytes of a broker is 1 MiB
MOST_PARTS = 50_000  # values of all fields of a push
LONGEST_NAME, LONGEST_KEY = 200, 64
LONGEST_VALUE = 250  # characters: more than a topic's name has
DELTA = "AGGREGATION_TEMPORALITY_DELTA"
TIMES_COMPRESSED = 4


class Push(NamedTuple):
    """The content of a push."""

    metrics: list[ClientMetric]
    dropped: int  # data points that are no numbers, or too many


class Telemetry(Filter):
    """Show what clients measure of themselves (KIP-714) at /metrics.

    A client with version 3.7 of Kafka's Java library or 2.5 of librdkafka, or a later one, measures how often it produced,
    fetched, waited, rebalanced, and how long that took; the former pushes by default, the latter with enable.metrics.push. In
    the mode terminate, kproxy takes what they push: brokers as they are shipped do not. In the mode tap a broker does, and
    kproxy reads along without changing a byte.

    A metric org.apache.kafka.producer.record.send.total is kafka_client_producer_record_send_total at /metrics, with the labels
    cluster, client_id, client_instance_id and those the client gives (topic, partition, node_id). The options say how many names
    and series are shown; of all clusters together they are at most 500 names, 1,000 series of a name and 20,000 series. What is
    beyond is counted in kproxy_client_metrics_dropped_total, and a client that pushes no more is forgotten.
    kproxy_filter_events_total has pushes by their outcome.

    With forward, each worker also sends every push that it can read on to a collector of OpenTelemetry, in batches,
    at most every second. The collector cannot hold up traffic: what it is too slow for is dropped, and kproxy_filter_events_total
    has the pushes forwarded by their outcome (exported, dropped, failed).
    """

    name = "telemetry"
    Options = TelemetryOptions

    def __init__(self, options: TelemetryOptions) -> None:
        self.options = options
        self.terminates = options.mode == "terminate"
        self.identifies = options.authenticated or options.forward is not None
        self.fails_open = not self.terminates
        self.answers = OURS if self.terminates else ()
        self.requests = OURS if self.terminates else (ApiKey.PUSH_TELEMETRY,)
        self.responses = (ApiKey.API_VERSIONS,) if self.terminates else (ApiKey.PUSH_TELEMETRY,)
        self.subscriptions = Subscriptions(options)
        default = INTERVALS_KEPT * options.push_interval if self.terminates else KEPT_IN_TAP_S
        self._export: MetricsExport | None = None
        self._keep_s = default if options.keep is None else options.keep

    def on_start(self) -> None:
        """Prepare the export to the collector. Raises UsageError if it cannot be used."""
        if self.options.forward is not None:
            self._export = self.runtime.export_metrics(self.name, self.options.forward)

    def on_stop(self) -> None:
        """Close the export to the collector."""
        if self._export is not None:
            self._export.close()

    def on_request(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Answer it; in the mode tap, wait for the broker's answer instead."""
        if not self.terminates:
            return Forward()
        if self.options.authenticated and request.connection.principal is None:
            return Close("telemetry of a client that has not authenticated itself")
        now = self.runtime.monotonic()
        message: Any = request.message
        if request.api_key == ApiKey.GET_TELEMETRY_SUBSCRIPTIONS:
            error, values = self.subscriptions.ask(message, now)
            return Reply(request.new_response(error_code=int(error), **values))
        error = self.subscriptions.push(message, now)
        if error != ErrorCode.NONE or not message.metrics:
            return self._pushed(request, error)
        return self._take(request)

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Offer both APIs; in the mode tap, show a push that the broker has accepted."""
        message: Any = response.message
        if self.terminates:
            return Replace(message) if offer(message) else Forward()
        push: Any = response.request.message
        if message.error_code != ErrorCode.NONE or push is None or not push.metrics:
            return Forward()
        return self._read_along(response, push)

    def _take(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Read a push, in a thread if that takes long, and answer."""
        message: Any = request.message
        try:
            plain = unpack(bytes(message.metrics), message.compression_type, self.options.most_bytes)
            if not self.subscriptions.take_bytes(self.runtime.monotonic(), len(plain)):
                return self._pushed(request, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            if len(plain) > LARGE:
                return self._take_in_thread(request, plain)
            self._show(request, message, plain, self._read(plain))
        except DecodeError as error:
            return self._unread(request, error)
        return self._pushed(request, ErrorCode.NONE)

    async def _take_in_thread(self, request: Request, plain: bytes) -> Verdict:
        try:
            push = await self.runtime.in_thread(lambda: self._read(plain))
            self._show(request, request.message, plain, push)
        except DecodeError as error:
            return self._unread(request, error)
        return self._pushed(request, ErrorCode.NONE)

    def _read(self, plain: bytes) -> Push:
        return read_push(plain, self.options.most_metrics, self.options.most_labels)

    def _unread(self, request: Request, error: DecodeError) -> Verdict:
        """Answer a push that cannot be read as Kafka does, so that the client does not push it again."""
        code = ErrorCode.TELEMETRY_TOO_LARGE if isinstance(error, TooLarge) else ErrorCode.INVALID_RECORD
        message: Any = request.message
        self.subscriptions.fail(message.client_instance_id, code)
        return self._pushed(request, code)

    def _pushed(self, request: Request, error: int) -> Verdict:
        self._count("pushes", ErrorCode(error).name)
        return Reply(request.new_response(error_code=int(error)))

    def _read_along(self, response: Response, push: Any) -> Verdict | Awaitable[Verdict]:
        """Show a push that a broker has accepted. One that cannot be read is only counted."""
        if not self.subscriptions.take_turn(self.runtime.monotonic()):
            self._count("pushes", "left out")
            return Forward()
        try:
            plain = unpack(bytes(push.metrics), push.compression_type, MOST_BYTES_OF_BROKERS)
            if not self.subscriptions.take_bytes(self.runtime.monotonic(), len(plain)):
                self._count("pushes", "left out")
                return Forward()
            if len(plain) > LARGE:
                return self._read_along_in_thread(response, push, plain)
            self._show(response, push, plain, self._read(plain))
        except DecodeError:
            self._count("pushes", "unread")
        return Forward()

    async def _read_along_in_thread(self, response: Response, push: Any, plain: bytes) -> Verdict:
        try:
            self._show(response, push, plain, await self.runtime.in_thread(lambda: self._read(plain)))
        except DecodeError:
            self._count("pushes", "unread")
        return Forward()

    def _show(self, given: Request | Response, message: Any, plain: bytes, push: Push) -> None:
        """Show the numbers of a push, and forward them. Raises DecodeError if it is not known what to add for forwarding."""
        client_id = (given if isinstance(given, Request) else given.request).client_id or ""
        instance_id = message.client_instance_id
        if self._export is not None:
            name, version = given.connection.software or ("", "")
            values = (client_id, instance_id, name, version)
            attributes = {name: value for name, value in zip(ATTRIBUTES, map(carried, values), strict=True) if value}
            self._export.offer(with_resource_attributes(plain, attributes))
        most = {"most_names": self.options.most_names, "most_series": self.options.most_series}
        self.runtime.show_client_metrics(client_id, instance_id, push.metrics, self._keep_s, **most)
        if not self.terminates:
            self._count("pushes", ErrorCode.NONE.name)
        if push.dropped:
            self._count("data points", "not shown", push.dropped)

    def _count(self, event: str, name: str, amount: int = 1) -> None:
        self.runtime.shared_count(self.name, event, name).add(amount)


def carried(text: str) -> str:
    """Return text as protobuf can carry it: UTF-8, not too long."""
    return text.encode("utf-8", "replace").decode()[:LONGEST]


def offer(message: Any) -> bool:
    """Add both APIs to an ApiVersions response that has neither; return whether that changed it."""
    if message.error_code != ErrorCode.NONE:
        return False
    missing = [key for key in OURS if all(api.api_key != key for api in message.api_keys)]
    kind = struct_types("ApiVersionsResponse")["ApiVersion"]
    message.api_keys = [*message.api_keys, *(kind(api_key=int(key), min_version=0, max_version=0) for key in missing)]
    return bool(missing)


def unpack(data: bytes, compression_type: int, most_bytes: int) -> bytes:
    """Decompress a push of at most *most_bytes*. Raises TooLarge, or another DecodeError."""
    most = TIMES_COMPRESSED * most_bytes
    return unpack_metrics(data, compression_type, Limits(decompressed=most, free=most, window=1 << 23))


def read_push(plain: bytes, most_metrics: int, most_attributes: int) -> Push:
    """Read decompressed data, with at most *most_metrics* numbers of *most_attributes* attributes each. Raises DecodeError."""
    metrics: list[ClientMetric] = []
    dropped = 0
    for metric in _of_all(read_metrics(plain, MOST_PARTS), most_attributes):
        if metric is None or len(metrics) >= most_metrics:
            dropped += 1
        else:
            metrics.append(metric)
    return Push(metrics, dropped)


def _of_all(data: dict[str, Any], most_attributes: int) -> Iterator[ClientMetric | None]:
    """Yield each data point, or None for one that is not shown: its value is no number, or it is a histogram or summary."""
    for resource in data.get("resource_metrics", ()):
        for scope in resource.get("scope_metrics", ()):
            for metric in scope.get("metrics", ()):
                yield from _of_metric(metric, most_attributes)


def _of_metric(metric: dict[str, Any], most_attributes: int) -> Iterator[ClientMetric | None]:
    name = metric.get("name", "")[:LONGEST_NAME]
    total = metric.get("sum")
    points = (total or metric.get("gauge") or {}).get("data_points", ())
    is_counter = bool(total and total.get("is_monotonic"))
    is_delta = bool(total and total.get("aggregation_temporality") == DELTA)
    for point in points:
        value = _number(point)
        yield (
            None
            if value is None
            else ClientMetric(name, is_counter, is_delta, _attributes(point, most_attributes), value)
        )
    for kind in ("histogram", "exponential_histogram", "summary"):  # no client of Kafka sends them
        for _ in metric.get(kind, {}).get("data_points", ()):
            yield None


def _number(point: dict[str, Any]) -> float | None:
    """Return the value; None if it is no number (NaN and infinity are words here)."""
    value = point.get("as_double", point.get("as_int"))
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _attributes(point: dict[str, Any], most: int) -> tuple[tuple[str, str], ...]:
    attributes = []
    for attribute in point.get("attributes", ())[:most]:
        value = attribute.get("value", {})
        scalar = next(
            (value[kind] for kind in ("string_value", "int_value", "bool_value", "double_value") if kind in value), ""
        )
        attributes.append((attribute.get("key", "")[:LONGEST_KEY], str(scalar)[:LONGEST_VALUE]))
    return tuple(attributes)
