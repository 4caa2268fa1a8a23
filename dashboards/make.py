"""Make the Grafana dashboards: `python dashboards/make.py` writes them beside this file, `--check` says whether they are current.

Each dashboard is a list of rows of panels; a panel is a question, its unit and its queries. The JSON is what
grafana-foundation-sdk makes of it. To add a panel, add it here, run this, and import the JSON into a Grafana to look at it.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, StackingMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, FieldColorModeId, VariableRefresh
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FOLDER = Path(__file__).parent
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT = 8
BY_NAME = dashboard.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME)  # an API has one colour everywhere
AT_ONCE = 'api!~"Fetch|JoinGroup|ShareFetch|SyncGroup"'  # the others wait for records, or for members of a group


class Query(NamedTuple):
    """One query, and how its series are named."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """A question and its answer over time; ``now``: only the last value; ``table``: a row for each series."""

    title: str
    help: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "time"
    width: int = 8
    stacked: bool = False


class Page(NamedTuple):
    """One dashboard."""

    name: str  # of its file, and in its uid
    title: str
    help: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]


def chosen(metric: str, *conditions: str) -> str:
    """The metric of the instances that are chosen at the top of the page."""
    wanted = ", ".join(('job=~"$job"', 'instance=~"$instance"', *conditions))
    return f"{metric}{{{wanted}}}"


def rate(metric: str, *conditions: str) -> str:
    """Per second."""
    return f"rate({chosen(metric, *conditions)}[$__rate_interval])"


def total(metric: str, by: str = "", *conditions: str) -> str:
    """The rates, summed."""
    return f"sum{f' by ({by})' if by else ''} ({rate(metric, *conditions)})"


def recent(metric: str, by: str = "", *conditions: str) -> str:
    """How much it grew in the last minute, also where its series began in it, of which rate() and increase() know nothing."""
    now = chosen(metric, *conditions)
    return f"sum{f' by ({by})' if by else ''} (clamp_min({now} - ({now} offset 1m), 0) or {now})"


def seen(expression: str) -> str:
    """Without the series that stand at 0."""
    return f"{expression} > 0"


def most(expression: str, count: int = 10) -> str:
    """The largest."""
    return f"topk({count}, {expression})"


def quantile(part: float, metric: str, by: str = "", *conditions: str) -> str:
    """A quantile of a histogram."""
    buckets = f"sum by (le{f', {by}' if by else ''}) ({rate(f'{metric}_bucket', *conditions)})"
    return f"histogram_quantile({part}, {buckets})"


def quantiles(metric: str, *conditions: str) -> tuple[Query, ...]:
    """Median, 99th and 99.9th percentile."""
    named = ((0.5, "median"), (0.99, "99 %"), (0.999, "99.9 %"))
    return tuple(Query(quantile(part, metric, "", *conditions), name) for part, name in named)


def ratio(part: str, whole: str) -> str:
    """A share, 0 where there is nothing."""
    return f"{part} / ({whole} > 0)"


REQUESTS = total("kproxy_requests_total")
OWN_PHASES = 'phase=~"request_in_proxy|response_in_proxy"'

OVERVIEW = Page(
    "overview",
    "kproxy: overview",
    "What passes, how fast, and whether anything needs a look.",
    (
        (
            "Now",
            (
                Panel("Requests", "Requests per second.", "reqps", (Query(REQUESTS),), "now", 4),
                Panel("Bytes", "Both directions.", "Bps", (Query(total("kproxy_bytes_total")),), "now", 4),
                Panel(
                    "Clients",
                    "Connections that are open.",
                    "short",
                    (Query(f"sum({chosen('kproxy_connections_open')})"),),
                    "now",
                    4,
                ),
                Panel(
                    "Errors",
                    "Responses with an error code, of all. Some are part of normal work, as MEMBER_ID_REQUIRED.",
                    "percentunit",
                    (Query(ratio(recent("kproxy_response_errors_total"), recent("kproxy_responses_total"))),),
                    "now",
                    4,
                ),
                Panel(
                    "Latency, 99 %",
                    "From a request to its response, without the time that Fetch waits for records.",
                    "s",
                    (Query(quantile(0.99, "kproxy_latency_seconds", "", AT_ONCE)),),
                    "now",
                    4,
                ),
                Panel(
                    "kproxy's part, 99 %",
                    "Time that requests and responses spend in kproxy, filters included.",
                    "s",
                    (Query(quantile(0.99, "kproxy_phase_seconds", "", OWN_PHASES)),),
                    "now",
                    4,
                ),
            ),
        ),
        (
            "Traffic",
            (
                Panel(
                    "Requests by API",
                    "The ten most frequent.",
                    "reqps",
                    (Query(most(total("kproxy_requests_total", "api")), "{{api}}"),),
                    stacked=True,
                ),
                Panel(
                    "Bytes by direction",
                    "request: towards brokers; response: towards clients.",
                    "Bps",
                    (Query(total("kproxy_bytes_total", "direction"), "{{direction}}"),),
                ),
                Panel(
                    "Bytes by topic",
                    "Record bytes produced and fetched, the ten largest topics.",
                    "Bps",
                    (
                        Query(
                            most(total("kproxy_topic_bytes_total", "cluster, topic, operation")),
                            "{{topic}} {{operation}} ({{cluster}})",
                        ),
                    ),
                ),
                Panel(
                    "Errors by API",
                    "Responses with an error code, in a minute.",
                    "short",
                    (Query(most(seen(recent("kproxy_response_errors_total", "api, error"))), "{{api}} {{error}}"),),
                ),
                Panel(
                    "Latency by API, 99 %",
                    "Without Fetch, JoinGroup, SyncGroup and their like, which wait on purpose: see the dashboard on latency.",
                    "s",
                    (Query(most(quantile(0.99, "kproxy_latency_seconds", "api", AT_ONCE)), "{{api}}"),),
                ),
                Panel(
                    "Connections",
                    "Opened and closed per second.",
                    "cps",
                    (
                        Query(total("kproxy_connections_opened_total"), "opened"),
                        Query(seen(total("kproxy_connections_closed_total", "cause")), "closed: {{cause}}"),
                    ),
                ),
            ),
        ),
    ),
)

CLIENTS = Page(
    "clients",
    "kproxy: clients and their versions",
    "Who is connected, with which software, and which of it is old.",
    (
        (
            "Software",
            (
                Panel(
                    "Requests by client software",
                    "As clients name it in ApiVersions (KIP-511); empty: clients older than Kafka 2.4.",
                    "reqps",
                    (
                        Query(
                            total("kproxy_software_requests_total", "software_name, software_version"),
                            "{{software_name}} {{software_version}}",
                        ),
                    ),
                    width=12,
                    stacked=True,
                ),
                Panel(
                    "Software seen in this time",
                    "Requests of each software and version, in the time that is shown.",
                    "short",
                    (
                        Query(
                            "sum by (software_name, software_version) "
                            f"(increase({chosen('kproxy_software_requests_total')}[$__range])) > 0"
                        ),
                    ),
                    "table",
                    12,
                ),
                Panel(
                    "Versions of Fetch and Produce in use",
                    "Kafka 4.0 takes Produce from version 3 and Fetch from version 4 on (KIP-896).",
                    "reqps",
                    (
                        Query(
                            total("kproxy_requests_total", "api, api_version", 'api=~"Produce|Fetch"'),
                            "{{api}} v{{api_version}}",
                        ),
                    ),
                    width=12,
                ),
                Panel(
                    "Requests of unknown APIs or versions",
                    "Newer than this kproxy; they are forwarded.",
                    "reqps",
                    (Query(total("kproxy_unknown_apis_total"), "unknown"),),
                    width=12,
                ),
            ),
        ),
        (
            "Client ids",
            (
                Panel(
                    "Requests by client id",
                    "The ten that send most.",
                    "reqps",
                    (
                        Query(
                            most(total("kproxy_client_requests_total", "cluster, client_id")),
                            "{{client_id}} ({{cluster}})",
                        ),
                    ),
                ),
                Panel(
                    "Bytes sent by client id",
                    "Requests, the ten largest.",
                    "Bps",
                    (
                        Query(
                            most(total("kproxy_client_request_bytes_total", "cluster, client_id")),
                            "{{client_id}} ({{cluster}})",
                        ),
                    ),
                ),
                Panel(
                    "Bytes received by client id",
                    "Responses, the ten largest.",
                    "Bps",
                    (
                        Query(
                            most(total("kproxy_client_response_bytes_total", "cluster, client_id")),
                            "{{client_id}} ({{cluster}})",
                        ),
                    ),
                ),
                Panel(
                    "Errors by client id",
                    "Responses with an error code.",
                    "reqps",
                    (
                        Query(
                            most(total("kproxy_client_errors_total", "cluster, client_id")),
                            "{{client_id}} ({{cluster}})",
                        ),
                    ),
                ),
                Panel(
                    "Throttling by client id",
                    "Seconds a second that brokers tell a client to wait: above 1, it could not send as it wants.",
                    "short",
                    (
                        Query(
                            most(total("kproxy_client_throttle_seconds_total", "cluster, client_id")),
                            "{{client_id}} ({{cluster}})",
                        ),
                    ),
                ),
                Panel(
                    "Logins",
                    "SASL in a minute, by mechanism and result.",
                    "short",
                    (Query(recent("kproxy_sasl_logins_total", "mechanism, result"), "{{mechanism}} {{result}}"),),
                ),
            ),
        ),
    ),
)

LATENCY = Page(
    "latency",
    "kproxy: latency",
    "Where the time of an exchange goes: kproxy, broker, or the network towards the client.",
    (
        (
            "Parts",
            (
                Panel(
                    "All requests but those that wait",
                    "From a request's first byte to its response, without Fetch, JoinGroup, SyncGroup.",
                    "s",
                    quantiles("kproxy_latency_seconds", AT_ONCE),
                ),
                Panel(
                    "By part, 99 %",
                    "request_in_proxy and response_in_proxy are kproxy's, filters included; broker is all behind it.",
                    "s",
                    (
                        Query(
                            quantile(0.99, "kproxy_phase_seconds", "phase", AT_ONCE),
                            "{{phase}}",
                        ),
                    ),
                ),
                Panel(
                    "kproxy's part by API, 99 %",
                    "An API with a filter takes longer.",
                    "s",
                    (Query(most(quantile(0.99, "kproxy_phase_seconds", "api", OWN_PHASES)), "{{api}}"),),
                ),
            ),
        ),
        (
            "APIs",
            (
                Panel(
                    "Produce",
                    "Waits for replicas with acks=all.",
                    "s",
                    quantiles("kproxy_latency_seconds", 'api="Produce"'),
                ),
                Panel(
                    "Fetch",
                    "Waits for records, up to fetch.max.wait.ms.",
                    "s",
                    quantiles("kproxy_latency_seconds", 'api="Fetch"'),
                ),
                Panel("OffsetCommit", "", "s", quantiles("kproxy_latency_seconds", 'api="OffsetCommit"')),
                Panel("Metadata", "", "s", quantiles("kproxy_latency_seconds", 'api="Metadata"')),
                Panel(
                    "JoinGroup and SyncGroup",
                    "As long as a rebalance takes.",
                    "s",
                    (
                        Query(
                            quantile(0.99, "kproxy_latency_seconds", "api", 'api=~"JoinGroup|SyncGroup"'),
                            "{{api}}, 99 %",
                        ),
                    ),
                ),
                Panel("Heartbeat", "", "s", quantiles("kproxy_latency_seconds", 'api=~".*Heartbeat"')),
            ),
        ),
        (
            "Sizes",
            (
                Panel(
                    "Requests, 99 %",
                    "Size on the wire.",
                    "bytes",
                    (Query(most(quantile(0.99, "kproxy_request_size_bytes", "api")), "{{api}}"),),
                    width=12,
                ),
                Panel(
                    "Responses, 99 %",
                    "Size on the wire.",
                    "bytes",
                    (Query(most(quantile(0.99, "kproxy_response_size_bytes", "api")), "{{api}}"),),
                    width=12,
                ),
            ),
        ),
    ),
)

ERRORS = Page(
    "errors",
    "kproxy: errors",
    "What brokers answer with an error, what went unanswered, and why connections end.",
    (
        (
            "Answers",
            (
                Panel(
                    "Errors",
                    "Responses with an error code in a minute, by API and error.",
                    "short",
                    (Query(most(seen(recent("kproxy_response_errors_total", "api, error")), 20), "{{api}} {{error}}"),),
                    width=16,
                ),
                Panel(
                    "Errors since kproxy started",
                    "By API and error.",
                    "short",
                    (Query(f"sum by (api, error) ({chosen('kproxy_response_errors_total')}) > 0"),),
                    "table",
                ),
                Panel(
                    "Leaders and coordinators",
                    "In a minute. A short burst at a restart of a broker is normal.",
                    "short",
                    (
                        Query(
                            recent(
                                "kproxy_response_errors_total",
                                "error",
                                'error=~"NOT_LEADER_OR_FOLLOWER|FENCED_LEADER_EPOCH|LEADER_NOT_AVAILABLE|NOT_COORDINATOR|'
                                'COORDINATOR_.*"',
                            ),
                            "{{error}}",
                        ),
                    ),
                ),
                Panel(
                    "Authorization and authentication",
                    "In a minute.",
                    "short",
                    (
                        Query(
                            total("kproxy_response_errors_total", "error", 'error=~".*AUTHORIZATION_FAILED|SASL_.*"'),
                            "{{error}}",
                        ),
                    ),
                ),
                Panel(
                    "Unanswered",
                    "Requests that were due an answer and got none, as the connection ended before.",
                    "reqps",
                    (Query(total("kproxy_unanswered_requests_total"), "unanswered"),),
                ),
            ),
        ),
        (
            "Connections",
            (
                Panel(
                    "Closed, by cause",
                    "",
                    "cps",
                    (Query(seen(total("kproxy_connections_closed_total", "cause")), "{{cause}}"),),
                ),
                Panel(
                    "Towards brokers",
                    "Connections that failed.",
                    "cps",
                    (
                        Query(total("kproxy_upstream_connect_failures_total"), "failed"),
                        Query(total("kproxy_upstream_connects_total"), "made"),
                    ),
                ),
                Panel(
                    "TLS handshakes that failed",
                    "",
                    "cps",
                    (Query(total("kproxy_tls_handshake_failures_total", "leg"), "{{leg}}"),),
                ),
            ),
        ),
    ),
)

GROUPS = Page(
    "groups",
    "kproxy: groups and lag",
    "Consumer groups as their traffic shows them.",
    (
        (
            "Groups",
            (
                Panel(
                    "Lag",
                    "Records between a group's last commit and the end, of the partitions whose commits and ends were seen here.",
                    "short",
                    (
                        Query(
                            most(f"max by (cluster, group) ({chosen('kproxy_group_lag_records')})"),
                            "{{group}} ({{cluster}})",
                        ),
                    ),
                    width=12,
                ),
                Panel(
                    "Largest lag of a partition",
                    "Far above the others: one partition is stuck, or has most of the records.",
                    "short",
                    (
                        Query(
                            most(f"max by (cluster, group) ({chosen('kproxy_group_lag_max_records')})"),
                            "{{group}} ({{cluster}})",
                        ),
                    ),
                    width=12,
                ),
                Panel(
                    "Rebalances",
                    "In five minutes.",
                    "short",
                    (
                        Query(
                            most(f"sum by (cluster, group) (increase({chosen('kproxy_rebalances_total')}[5m]))"),
                            "{{group}} ({{cluster}})",
                        ),
                    ),
                ),
                Panel(
                    "Requests of members",
                    "Heartbeats, joins and commits per second.",
                    "reqps",
                    (Query(most(total("kproxy_group_requests_total", "cluster, group")), "{{group}} ({{cluster}})"),),
                ),
                Panel(
                    "Errors",
                    "Their answers with an error code.",
                    "reqps",
                    (Query(most(total("kproxy_group_errors_total", "cluster, group")), "{{group}} ({{cluster}})"),),
                ),
            ),
        ),
        (
            "Topics",
            (
                Panel(
                    "Produced",
                    "Record bytes, the ten largest topics.",
                    "Bps",
                    (
                        Query(
                            most(total("kproxy_topic_bytes_total", "cluster, topic", 'operation="produce"')),
                            "{{topic}} ({{cluster}})",
                        ),
                    ),
                    width=12,
                ),
                Panel(
                    "Fetched",
                    "Record bytes, the ten largest topics.",
                    "Bps",
                    (
                        Query(
                            most(total("kproxy_topic_bytes_total", "cluster, topic", 'operation="fetch"')),
                            "{{topic}} ({{cluster}})",
                        ),
                    ),
                    width=12,
                ),
            ),
        ),
    ),
)

PROXY = Page(
    "proxy",
    "kproxy: its own health",
    "Whether kproxy itself forwards, analyzes and writes as it should.",
    (
        (
            "Forwarding",
            (
                Panel(
                    "Version",
                    "Of each instance.",
                    "short",
                    (Query(f"sum by (instance, version) ({chosen('kproxy_build_info')})"),),
                    "table",
                ),
                Panel(
                    "Longest turn of a worker's loop",
                    "While a turn lasts, all other connections of the worker wait.",
                    "s",
                    (Query(f"max by (instance) ({chosen('kproxy_loop_lag_seconds')})", "{{instance}}"),),
                ),
                Panel(
                    "Buffers and requests in flight",
                    "",
                    "short",
                    (
                        Query(f"sum({chosen('kproxy_in_flight_requests')})", "requests in flight"),
                        Query(f"sum({chosen('kproxy_buffered_bytes')})", "buffered bytes"),
                    ),
                ),
                Panel(
                    "Waiting for the other side",
                    "Connections of which kproxy does not read more, as broker (request) or client (response) does not take it.",
                    "short",
                    (Query(f"sum by (direction) ({chosen('kproxy_reading_paused')})", "{{direction}}"),),
                ),
                Panel(
                    "Filters: time",
                    "Seconds a second: 1 is a whole core.",
                    "short",
                    (Query(total("kproxy_filter_seconds_total", "cluster, filter"), "{{cluster}} {{filter}}"),),
                ),
                Panel(
                    "Filters: faults",
                    "In a minute. A filter raised, hung or answered what cannot be; a policy then refuses the request.",
                    "short",
                    (
                        Query(
                            recent("kproxy_filter_faults_total", "cluster, filter, hook, kind"),
                            "{{cluster}} {{filter}} {{hook}}: {{kind}}",
                        ),
                    ),
                ),
            ),
        ),
        (
            "Analysis",
            (
                Panel(
                    "The analyzer",
                    "1: it runs.",
                    "short",
                    (Query(f"min by (instance) ({chosen('kproxy_analysis_up')})", "{{instance}}"),),
                ),
                Panel(
                    "Behind the traffic",
                    "At most, in the last second.",
                    "s",
                    (Query(f"max by (instance) ({chosen('kproxy_analysis_lag_seconds')})", "{{instance}}"),),
                ),
                Panel(
                    "Left out",
                    "Exchanges that passed and are not in the log, and bodies of which only the beginning is.",
                    "reqps",
                    (
                        Query(seen(total("kproxy_exchanges_left_out_total", "reason")), "exchanges: {{reason}}"),
                        Query(total("kproxy_bodies_left_out_total"), "bodies"),
                    ),
                ),
                Panel(
                    "Not read",
                    "In a minute: exchanges in which something could not be read, connections that are not Kafka.",
                    "short",
                    (
                        Query(seen(recent("kproxy_undecoded_exchanges_total", "api")), "{{api}}"),
                        Query(recent("kproxy_analysis_not_kafka_total"), "not Kafka"),
                    ),
                ),
                Panel(
                    "Written",
                    "To the log and the capture.",
                    "Bps",
                    (
                        Query(total("kproxy_output_bytes_total", "output"), "{{output}}"),
                        Query(total("kproxy_output_dropped_bytes_total", "output"), "{{output}}: could not be written"),
                    ),
                ),
                Panel(
                    "Processes that hung",
                    "Killed and started again.",
                    "short",
                    (
                        Query(
                            f"sum by (process) (increase({chosen('kproxy_hung_processes_total')}[5m]))", "{{process}}"
                        ),
                    ),
                ),
            ),
        ),
    ),
)

PAGES = (OVERVIEW, CLIENTS, LATENCY, ERRORS, GROUPS, PROXY)


def build(page: Page) -> str:
    """The JSON of a dashboard."""
    made = (
        dashboard.Dashboard(page.title)
        .uid(f"kproxy-{page.name}")
        .description(page.help)
        .tags(["kafka", "kproxy"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_values_of("job", "kproxy_build_info"))
        .with_variable(_values_of("instance", 'kproxy_build_info{job=~"$job"}'))
        .link(dashboard.DashboardLink("kproxy").type("dashboards").tags(["kproxy"]).as_dropdown(True).keep_time(True))
    )
    for title, panels in page.rows:
        made = made.with_row(dashboard.Row(title))
        for panel in panels:
            made = made.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _values_of(name: str, series: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(SOURCE)
        .query(f"label_values({series}, {name})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(True)
        .all_value(".*")
        .multi(True)
    )


def _panel(panel: Panel) -> stat.Panel | table.Panel | timeseries.Panel:
    made: stat.Panel | table.Panel | timeseries.Panel
    if panel.kind == "now":
        made = stat.Panel().reduce_options(ReduceDataOptions().calcs(["lastNotNull"])).height(4)
    elif panel.kind == "table":
        made = table.Panel().height(HEIGHT)
    else:
        made = (
            timeseries.Panel()
            .height(HEIGHT)
            .min(0)
            .color_scheme(BY_NAME)
            .line_width(1)
            .fill_opacity(60 if panel.stacked else 10)
            .legend(
                VizLegendOptions()
                .display_mode(LegendDisplayMode.LIST)
                .placement(LegendPlacement.BOTTOM)
                .show_legend(True)
            )
            .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        )
        if panel.stacked:
            made = made.stacking(StackingConfig().mode(StackingMode.NORMAL))
    made = made.title(panel.title).description(panel.help).unit(panel.unit).span(panel.width).datasource(SOURCE)
    for at, query in enumerate(panel.queries):
        made = made.with_target(_target(panel, query, at))
    return made


def _target(panel: Panel, query: Query, at: int) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(query.expr).ref_id(chr(ord("A") + at)).datasource(SOURCE)
    if panel.kind == "table":
        return made.instant().format(PromQueryFormat.TABLE)
    return made.range().legend_format(query.legend or panel.title)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the Grafana dashboards.")
    parser.add_argument("--check", action="store_true", help="say whether the files are what this would make")
    arguments = parser.parse_args()
    stale = []
    for page in PAGES:
        path, text = FOLDER / f"{page.name}.json", build(page)
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    if stale:
        sys.exit(f"not what dashboards/make.py makes: {', '.join(stale)}; run it without --check")


if __name__ == "__main__":
    main()
