"""Every metric of kproxy: name, type, help and labels. Dashboards and rules are made from these.

    traffic         kproxy_requests, _responses, _request_bytes, _response_bytes by API and version; kproxy_bytes by direction
    sizes           kproxy_request_size_bytes, kproxy_response_size_bytes: histograms by API
    time            kproxy_latency_seconds by API and version; kproxy_phase_seconds by API: what of it kproxy itself took on the
                    way to the broker, the broker, and kproxy on the way back. rate(..._sum) / rate(..._count) is a mean, and
                    histogram_quantile(0.99, ...) a percentile, of classic and of native histograms (histograms.py)
    throttling      kproxy_throttled_responses, kproxy_throttle_seconds by API; kproxy_client_throttle_seconds
    errors          kproxy_response_errors by API and error; kproxy_undecoded_exchanges, kproxy_unanswered_requests
    load            kproxy_in_flight_requests, kproxy_buffered_bytes, kproxy_loop_lag_seconds; back-pressure: kproxy_read_pauses,
                    kproxy_read_paused_seconds, kproxy_reading_paused by direction; kproxy_open_files_limit
    connections     kproxy_connections_opened, _open, _refused, _closed by cause; kproxy_upstream_*; TLS: kproxy_tls_handshakes
                    and kproxy_tls_handshake_failures by leg; SASL: kproxy_sasl_logins by mechanism and result
    filters         kproxy_held_frames, _rewritten_frames, kproxy_filter_faults, kproxy_filter_events; time:
                    kproxy_filter_seconds, kproxy_filter_calls
    tap             kproxy_tapped_*, kproxy_tap_dropped_*, kproxy_exchanges_left_out, kproxy_bodies_left_out, kproxy_analysis_*
    by client id    kproxy_client_*          by topic    kproxy_topic_*
    by group        kproxy_group_*, kproxy_rebalances; lag as seen here: kproxy_group_lag_records, kproxy_group_lag_max_records
    by software     kproxy_software_*: who still uses old versions
                    All of these have the label cluster, the virtual cluster: a topic of the same name in another is another topic

Labels are bounded: APIs, versions and causes by what kproxy knows (``other`` for the rest), names from traffic by the analyzer
(``__other__``). Series by names that peers invent begin at 0, and end when they are idle or others send more: what is right is
their rate, and its sum (kproxy/proxy/analyzer/series.py). Values: metrics.py.
"""

from dataclasses import dataclass
from typing import Final, Literal

NANOSECONDS = 1e9  # of a second
MILLISECONDS = 1e3

Kind = Literal["counter", "gauge", "histogram", "info"]


@dataclass(frozen=True, slots=True)
class Description:
    """One metric, as users see it: counters without ``_total``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    total: str = (
        ""  # the workers' total that it is (kproxy.proxy.tap.counted); with {}: one for each value of its label
    )
    of: tuple[str, ...] = ()  # these values
    scale: float = 1.0
    merge: Literal["sum", "max"] = "sum"  # over the workers


API: Final = ("api", "api_version")
CLIENT: Final = ("cluster", "client_id")
SOFTWARE: Final = ("cluster", "software_name", "software_version")
TOPIC: Final = ("cluster", "topic", "operation")
GROUP: Final = ("cluster", "group")

DESCRIPTIONS: Final[tuple[Description, ...]] = (
    Description("kproxy_build", "info", "The version of kproxy."),
    Description("kproxy_requests", "counter", "Requests that passed, by API and version.", API),
    Description("kproxy_request_bytes", "counter", "Bytes of these requests.", API),
    Description("kproxy_responses", "counter", "Responses that passed, by API and version of their request.", API),
    Description("kproxy_response_bytes", "counter", "Bytes of these responses.", API),
    Description(
        "kproxy_latency_seconds",
        "histogram",
        "Time from the first byte of a request received by kproxy to the header of its response received from the broker.",
        API,
    ),
    Description(
        "kproxy_phase_seconds",
        "histogram",
        "Parts of the time of an exchange: request_in_proxy is from the first byte of the request received by kproxy to its "
        "last byte sent to the broker, filters included; broker is from there to the first byte of the response; "
        "response_in_proxy is from there to its last byte sent to the client.",
        ("api", "phase"),
    ),
    Description("kproxy_request_size_bytes", "histogram", "Sizes of requests on the wire.", ("api",)),
    Description("kproxy_response_size_bytes", "histogram", "Sizes of responses on the wire.", ("api",)),
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
        "kproxy_read_pauses",
        "counter",
        "Times that kproxy stopped reading requests as the broker did not take more, or responses as the client did not.",
        ("direction",),
        "read_pauses_{}",
        ("request", "response"),
    ),
    Description(
        "kproxy_read_paused_seconds",
        "counter",
        "How long kproxy did not read for that reason, over all connections; pauses that go on are not counted yet.",
        ("direction",),
        "read_paused_ns_{}",
        ("request", "response"),
        1 / NANOSECONDS,
    ),
    Description(
        "kproxy_reading_paused",
        "gauge",
        "Connections of which kproxy does not read requests now, as the broker does not take more, or responses, as the client "
        "does not.",
        ("direction",),
        "reading_paused_{}",
        ("request", "response"),
    ),
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
        "kproxy_filter_faults",
        "counter",
        "Times that a filter failed, by its method (hook) and by kind: raised an exception, timed_out, unusable (what it "
        "returned is no verdict or cannot be sent), undecodable (what it was to get), too_large (to be held for it).",
        ("cluster", "filter", "hook", "kind"),
    ),
    Description(
        "kproxy_filter_events",
        "counter",
        "What filters count, by event and what it is of: the calls of each fault, and those on which it fired.",
        ("cluster", "filter", "event", "name"),
    ),
    Description(
        "kproxy_filter_seconds",
        "counter",
        "Time from handing a request or response to a filter to its verdict, decoding for it included; counted once a second.",
        ("cluster", "filter"),
        scale=1 / NANOSECONDS,
    ),
    Description("kproxy_filter_calls", "counter", "Requests and responses handed to a filter.", ("cluster", "filter")),
    Description(
        "kproxy_client_metrics_dropped",
        "counter",
        "Numbers that clients have sent (filter telemetry) and that are not shown, by reason.",
        ("reason",),
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
        "Frames that the analyzer did not get, or not to their end.",
        (),
        "tap_dropped_chunks",
    ),
    Description("kproxy_tap_dropped_bytes", "counter", "Bytes that the analyzer did not get.", (), "tap_dropped_bytes"),
    Description(
        "kproxy_exchanges_left_out",
        "counter",
        "Requests that passed and are not analyzed, nor are their responses, by reason. Those that are analyzed are all others.",
        ("reason",),
        "left_out_{}",
        (
            "analyzer_behind",
            "analyzer_absent",
            "analyzer_restarted",
            "memory_budget",
            "not_selected",
            "fault",  # shared with the analyzer, which also has analyzer_limits and output
        ),
    ),
    Description(
        "kproxy_bodies_left_out",
        "counter",
        "Frames whose end the analyzer did not get, because it was behind.",
        (),
        "bodies_left_out",
    ),
    Description("kproxy_workers", "gauge", "Workers there are."),
    Description(
        "kproxy_open_files_limit", "gauge", "Files that each process may have open (ulimit -n); a client takes two."
    ),
    Description(
        "kproxy_hung_processes", "counter", "Processes that hung, and were killed and started again.", ("process",)
    ),
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
    Description(
        "kproxy_trailing_bytes_frames",
        "counter",
        "Requests and responses with bytes after the message, which peers ignore, by API and direction.",
        ("api", "direction"),
    ),
    Description(
        "kproxy_cut_frames",
        "counter",
        "Requests and responses analyzed by their beginning, as the rest was left out or never sent, by API and direction.",
        ("api", "direction"),
    ),
    Description("kproxy_unanswered_requests", "counter", "Requests that were due an answer and got none."),
    Description(
        "kproxy_response_errors", "counter", "Responses with an error code, by API and error.", ("api", "error")
    ),
    Description(
        "kproxy_throttled_responses",
        "counter",
        "Responses in which the broker tells the client to wait, as it is over a quota, by API.",
        ("api",),
    ),
    Description(
        "kproxy_throttle_seconds",
        "counter",
        "How long brokers told clients to wait (throttle_time_ms), by API.",
        ("api",),
        scale=1 / MILLISECONDS,
    ),
    Description(
        "kproxy_sasl_logins",
        "counter",
        "SASL authentications by mechanism and result: succeeded, failed (the broker answered with an error), "
        "not_completed (the connection ended before).",
        ("mechanism", "result"),
    ),
    Description("kproxy_client_requests", "counter", "Requests analyzed, by client id.", CLIENT),
    Description("kproxy_client_request_bytes", "counter", "Bytes of these requests.", CLIENT),
    Description("kproxy_client_response_bytes", "counter", "Bytes of their responses.", CLIENT),
    Description("kproxy_client_errors", "counter", "Responses with an error code, by client id.", CLIENT),
    Description(
        "kproxy_client_throttle_seconds",
        "counter",
        "How long brokers told the client to wait (throttle_time_ms), by client id.",
        CLIENT,
        scale=1 / MILLISECONDS,
    ),
    Description(
        "kproxy_software_requests",
        "counter",
        "Requests analyzed, by the client's software as ApiVersions names it; empty where it does not.",
        SOFTWARE,
    ),
    Description(
        "kproxy_software_connections", "counter", "Connections on which clients named their software.", SOFTWARE
    ),
    Description(
        "kproxy_topic_requests",
        "counter",
        "Requests that brought records, by topic and by produce or fetch.",
        TOPIC,
    ),
    Description("kproxy_topic_bytes", "counter", "Bytes of records, by topic and by produce or fetch.", TOPIC),
    Description("kproxy_group_requests", "counter", "Requests of members and of commits, by group.", GROUP),
    Description("kproxy_group_errors", "counter", "Their responses with an error code.", GROUP),
    Description(
        "kproxy_rebalances",
        "counter",
        "Rebalances of groups: generations of classic groups, epochs of members of the others.",
        GROUP,
    ),
    Description(
        "kproxy_group_lag_records",
        "gauge",
        "Lag of a group as seen here: records between its last commit and the end of the partition, summed over the partitions "
        "of which kproxy has seen both. Where the end was last seen in a Produce response it may be too low by a batch.",
        GROUP,
    ),
    Description(
        "kproxy_group_lag_max_records",
        "gauge",
        "Largest lag of a partition of a group, as seen here.",
        GROUP,
    ),
    Description("kproxy_analysis_gaps", "counter", "Times that bytes were missing in a connection's analysis."),
    Description("kproxy_analysis_lost_bytes", "counter", "Bytes missing in the analysis."),
    Description("kproxy_analysis_bad_frames", "counter", "Frames that no peer would accept."),
    Description("kproxy_analysis_not_kafka", "counter", "Connections that did not speak Kafka."),
    Description(
        "kproxy_analysis_faults", "counter", "Connections whose analysis failed, by exception.", ("exception",)
    ),
    Description("kproxy_analysis_given_up", "counter", "Connections no longer analyzed for lack of room."),
    Description(
        "kproxy_analysis_starved",
        "counter",
        "Times that the analyzer, which runs on CPU time that others leave, had next to none and took a fair share.",
    ),
    Description("kproxy_output_bytes", "counter", "Bytes written to the analyzer's files.", ("output",)),
    Description("kproxy_output_dropped_bytes", "counter", "Bytes that could not be written to them.", ("output",)),
    Description("kproxy_output_failures", "counter", "Times that they could not be written.", ("output",)),
    Description(
        "kproxy_spans",
        "counter",
        "Spans made of exchanges, by what became of them: exported, dropped as the queue was full, or failed at the collector.",
        ("outcome",),
    ),
)

BY_NAME: Final = {description.name: description for description in DESCRIPTIONS}
