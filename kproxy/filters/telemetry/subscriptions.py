"""The options of telemetry; which metrics clients are asked for, and which error a request gets.

The errors are those of Kafka's ClientMetricsManager (KIP-714).
"""

import random
from base64 import urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from zlib import crc32

from msgspec import Meta

from kproxy.options import Options, OtlpEndpoint, Seconds, Size, endpoint_problems, text
from kproxy.protocol.constants import METADATA_TOPIC_ID, ZERO_UUID
from kproxy.protocol.error_codes import ErrorCode

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their ids


class TelemetryOptions(Options, frozen=True):
    """Options of telemetry; those of subscriptions and of answers to clients are of the mode terminate."""

    mode: Annotated[
        Literal["tap", "terminate"],
        text("tap: the broker takes what clients push, and kproxy reads along. terminate: kproxy takes it."),
    ] = "terminate"
    metrics: Annotated[
        tuple[str, ...],
        text(
            'What clients are asked for: prefixes of names such as org.apache.kafka.producer., or "*"; empty: nothing.'
        ),
    ] = ("*",)
    push_interval: Annotated[
        Annotated[float, Meta(ge=0.1, le=3_600, extra_json_schema={"x-unit": "seconds"})],
        text("How often a client pushes."),
    ] = 60.0
    temporality: Annotated[
        Literal["cumulative", "delta"],
        text("Whether clients are asked for sums since they began, or since their last push."),
    ] = "cumulative"
    compression: Annotated[
        tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...],
        text("What a push may be compressed with, best first. Without compression is always possible."),
    ] = ("zstd", "lz4", "gzip", "snappy")
    most_bytes: Annotated[
        Size, text("Size of the largest push, compressed; decompressed it may have four times as much.")
    ] = 262_144
    keep: Annotated[
        Seconds | None,
        text("How long the last numbers of a client are shown; by default three intervals, in the mode tap 15 min."),
    ] = None
    most_clients: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)],
        text("Client instances whose subscriptions a worker remembers; the one not heard of for longest is forgotten."),
    ] = 16_384
    most_metrics: Annotated[
        Annotated[int, Meta(ge=1, le=50_000)], text("Numbers of a push that are shown; the others are counted.")
    ] = 5_000
    most_labels: Annotated[
        Annotated[int, Meta(ge=0, le=16)],
        text("Attributes of a number that become labels, in addition to cluster, client_id and client_instance_id."),
    ] = 8
    most_names: Annotated[
        Annotated[int, Meta(ge=1, le=500)], text("No new name of a metric is shown if there are so many.")
    ] = 500
    most_series: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)],
        text("No new series of a name is shown if it has so many, of all clients."),
    ] = 1_000
    authenticated: Annotated[
        bool, text("Whether a client is disconnected that pushes before it has authenticated itself (SASL or TLS).")
    ] = False
    forward: Annotated[
        OtlpEndpoint | None,
        text(
            "A collector that gets what clients push, as it is: OpenTelemetry's metrics. Resource attributes say of whom they "
            "are: client_id, client_instance_id, client_software_name, client_software_version."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.forward is not None:
            for path, message in endpoint_problems(self.forward):
                raise ValueError(f"forward.{path}: {message}")
        if self.most_bytes > 1 << 24:
            raise ValueError("most_bytes: it has to be at most 16MiB")


# Limits for one worker: clients can invent any number of ids, but reading what they push takes time
MOST_PUSHES_A_SECOND = 50
MOST_BYTES_A_SECOND = 262_144  # decompressed; 1,000 Java producers push that much in 50 s
RESERVED = (ZERO_UUID, METADATA_TOPIC_ID)
RETRIED = (  # after these a client asks again at once
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)


@dataclass(slots=True)
class Instance:
    """The times and the last error of a client."""

    asked_at: float = -float("inf")
    pushed_at: float = -float("inf")
    terminating: bool = False
    last_error: int = ErrorCode.NONE


class Subscriptions:
    """The clients of a worker; times come from any clock in seconds."""

    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._instances: OrderedDict[str, Instance] = OrderedDict()
        self._random = random.SystemRandom()
        self._second, self._pushes, self._bytes = 0, 0, 0
        identity = [*options.metrics, f"{options.push_interval}", options.temporality, *options.compression]
        self._subscription = crc32("\0".join(identity).encode("utf-8", "replace"))

    def subscription_id(self, instance_id: str) -> int:
        """Return the subscription id of a client instance, which is the same in every process with the same options."""
        value = self._subscription ^ crc32(instance_id.encode("utf-8", "replace"))
        return value - (1 << 32) if value >> 31 else value

    def ask(self, request: Any, now: float) -> tuple[int, dict[str, Any]]:
        """Return the error code and the other fields of a GetTelemetrySubscriptions response."""
        known = request.client_instance_id
        instance_id = known if known != ZERO_UUID else self._new_id()
        instance = self._instance(instance_id)
        if now - max(instance.asked_at, instance.pushed_at) < self._options.push_interval:
            if instance.last_error not in RETRIED:
                return ErrorCode.THROTTLING_QUOTA_EXCEEDED, {}
        else:
            instance.asked_at = now
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE, {
            "client_instance_id": instance_id,
            "subscription_id": self.subscription_id(instance_id),
            "accepted_compression_types": [CODECS.index(codec) for codec in self._options.compression],
            "push_interval_ms": int(self._options.push_interval * 1_000),
            "telemetry_max_bytes": self._options.most_bytes,
            "delta_temporality": self._options.temporality == "delta",
            "requested_metrics": list(self._options.metrics),
        }

    def push(self, request: Any, now: float) -> int:
        """Return the error code for a push before its metrics are read."""
        if request.client_instance_id in RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(request.client_instance_id)
        instance.last_error = error = self._error_of_push(instance, request, now)
        instance.terminating = request.terminating
        return error

    def fail(self, instance_id: str, error: int) -> None:
        """Note that the metrics of a push could not be read."""
        self._instance(instance_id).last_error = error

    def _error_of_push(self, instance: Instance, request: Any, now: float) -> int:
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        in_time = instance.asked_at > instance.pushed_at or now - instance.pushed_at >= self._options.push_interval
        if in_time:
            instance.pushed_at = now
        if not (in_time or request.terminating) or not self.take_turn(now):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != self.subscription_id(request.client_instance_id):
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= request.compression_type < len(CODECS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > self._options.most_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def take_turn(self, now: float) -> bool:
        """Return whether another push is read in this second."""
        self._begin_second(now)
        self._pushes += 1
        return self._pushes <= MOST_PUSHES_A_SECOND

    def take_bytes(self, now: float, size: int) -> bool:
        """Return whether a push of that size, decompressed, is read in this second; the first one always is."""
        self._begin_second(now)
        self._bytes += size
        return self._bytes <= MOST_BYTES_A_SECOND or self._bytes == size

    def _begin_second(self, now: float) -> None:
        if int(now) != self._second:
            self._second, self._pushes, self._bytes = int(now), 0, 0

    def _instance(self, instance_id: str) -> Instance:
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._instances[instance_id] = Instance()
            if len(self._instances) > self._options.most_clients:
                self._instances.popitem(last=False)
        else:
            self._instances.move_to_end(instance_id)
        return instance

    def _new_id(self) -> str:
        """Return a random UUID (RFC 9562, version 4) in Kafka's text form; like Kafka's own, it does not begin with "-"."""
        while True:
            value = bytearray(self._random.randbytes(16))
            value[6], value[8] = value[6] & 0x0F | 0x40, value[8] & 0x3F | 0x80
            text = urlsafe_b64encode(value).decode().rstrip("=")
            if not text.startswith("-"):
                return text
