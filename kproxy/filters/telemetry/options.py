"""The options of telemetry."""

from typing import Annotated, Literal

from msgspec import Meta

from kproxy.filters.options import Options, Seconds, Size, text
from kproxy.filters.otlp_endpoint import OtlpEndpoint, endpoint_problems

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
        text("Attributes of a number that are shown as labels, beside cluster, client_id and client_instance_id."),
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
