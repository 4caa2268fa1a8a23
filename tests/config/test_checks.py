"""Values that contradict each other or the network, ports that two parts bind, tenants whose names overlap."""

from typing import Any

import msgspec
import pytest

from kproxy.config.checks import broker_ports, check_ports, check_tenants, check_values, parse_node_ids
from kproxy.config.structs import Addresses, Cluster, Config, Limits, Timeouts

TLS = {"certificate": "c", "key": "k"}


def complaints(cluster: dict[str, Any] | None = None, **parts: Any) -> list[tuple[str, str]]:
    clusters = [{"listen": ":1", "bootstrap": ["b:2"], **(cluster or {})}]
    return list(check_values(msgspec.convert({"clusters": clusters, **parts}, Config)))


SCRAM: dict[str, Any] = {"mechanisms": ["SCRAM-SHA-256"], "users": "u"}
TOKENS = {"issuer": "i", "audience": ["a"]}
BEARER: dict[str, Any] = {"mechanisms": ["OAUTHBEARER"], "plain_without_tls": True, "tokens": TOKENS}
IN_VAULT = {"mechanism": "SCRAM-SHA-256", "username": "me", "password": "vault:kafka/me#password"}
VAULT = {"url": "https://vault:8200"}
WRONG_CLUSTERS = [
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
    (
        {"authentication": {"mechanisms": ["PLAIN"], "users": "u"}},
        "authentication.mechanisms",
        "PLAIN would send secrets",
    ),
    ({"authentication": {"mechanisms": ["SCRAM-SHA-256"]}}, "authentication.users", "SCRAM-SHA-256 needs it"),
    ({"authentication": SCRAM | {"tokens": TOKENS}}, "authentication.tokens", "no mechanism uses it"),
    ({"authentication": SCRAM | {"plain_without_tls": True}}, "authentication.plain_without_tls", "no effect"),
    ({"authentication": {"mechanisms": ["GSSAPI"]}}, "authentication.kerberos", "GSSAPI needs it"),
    (
        {"authentication": {"mechanisms": ["GSSAPI"], "kerberos": {"keytab": "k", "principal_rules": "ALL"}}},
        "authentication.kerberos.principal_rules",
        "rule 1 is none",
    ),
    (
        {"login": {"mechanism": "GSSAPI", "username": "me", "password": "env:KEYTAB"}},
        "login.password",
        'write "file:PATH"',
    ),
    ({"login": IN_VAULT | {"password": "secret"}}, "login.password", '"env:NAME" or "vault:PATH#FIELD"'),
    ({"login": IN_VAULT}, "login.vault", "a secret is in Vault"),
    ({"login": IN_VAULT | {"password": "file:x", "vault": VAULT}}, "login.vault", "no secret is in it"),
    ({"authentication": BEARER}, "authentication.tokens.keys_url", "either keys_url or keys_file"),
    (
        {"authentication": BEARER | {"tokens": TOKENS | {"keys_url": "http://idp/"}}},
        "authentication.tokens.keys_url",
        "http only for 127.0.0.1",
    ),
    ({"broker_tls": {"certificate": "c"}}, "broker_tls.key", "needed together"),
    ({"broker_tls": {"key": "c"}}, "broker_tls.certificate", "needed together"),
    ({"broker_tls": {"ca": "c", "verify": False}}, "broker_tls.verify", "ca has no effect"),
    ({"through": "ftp://a:1"}, "through", "socks5://host:port"),
    ({"through": "socks5://a"}, "through", "no port"),
    ({"through": "http://a:1/path"}, "through", "after the port"),
    ({"through": "socks5://[::1:1"}, "through", ""),
]


def test_a_cluster() -> None:
    for settings, path, words in WRONG_CLUSTERS:
        ((found, message),) = complaints(settings)
        assert (found, words in message) == (f"clusters[0].{path}", True), (settings, message)


WRONG_NAMES = [
    (None, "missing"),
    ("broker.example.com", "has to contain {node_id} once"),
    ("{node_id}-{node_id}.x", "once"),
    ("b-{node_id}-{host}.x", "nothing else in braces"),
    ("b {node_id}", "no name"),
    ("b-{node_id", "'}'"),
]


def test_sni_needs_a_name_with_the_node_id() -> None:
    for name, words in WRONG_NAMES:
        ((path, message),) = complaints({"listener_tls": TLS, "addresses": {"mode": "sni", "broker_name": name}})
        assert (path, words in message) == ("clusters[0].addresses.broker_name", True), (name, message)


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


WRONG_PARTS = [
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
]


def test_contradictions_outside_of_clusters() -> None:
    for parts, path, words in WRONG_PARTS:
        ((found, message),) = complaints(**parts)
        assert (found, words in message) == (path, True), (parts, message)


def test_node_ids() -> None:
    assert parse_node_ids([7, "100-102", "3 - 4"]) == [7, 100, 101, 102, 3, 4]


def of_tenants(*tenants: tuple[str, str]) -> list[tuple[str, str]]:
    clusters = [
        {
            "name": f"c{number}",
            "listen": f":{number + 1}",
            "bootstrap": ["x:1", bootstrap],
            "filters": [{"use": "audit"}, {"use": "topic_prefix", "with": {"prefix": prefix}}],
        }
        if bootstrap
        else {"name": f"c{number}", "listen": f":{number + 1}", "bootstrap": ["other:1"]}
        for number, (prefix, bootstrap) in enumerate(tenants)
    ]
    return list(check_tenants(msgspec.convert({"clusters": clusters}, Config)))


@pytest.mark.parametrize(("one", "other"), [("a.", "a.b."), ("team", "te"), ("a.", "a_"), ("a.", "a_b")])
def test_a_prefix_that_begins_another_is_reported_at_the_second(one: str, other: str) -> None:
    ((path, said),) = of_tenants((one, "b:1"), (other, "b:1"))
    assert path == "clusters[1].filters[1].with.prefix"
    assert said.startswith(
        f'"{other}" and "{one}", at clusters[0].filters[1].with.prefix, are in front of the same brokers'
    )


@pytest.mark.parametrize(("one", "other"), [("a.", "b."), ("a.", "a."), ("team-a.", "team-b."), ("ab", "ac")])
def test_other_prefixes_are_not(one: str, other: str) -> None:
    assert of_tenants((one, "b:1"), (other, "b:1"), ("", "")) == []


def cluster(listen: str, **addresses: Any) -> Cluster:
    return Cluster(listen=listen, bootstrap=["b:1"], addresses=Addresses(**addresses))


def of_ports(*clusters: Cluster, admin: str | None = None) -> list[tuple[str, str]]:
    return list(check_ports(Config(clusters=list(clusters), admin=admin)))


BOUND_TWICE = [
    ([cluster(":9092", mode="fixed"), cluster(":9092", mode="fixed")], "clusters[1].listen", 9092),
    ([cluster("127.0.0.1:9", mode="fixed"), cluster(":9", mode="fixed")], "clusters[1].listen", 9),
    ([cluster("localhost:9", mode="fixed"), cluster("127.0.0.1:9", mode="fixed")], "clusters[1].listen", 9),
    ([cluster(":9092", node_ids=["0-9"]), cluster(":9102", mode="sni")], "clusters[1].listen", 9102),
    ([cluster(":9102", mode="sni"), cluster(":9092", node_ids=["0-9"])], "clusters[1].addresses.node_ids", 9102),
    ([cluster(":9092", first_port=9092)], "clusters[0].addresses.first_port", 9092),
    ([cluster(":9092"), cluster(":9094", first_port=9100)], "clusters[1].listen", 9094),
    ([cluster(":9"), cluster(":5000", first_port=10)], "clusters[1].addresses.first_port", 10),
]


def test_a_port_cannot_be_bound_twice() -> None:
    for clusters, path, port in BOUND_TWICE:
        ((found, message),) = of_ports(*clusters)
        assert (found, message.startswith(f"port {port} is ")) == (path, True), message


def test_another_host_is_another_port() -> None:
    one, other = cluster("10.0.0.1:9092", mode="fixed"), cluster("10.0.0.2:9092", mode="fixed")
    assert of_ports(one, other) == []


def test_node_ids_say_that_ports_are_free() -> None:
    assert of_ports(cluster(":9092", node_ids=[0, 1]), cluster(":9095", node_ids=[0, 1])) == []


def test_ports_end_at_65535() -> None:
    ((path, message),) = of_ports(cluster(":65000", node_ids=[1, 1000]))
    assert path == "clusters[0].addresses.node_ids"
    assert "node 1000 would get port 66001" in message


def test_an_invalid_address_is_skipped() -> None:
    assert of_ports(cluster("nowhere"), cluster("nowhere"), admin="nowhere") == []
    assert broker_ports(cluster("nowhere", node_ids=[1])) == {}


def test_an_advertised_port_that_does_not_exist() -> None:
    ((path, message),) = of_ports(cluster(":9092", advertise_port=65_535, node_ids=["0-1"]))
    assert path == "clusters[0].addresses.node_ids"
    assert message == "node 1 would get port 65536: advertise_port plus the node id may be at most 65535"
    assert of_ports(cluster(":9092", advertise_port=443, advertise="b-{node_id}.x", node_ids=["0-1"])) == []


def test_limits_are_a_brokers() -> None:
    limits = Limits()
    assert limits.frame_size == 104_857_600  # socket.request.max.bytes
    assert limits.unauthenticated_frame_size == 524_288  # sasl.server.max.receive.size


def test_idle_connections_are_closed_by_the_broker_first() -> None:
    assert Timeouts().idle > 600  # connections.max.idle.ms


def test_a_configuration_goes_to_workers_as_json_and_comes_back() -> None:
    config = Config(clusters=[Cluster(listen=":1", bootstrap=["b:1"])])
    line = msgspec.json.encode(msgspec.to_builtins(config))
    assert msgspec.convert(msgspec.json.decode(line), Config) == config


def test_unknown_names_are_no_part_of_it() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"clusters": [{"listen": ":1"}], "x": 1}, Config)


def test_the_admin_port_is_this_machines_own() -> None:
    assert Config(clusters=[]).admin == "127.0.0.1:9644"
