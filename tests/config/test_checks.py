"""Contradictions: each is reported at the value to change."""

from typing import Any

import msgspec
import pytest

from kproxy.config.checks import check_values, parse_node_ids
from kproxy.config.structs import Config

TLS = {"certificate": "c", "key": "k"}


def complaints(cluster: dict[str, Any] | None = None, **parts: Any) -> list[tuple[str, str]]:
    clusters = [{"listen": ":1", "bootstrap": ["b:2"], **(cluster or {})}]
    return list(check_values(msgspec.convert({"clusters": clusters, **parts}, Config)))


def test_the_defaults_are_right() -> None:
    assert complaints() == []


@pytest.mark.parametrize(
    ("cluster", "path", "words"),
    [
        ({"listen": "9092"}, "listen", "no host"),
        ({"bootstrap": ["b:2", "c"]}, "bootstrap[1]", '"c": it has no port'),
        ({"bootstrap": [":2"]}, "bootstrap[0]", "no host"),
        ({"bootstrap": []}, "bootstrap", "missing"),
        ({"listen": "b:2"}, "bootstrap[0]", "connect to itself"),
        ({"addresses": {"mode": "transparent"}}, "bootstrap", "leave bootstrap out"),
        ({"addresses": {"mode": "fixed"}, "bootstrap": ["b:2", "c:2"]}, "bootstrap", "one target"),
        ({"addresses": {"advertise": "a:1"}}, "addresses.advertise", "a:1"),
        ({"addresses": {"advertise": "a:443"}}, "addresses.advertise", "the port goes into advertise_port"),
        ({"addresses": {"advertise": "a-{node}"}}, "addresses.advertise", "{node_id} once"),
        ({"addresses": {"advertise_brokers": {"x": "a:1"}}}, "addresses.advertise_brokers.x", "no node id"),
        ({"addresses": {"advertise_brokers": {"01": "a:1"}}}, "addresses.advertise_brokers.01", "no node id"),
        ({"addresses": {"advertise_brokers": {"2147483648": "a:1"}}}, "addresses.advertise_brokers.2147483648", "to 2"),
        ({"addresses": {"advertise_brokers": {"0": "a"}}}, "addresses.advertise_brokers.0", "no port"),
        ({"addresses": {"advertise_brokers": {"0": "a:1", "1": "A:1"}}}, "addresses.advertise_brokers.1", "node 0"),
        ({"addresses": {"mode": "fixed", "advertise_port": 443}}, "addresses.advertise_port", "only in port and sni"),
        ({"addresses": {"node_ids": ["x"]}}, "addresses.node_ids", 'write 3 or "0-5"'),
        ({"addresses": {"node_ids": ["5-2"]}}, "addresses.node_ids", "smaller one first"),
        ({"addresses": {"node_ids": [-1]}}, "addresses.node_ids", "from 0"),
        ({"addresses": {"node_ids": ["0-4000000000"]}}, "addresses.node_ids", "from 0"),
        ({"addresses": {"node_ids": ["0-2000000000"]}}, "addresses.node_ids", "more nodes than there are ports"),
        ({"addresses": {"mode": "fixed", "first_port": 3}}, "addresses.first_port", "only in port mode"),
        ({"addresses": {"broker_name": "x"}}, "addresses.broker_name", "only in sni mode"),
        ({"listener_tls": {**TLS, "client_auth": "required"}}, "listener_tls.client_ca", "missing"),
        ({"listener_tls": {**TLS, "client_ca": "x"}}, "listener_tls.client_auth", "client_ca has no effect"),
        ({"broker_tls": {"certificate": "c"}}, "broker_tls.key", "needed together"),
        ({"broker_tls": {"key": "c"}}, "broker_tls.certificate", "needed together"),
        ({"broker_tls": {"ca": "c", "verify": False}}, "broker_tls.verify", "ca has no effect"),
        ({"through": "ftp://a:1"}, "through", "socks5://host:port"),
        ({"through": "socks5://a"}, "through", "no port"),
        ({"through": "http://a:1/path"}, "through", "after the port"),
        ({"through": "socks5://[::1:1"}, "through", ""),
    ],
)
def test_a_cluster(cluster: dict[str, Any], path: str, words: str) -> None:
    ((found, message),) = complaints(cluster)
    assert found == f"clusters[0].{path}"
    assert words in message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (None, "missing"),
        ("broker.example.com", "has to contain {node_id} once"),
        ("{node_id}-{node_id}.x", "once"),
        ("b-{node_id}-{host}.x", "nothing else in braces"),
        ("b {node_id}", "no name"),
        ("b-{node_id", "'}'"),
    ],
)
def test_sni_needs_a_name_with_the_node_id(name: str | None, words: str) -> None:
    ((path, message),) = complaints({"listener_tls": TLS, "addresses": {"mode": "sni", "broker_name": name}})
    assert path == "clusters[0].addresses.broker_name"
    assert words in message


def test_brokers_of_one_port_each_have_their_own_host_by_sni() -> None:
    addresses = {"mode": "sni", "broker_name": "b-{node_id}.x", "advertise_brokers": {"0": "a:1", "1": "a:2"}}
    ((path, message),) = complaints({"listener_tls": TLS, "addresses": addresses})
    assert path == "clusters[0].addresses.advertise_brokers.1"
    assert message == 'node 0 has the same "a": clients would confuse them'
    assert complaints({"addresses": {"advertise_brokers": {"0": "a:1", "1": "a:2"}}}) == []


def test_sni_needs_tls_from_clients() -> None:
    addresses = {"mode": "sni", "broker_name": "b-{node_id}.example.com"}
    assert [path for path, _ in complaints({"addresses": addresses})] == ["clusters[0].listener_tls"]
    assert complaints({"addresses": addresses, "listener_tls": TLS}) == []


def test_a_proxy_header_says_nothing_of_the_original_destination() -> None:
    cluster = {"addresses": {"mode": "transparent"}, "bootstrap": [], "proxy_protocol": True}
    assert [path for path, _ in complaints(cluster)] == ["clusters[0].proxy_protocol"]


def test_a_password_is_not_repeated() -> None:
    for through in ("socks5://me:geheim@host", "geheim", "http://me:geheim@a:1/geheim"):
        ((_, message),) = complaints({"through": through})
        assert "geheim" not in message


def test_two_clusters_of_one_name() -> None:
    clusters = [{"listen": f":{port}", "bootstrap": ["b:2"]} for port in (1, 100)]
    found = list(check_values(msgspec.convert({"clusters": clusters}, Config)))
    assert [path for path, _ in found] == ["clusters[1].name"]


@pytest.mark.parametrize(
    ("parts", "path", "words"),
    [
        ({"admin": "nowhere"}, "admin", "no port"),
        ({"admin_hosts": ["a", "b:1"]}, "admin_hosts[1]", "b:1"),
        ({"limits": {"frame_size": 100}}, "limits.frame_size", "less than Kafka's own requests need"),
        ({"limits": {"frame_size": 1 << 31}}, "limits.frame_size", "int32"),
        ({"page": {"memory": 1 << 20}}, "page.memory", "at least 16MiB"),
        ({"limits": {"memory": 1 << 20}}, "limits.held_frame_size", "16,777,216 is more than memory (1,048,576)"),
        ({"limits": {"connections": 5, "connections_per_address": 6}}, "limits.connections_per_address", "more than"),
        ({"analysis": {"ring_size": 4096}}, "analysis.ring_size", "64KiB"),
        ({"analysis": {"api_name": ["fetch"]}}, "analysis.api_name[0]", "did you mean Fetch?"),
        ({"analysis": {"api_name": ["Metadata", "Nope"]}}, "analysis.api_name[1]", "kproxy api lists them"),
        ({"traces": {"otlp": "http://c:4318", "api_name": ["fetch"]}}, "traces.api_name[0]", "did you mean Fetch?"),
        ({"traces": {"otlp": "collector"}}, "traces.otlp", 'write "http://collector:4318"'),
        ({"traces": {"otlp": "http://c:1", "headers": {"host": "x"}}}, "traces.headers.host", "leave it out"),
        ({"traces": {"otlp": "http://c:1"}, "analysis": {"enabled": False}}, "traces", "enable the analysis"),
        ({"traces": {"otlp": "http://c:1", "service_name": "a\nb"}}, "traces.service_name", "printed"),
        ({"analysis": {"log": {"path": ""}}}, "analysis.log.path", "empty"),
        ({"analysis": {"enabled": False, "log": {"path": "x"}}}, "analysis.enabled", "enable the analysis"),
        ({"analysis": {"log": {"path": "x"}, "capture": {"path": "x"}}}, "analysis.capture.path", "same path"),
    ],
)
def test_contradictions_outside_of_clusters(parts: dict[str, Any], path: str, words: str) -> None:
    ((found, message),) = complaints(**parts)
    assert found == path
    assert words in message


def test_node_ids() -> None:
    assert parse_node_ids([7, "100-102", "3 - 4"]) == [7, 100, 101, 102, 3, 4]
