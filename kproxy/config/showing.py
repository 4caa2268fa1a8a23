"""The configuration as it may be shown: what it would run, in a few lines; and its values, without what is or may be a secret.

Withheld are passwords in URLs, headers of traces, options of filters whose names sound like a secret, and all options of
filters that are not kproxy's own: what theirs mean is not known. Names of files stay, also of files that hold keys.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kproxy.config.checks import broker_ports, first_broker_port
from kproxy.config.structs import Analysis, Cluster, Config
from kproxy.options import SOUNDS_SECRET, WITHHELD, without_user_info


def render_summary(config: Config) -> list[str]:
    """Return one line per cluster, then those for all clusters. Only for a checked configuration: URLs have no passwords."""
    lines = [_cluster_line(cluster) for cluster in config.clusters]
    if config.traces:
        lines.append(f"spans of {config.traces.sample:.4g} of the exchanges to {config.traces.otlp}")
    workers = "1 worker" if config.workers == 1 else f"{config.workers} workers"
    lines.append(f"{workers}, {_analysis_words(config.analysis)}")
    changes = ", where breakpoints may be set" if config.page.edits else ""
    if config.page.spill is not None:
        changes += f"; older exchanges of the page go to {config.page.spill.directory}"
    lines.append(f"admin on {config.admin}{changes}" if config.admin else "no admin server")
    return lines


def _cluster_line(cluster: Cluster) -> str:
    target = ", ".join(cluster.bootstrap) or "the original destination of each connection"
    return "; ".join([f"{cluster.name}: {cluster.listen} -> {target}", *_details(cluster)])


def _details(cluster: Cluster) -> Iterator[str]:
    addresses = cluster.addresses
    ports = broker_ports(cluster)
    match addresses.mode:
        case "port" if ports:
            yield f"brokers on ports {min(ports.values())} to {max(ports.values())}"
        case "port":
            yield f"brokers on port {first_broker_port(cluster)} + node id"
        case "sni":
            yield f"brokers by name, {addresses.broker_name}"
        case mode:
            yield f"addresses unchanged ({mode})"
    if addresses.advertise_port:
        own = "" if addresses.mode == "sni" or "{node_id}" in (addresses.advertise or "") else " + node id"
        yield f"advertised port {addresses.advertise_port}{own}"
    for node_id, address in addresses.advertise_brokers.items():
        yield f"broker {node_id} advertised as {address}"
    if cluster.listener_tls:
        yield "TLS from clients"
    if cluster.broker_tls:
        yield "TLS to brokers"
    if cluster.authentication:
        certificates = [] if cluster.authentication.certificates is None else ["certificate"]
        yield f"clients log in by {', '.join([*certificates, *cluster.authentication.mechanisms])}"
    if cluster.login:
        yield f"login at brokers by {cluster.login.mechanism}"
    if cluster.filters:
        yield f"filters {', '.join(use.use for use in cluster.filters)}"


def _analysis_words(analysis: Analysis) -> str:
    if not analysis.enabled:
        return "no analysis"
    files = [rotated.path for rotated in (analysis.log, analysis.capture) if rotated]
    return f"analysis to {' and '.join(files)}" if files else "analysis for metrics only"


def redacted(config: Config, own_filters: Mapping[str, object]) -> dict[str, Any]:
    """Return the configuration as plain values without secrets. *own_filters*: the names of kproxy's own filters."""
    shown: dict[str, Any] = _without_passwords(msgspec.to_builtins(config))
    for cluster in shown["clusters"]:
        for use in cluster["filters"]:
            is_own = use["use"] in own_filters
            use["with"] = {
                name: _without_secrets(name, value) if is_own else WITHHELD for name, value in use["with"].items()
            }
    if shown.get("traces") is not None:
        shown["traces"] = _without_secrets("", shown["traces"])
    return shown


def _without_passwords(value: Any) -> Any:
    match value:
        case str():
            return without_user_info(value)
        case list():
            return [_without_passwords(one) for one in value]
        case dict():
            return {name: _without_passwords(one) for name, one in value.items()}
    return value


def _without_secrets(name: str, value: Any) -> Any:
    if SOUNDS_SECRET.search(name) is not None and value is not None:
        return WITHHELD
    match value:
        case list():
            return [_without_secrets("", one) for one in value]
        case dict():
            return {inner: _without_secrets(inner, one) for inner, one in value.items()}
    return value
