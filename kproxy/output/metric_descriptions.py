"""Every metric of kproxy: name, type, labels, where its numbers come from, and help. Dashboards and rules are made from these.

kproxy_latency_seconds is the time of whole exchanges; kproxy_phase_seconds divides it into the time in kproxy on the way to the
broker, in the broker, and in kproxy on the way back. rate(..._sum) / rate(..._count) is a mean, and
histogram_quantile(0.99, ...) a percentile, of classic and of native histograms (histograms.py).

Metrics by client id, software, topic and group have the label cluster, the virtual cluster: a topic of the same name in another
cluster is another topic. Labels are bounded: APIs, versions and causes by what kproxy knows (``other`` for the rest), names from
traffic by the analyzer (``__other__``). Series by names that peers invent begin at 0, and end when they are idle or others send
more, so use their rates, and sums of these (kproxy/proxy/analyzer/series.pyx). Values: metrics.py.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

NANOSECONDS = 1e9  # of a second
UNITS = {None: 1.0, "ns": NANOSECONDS, "ms": 1e3}  # parts of a second

Kind = Literal["counter", "gauge", "histogram", "info"]


@dataclass(frozen=True, slots=True)
class Description:
    """One metric, as users see it: counters without ``_total``."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    origin: str  # where metrics.py takes its numbers from: apis, workers, analysis, series, outputs; "": elsewhere
    source: str  # name of the numbers there; with {}: one for each of the values
    values: tuple[str, ...]  # of the only label
    parts: float  # how many parts of a unit the numbers count
    merges_by_maximum: bool  # over the workers; otherwise they are added


# Name, type, {labels}, = origin.source, in unit; then the help. A source with braces has one number for each value of the label.
_METRICS = """
kproxy_build info
    The version of kproxy.
kproxy_requests counter {api,api_version} = apis.requests
    Requests that passed, by API and version.
kproxy_request_bytes counter {api,api_version} = apis.request_bytes
    Bytes of the requests that passed.
kproxy_responses counter {api,api_version} = apis.responses
    Responses that passed, by API and version of their request.
kproxy_response_bytes counter {api,api_version} = apis.response_bytes
    Bytes of the responses that passed.
kproxy_latency_seconds histogram {api,api_version}
    Time from the first byte of a request received by kproxy to the header of its response received from the broker.
kproxy_phase_seconds histogram {api,phase}
    Parts of the time of an exchange: request_in_proxy is from the first byte of the request received by kproxy to its
    last byte sent to the broker, filters included; broker is from there to the first byte of the response;
    response_in_proxy is from there to its last byte sent to the client.
kproxy_request_size_bytes histogram {api}
    Sizes of requests on the wire.
kproxy_response_size_bytes histogram {api}
    Sizes of responses on the wire.
kproxy_bytes counter {direction} = workers.bytes_{request,response}
    Bytes forwarded, by direction.
kproxy_connections_opened counter = workers.connections_opened
    Connections of clients that were accepted.
kproxy_connections_open gauge = workers.connections_open
    Connections of clients that are open.
kproxy_connections_closed counter {cause}
    Connections that ended, by cause.
kproxy_connections_refused counter = workers.refused_connections
    Connections refused because of a limit.
kproxy_accept_errors counter = workers.accept_errors
    Failures to accept a connection.
kproxy_in_flight_requests gauge = workers.in_flight
    Requests that wait for their response.
kproxy_buffered_bytes gauge = workers.buffered_bytes
    Bytes that wait in the proxy's buffers.
kproxy_read_pauses counter {direction} = workers.read_pauses_{request,response}
    Times that kproxy stopped reading requests because the broker took no more, or responses because the client took no more.
kproxy_read_paused_seconds counter {direction} = workers.read_paused_ns_{request,response} in ns
    How long kproxy did not read for that reason, over all connections; a pause is counted when it ends.
kproxy_reading_paused gauge {direction} = workers.reading_paused_{request,response}
    Connections on which kproxy currently does not read requests because the broker takes no more, or responses because the
    client takes no more.
kproxy_upstream_connects counter = workers.upstream_connects
    Connections to brokers that were made.
kproxy_upstream_connect_failures counter = workers.upstream_connect_failures
    Connections to brokers that failed.
kproxy_tls_handshakes counter {leg} = workers.tls_handshakes_ok_{client,broker}
    TLS handshakes that succeeded, by leg.
kproxy_tls_handshake_failures counter {leg} = workers.tls_handshakes_failed_{client,broker}
    TLS handshakes that failed, by leg.
kproxy_client_logins counter {outcome} = workers.client_logins_{ok,failed,repeated}
    Logins of clients at kproxy, by outcome; repeated: a client that was in has logged in again (KIP-368).
kproxy_broker_logins counter = workers.broker_logins_ok
    Logins of kproxy at brokers that succeeded, those that renew a session included.
kproxy_broker_login_failures counter = workers.broker_logins_failed
    Logins of kproxy at brokers that failed; the log says why.
kproxy_unknown_apis counter = workers.unknown_apis
    Requests of an API or version that kproxy does not know, forwarded.
kproxy_mispaired_responses counter = workers.mispaired
    Responses with another correlation id than the one that was due.
kproxy_opaque_connections counter = workers.opaque_connections
    Connections forwarded blindly because frame boundaries were lost.
kproxy_held_frames counter = workers.held_frames
    Frames held completely for a filter.
kproxy_rewritten_frames counter = workers.rewritten_frames
    Frames that a filter changed.
kproxy_withheld_addresses counter = workers.withheld_addresses
    Brokers' addresses withheld from clients.
kproxy_filter_faults counter {cluster,filter,hook,kind}
    Times that a filter failed, by its method (hook) and by kind: raised an exception, timed_out, unusable (it returned no
    verdict, or one that cannot be sent), undecodable (its input), too_large (to be held for it).
kproxy_filter_events counter {cluster,filter,event,name}
    What filters count, by event and name: the calls of each fault, and the calls on which it fired.
kproxy_filter_seconds counter {cluster,filter} in ns
    Time from handing a request or response to a filter to its verdict, decoding for it included; counted once a second.
kproxy_filter_calls counter {cluster,filter}
    Requests and responses handed to a filter.
kproxy_client_metrics_dropped counter {reason}
    Measurements sent by clients (filter telemetry) that are not shown, by reason.
kproxy_loop_lag_seconds gauge = workers.loop_lag_max_ns in ns, maximum
    Longest turn of a worker's event loop.
kproxy_tapped_chunks counter = workers.tapped_chunks
    Pieces of traffic copied to the analyzer.
kproxy_tapped_bytes counter = workers.tapped_bytes
    Bytes of traffic copied to the analyzer.
kproxy_tap_dropped_chunks counter = workers.tap_dropped_chunks
    Frames that did not reach the analyzer, or not completely.
kproxy_tap_dropped_bytes counter = workers.tap_dropped_bytes
    Bytes that did not reach the analyzer.
kproxy_exchanges_left_out counter {reason} = workers.left_out_{
    analyzer_behind,analyzer_absent,analyzer_restarted,memory_budget,not_selected,fault}
    Requests that passed and are not analyzed, nor are their responses, by reason. All other requests are analyzed.
kproxy_bodies_left_out counter = workers.bodies_left_out
    Frames whose end did not reach the analyzer, because it was behind.
kproxy_workers gauge
    Worker processes.
kproxy_open_files_limit gauge
    Files that each process may have open (ulimit -n); a client takes two.
kproxy_hung_processes counter {process}
    Processes that hung, and were killed and started again.
kproxy_analysis_up gauge
    1 if the analyzer runs and reports its counts.
kproxy_analysis_lag_seconds gauge = analysis.most_lag_ns in ns
    The most that the analyzer was behind the traffic in the last second.
kproxy_analysis_connections gauge = analysis.connections
    Connections being analyzed.
kproxy_analyzed_frames counter = analysis.frames
    Requests and responses analyzed.
kproxy_analyzed_exchanges counter = analysis.exchanges
    Requests analyzed, with their responses.
kproxy_undecoded_exchanges counter {api} = analysis.undecoded
    Exchanges in which something could not be read, by API.
kproxy_trailing_bytes_frames counter {api,direction} = analysis.trailing
    Requests and responses with bytes after the message, which peers ignore, by API and direction.
kproxy_cut_frames counter {api,direction} = analysis.cut
    Requests and responses whose beginning was analyzed, as the rest was left out or never sent, by API and direction.
kproxy_unanswered_requests counter = analysis.unanswered
    Requests whose response was due and did not come.
kproxy_response_errors counter {api,error} = analysis.errors
    Responses with an error code, by API and error.
kproxy_throttled_responses counter {api} = analysis.throttled
    Responses in which the broker tells the client to wait, as it is over a quota, by API.
kproxy_throttle_seconds counter {api} = analysis.throttle_ms in ms
    How long brokers told clients to wait (throttle_time_ms), by API.
kproxy_sasl_logins counter {mechanism,result} = analysis.sasl
    SASL authentications by mechanism and result: succeeded, failed (the broker answered with an error), not_completed
    (the connection ended before).
kproxy_client_requests counter {cluster,client_id} = series.clients
    Requests analyzed, by client id.
kproxy_client_request_bytes counter {cluster,client_id} = series.clients
    Bytes of the requests analyzed, by client id.
kproxy_client_response_bytes counter {cluster,client_id} = series.clients
    Bytes of the responses analyzed, by client id.
kproxy_client_errors counter {cluster,client_id} = series.clients
    Responses with an error code, by client id.
kproxy_client_throttle_seconds counter {cluster,client_id} = series.clients in ms
    How long brokers told the client to wait (throttle_time_ms), by client id.
kproxy_principal_requests counter {cluster,principal} = series.principals
    Requests analyzed, by the client's principal: its user name or its certificate. Clients without one are not counted.
kproxy_principal_request_bytes counter {cluster,principal} = series.principals
    Bytes of the requests analyzed, by the client's principal.
kproxy_principal_response_bytes counter {cluster,principal} = series.principals
    Bytes of the responses analyzed, by the client's principal.
kproxy_principal_errors counter {cluster,principal} = series.principals
    Responses with an error code, by the client's principal.
kproxy_principal_throttle_seconds counter {cluster,principal} = series.principals in ms
    How long brokers told the client to wait (throttle_time_ms), by the client's principal.
kproxy_software_requests counter {cluster,software_name,software_version} = series.software
    Requests analyzed, by the client's software in ApiVersions; empty if it names none.
kproxy_software_connections counter {cluster,software_name,software_version} = series.software
    Connections on which clients named their software.
kproxy_topic_requests counter {cluster,topic,operation} = series.topics
    Requests that carried records to or from a topic, by topic and by produce or fetch.
kproxy_topic_bytes counter {cluster,topic,operation} = series.topics
    Bytes of records, by topic and by produce or fetch.
kproxy_group_requests counter {cluster,group} = series.groups
    Requests of members and of commits, by group.
kproxy_group_errors counter {cluster,group} = series.groups
    Responses with an error code, by group.
kproxy_rebalances counter {cluster,group} = series.groups
    Rebalances of groups: generations of classic groups, epochs of members of the others.
kproxy_group_lag_records gauge {cluster,group} = series.lag
    Lag of a group as seen here: records between its last commit and the end of the partition, summed over the partitions
    for which kproxy has seen both. If the end was last seen in a Produce response, the lag may be too low by a batch.
kproxy_group_lag_max_records gauge {cluster,group} = series.lag
    Largest lag of a partition of a group, as seen here.
kproxy_analysis_gaps counter = analysis.gaps
    Times that bytes were missing in a connection's analysis.
kproxy_analysis_lost_bytes counter = workers.tap_dropped_bytes
    Bytes missing in the analysis: those of kproxy_tap_dropped_bytes.
kproxy_analysis_bad_frames counter = analysis.bad_frames
    Frames that no peer would accept.
kproxy_analysis_not_kafka counter = analysis.not_kafka
    Connections that did not speak Kafka.
kproxy_analysis_faults counter {exception} = analysis.faults
    Connections whose analysis failed, by exception.
kproxy_analysis_given_up counter = analysis.given_up
    Connections no longer analyzed for lack of room.
kproxy_analysis_starved counter = analysis.starved
    Times that the analyzer, which runs on spare CPU time, had almost none and took a fair share.
kproxy_output_bytes counter {output} = outputs.written
    Bytes written to the analyzer's files.
kproxy_output_dropped_bytes counter {output} = outputs.dropped
    Bytes that could not be written to the analyzer's files.
kproxy_output_failures counter {output} = outputs.failures
    Times that writing to the analyzer's files failed.
kproxy_spans counter {outcome} = analysis.spans
    Spans made of exchanges, by outcome: exported, dropped because the queue was full, or failed at the collector.
"""
_METRIC = re.compile(
    r"(?P<name>\w+) (?P<kind>\w+)(?: \{(?P<labels>[\w,]+)\})?"
    r"(?: = (?P<origin>\w+)\.(?P<source>\w+)(?:\{(?P<values>[\w,\s]+)\})?)?"
    r"(?: in (?P<unit>ns|ms))?(?P<maximum>, maximum)?(?P<help>(?:\n +.+)+)"
)


def _described(text: str) -> Iterator[Description]:
    for match in _METRIC.finditer(text):
        labels, values = (tuple(re.findall(r"\w+", match[name] or "")) for name in ("labels", "values"))
        source = f"{match['source']}{{}}" if values else match["source"] or ""
        yield Description(
            match["name"],
            cast(Kind, match["kind"]),
            labels,
            " ".join(match["help"].split()),
            match["origin"] or "",
            source,
            values,
            UNITS[match["unit"]],
            match["maximum"] is not None,
        )


DESCRIPTIONS: Final = tuple(_described(_METRICS))
BY_NAME: Final = {description.name: description for description in DESCRIPTIONS}
