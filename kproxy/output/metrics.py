"""What /metrics says: one registry of descriptions, and a collector that fills them with numbers when somebody scrapes.

DESCRIPTIONS has every metric's name, type, help and labels; dashboards and rules are made from it. Labels are bounded: APIs, versions
and causes by what kproxy knows (``other`` for the rest), names from traffic by the analyzer (``__other__``).

Text format: Prometheus exposition format 0.0.4, or OpenMetrics 1.0 where the scraper asks for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kproxy import __version__
from kproxy.protocol.facts import facts

OTHER = "other"
NANOSECONDS = 1e9

Kind = Literal["counter", "gauge", "histogram", "info"]
Sample = tuple[tuple[str, ...], float]  # values of the labels, number


class Counted(Protocol):
    """An API at a version, as the workers count it; None stands for what is not known."""

    @property
    def api_key(self) -> int | None: ...
    @property
    def api_version(self) -> int | None: ...
    @property
    def requests(self) -> int: ...
    @property
    def request_bytes(self) -> int: ...
    @property
    def responses(self) -> int: ...
    @property
    def response_bytes(self) -> int: ...
    @property
    def latency_ns(self) -> int: ...
    @property
    def histogram(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Scrape:
    """Plain numbers of one moment, summed over nothing: a list entry a worker.

    Names of totals and of causes are those of the enums in kproxy.proxy.counted, in small letters. *analysis* is what the analyzer
    said last (kproxy.proxy.analysis_counts), empty when it said nothing yet.
    """

    apis: Sequence[Sequence[Counted]]
    totals: Sequence[Mapping[str, int]]
    closes: Sequence[Mapping[str, int]]
    bounds: Sequence[
        int
    ] = ()  # ns: the upper bounds of the histogram's buckets, the last one, for all the rest, left out
    analysis: Mapping[str, Any] | None = None
    analysis_enabled: bool = False
    workers: int = 0  # that listen
    restarts: Mapping[str, int] | None = None  # "worker", "analyzer" -> times it was started again


class Source(Protocol):
    """Where the numbers come from."""

    def scrape(self) -> Scrape:
        """The numbers of this moment."""


@dataclass(frozen=True, slots=True)
class Description:
    """One metric, as users see it: counters without ``_total``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    total: str = ""  # the worker's total that it is, or those with a place for the value of its only label
    of: tuple[str, ...] = ()  # values of that label
    scale: float = 1.0
    merge: Literal["sum", "max"] = "sum"  # over the workers


API: Final = ("api", "api_version")

DESCRIPTIONS: Final[tuple[Description, ...]] = (
    Description("kproxy_build", "info", "The version of kproxy."),
    Description("kproxy_requests", "counter", "Requests that passed, by API and version.", API),
    Description("kproxy_request_bytes", "counter", "Bytes of these requests.", API),
    Description("kproxy_responses", "counter", "Responses that passed, by API and version of their request.", API),
    Description("kproxy_response_bytes", "counter", "Bytes of these responses.", API),
    Description(
        "kproxy_latency_seconds",
        "histogram",
        "Time from a request's header to its response's header, as the proxy saw it.",
        API,
    ),
    Description(
        "kproxy_bytes", "counter", "Bytes forwarded, by direction.", ("direction",), "bytes_{}", ("request", "response")
    ),
    Description(
        "kproxy_connections_opened", "counter", "Connections of clients that were accepted.", (), "connections_opened"
    ),
    Description("kproxy_connections_open", "gauge", "Connections of clients that are open.", (), "connections_open"),
    Description("kproxy_connections_closed", "counter", "Connections that ended, by cause.", ("cause",)),
    Description(
        "kproxy_connections_refused", "counter", "Connections refused because of a limit.", (), "refused_connections"
    ),
    Description("kproxy_accept_errors", "counter", "Failures to accept a connection.", (), "accept_errors"),
    Description("kproxy_in_flight_requests", "gauge", "Requests that wait for their response.", (), "in_flight"),
    Description("kproxy_buffered_bytes", "gauge", "Bytes that wait in the proxy's buffers.", (), "buffered_bytes"),
    Description(
        "kproxy_upstream_connects", "counter", "Connections to brokers that were made.", (), "upstream_connects"
    ),
    Description(
        "kproxy_upstream_connect_failures",
        "counter",
        "Connections to brokers that failed.",
        (),
        "upstream_connect_failures",
    ),
    Description(
        "kproxy_tls_handshakes",
        "counter",
        "TLS handshakes that succeeded, by leg.",
        ("leg",),
        "tls_handshakes_ok_{}",
        ("client", "broker"),
    ),
    Description(
        "kproxy_tls_handshake_failures",
        "counter",
        "TLS handshakes that failed, by leg.",
        ("leg",),
        "tls_handshakes_failed_{}",
        ("client", "broker"),
    ),
    Description(
        "kproxy_unknown_apis",
        "counter",
        "Requests of an API or version that kproxy does not know, forwarded.",
        (),
        "unknown_apis",
    ),
    Description(
        "kproxy_mispaired_responses", "counter", "Responses whose correlation id was not the one due.", (), "mispaired"
    ),
    Description(
        "kproxy_opaque_connections",
        "counter",
        "Connections forwarded blindly since frames could not be told apart.",
        (),
        "opaque_connections",
    ),
    Description("kproxy_held_frames", "counter", "Frames held whole for a filter.", (), "held_frames"),
    Description("kproxy_rewritten_frames", "counter", "Frames that a filter changed.", (), "rewritten_frames"),
    Description(
        "kproxy_withheld_addresses", "counter", "Brokers' addresses withheld from clients.", (), "withheld_addresses"
    ),
    Description(
        "kproxy_filter_faults", "counter", "Filters that raised, hung or answered what cannot be.", (), "filter_faults"
    ),
    Description(
        "kproxy_loop_lag_seconds",
        "gauge",
        "Longest turn of a worker's event loop.",
        (),
        "loop_lag_max_ns",
        (),
        1 / NANOSECONDS,
        "max",
    ),
    Description("kproxy_tapped_chunks", "counter", "Pieces of traffic copied to the analyzer.", (), "tapped_chunks"),
    Description("kproxy_tapped_bytes", "counter", "Bytes of traffic copied to the analyzer.", (), "tapped_bytes"),
    Description(
        "kproxy_tap_dropped_chunks",
        "counter",
        "Pieces that the analyzer did not get: it was behind.",
        (),
        "tap_dropped_chunks",
    ),
    Description("kproxy_tap_dropped_bytes", "counter", "Bytes that the analyzer did not get.", (), "tap_dropped_bytes"),
    Description("kproxy_workers", "gauge", "Workers that listen."),
    Description("kproxy_restarts", "counter", "Processes that ended and were started again.", ("process",)),
    Description("kproxy_analysis_up", "gauge", "1 if the analyzer runs and says what it counts."),
    Description(
        "kproxy_analysis_lag_seconds",
        "gauge",
        "How far the analyzer was behind the traffic at most, in the last second.",
    ),
    Description("kproxy_analysis_connections", "gauge", "Connections being analyzed."),
    Description("kproxy_analyzed_frames", "counter", "Requests and responses analyzed."),
    Description("kproxy_analyzed_exchanges", "counter", "Requests analyzed, with their responses."),
    Description(
        "kproxy_undecoded_exchanges", "counter", "Exchanges in which something could not be read, by API.", ("api",)
    ),
    Description("kproxy_unanswered_requests", "counter", "Requests that were due an answer and got none."),
    Description(
        "kproxy_response_errors", "counter", "Responses with an error code, by API and error.", ("api", "error")
    ),
    Description(
        "kproxy_topic_bytes", "counter", "Bytes of records, by topic and by produce or fetch.", ("topic", "operation")
    ),
    Description("kproxy_rebalances", "counter", "Rebalances of classic consumer groups.", ("group",)),
    Description("kproxy_analysis_gaps", "counter", "Times that bytes were missing in a connection's analysis."),
    Description("kproxy_analysis_lost_bytes", "counter", "Bytes missing in the analysis."),
    Description("kproxy_analysis_bad_frames", "counter", "Frames that no peer would accept."),
    Description("kproxy_analysis_not_kafka", "counter", "Connections that did not speak Kafka."),
    Description(
        "kproxy_analysis_faults", "counter", "Connections whose analysis failed, by exception.", ("exception",)
    ),
    Description("kproxy_analysis_given_up", "counter", "Connections no longer analyzed for lack of room."),
    Description("kproxy_output_bytes", "counter", "Bytes written to the analyzer's files.", ("output",)),
    Description("kproxy_output_dropped_bytes", "counter", "Bytes that could not be written to them.", ("output",)),
    Description("kproxy_output_failures", "counter", "Times that they could not be written.", ("output",)),
)

# What the analyzer says -> the metric it is.
_NUMBERS = {
    "frames": "kproxy_analyzed_frames",
    "exchanges": "kproxy_analyzed_exchanges",
    "unanswered": "kproxy_unanswered_requests",
    "gaps": "kproxy_analysis_gaps",
    "lost_bytes": "kproxy_analysis_lost_bytes",
    "bad_frames": "kproxy_analysis_bad_frames",
    "not_kafka": "kproxy_analysis_not_kafka",
    "given_up": "kproxy_analysis_given_up",
    "connections": "kproxy_analysis_connections",
}
_ROWS = {
    "undecoded": "kproxy_undecoded_exchanges",
    "errors": "kproxy_response_errors",
    "topics": "kproxy_topic_bytes",
    "rebalances": "kproxy_rebalances",
}
_OUTPUTS = {
    "written": "kproxy_output_bytes",
    "dropped": "kproxy_output_dropped_bytes",
    "failures": "kproxy_output_failures",
}
