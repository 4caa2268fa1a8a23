"""Names that clients are told: the certificate for them, and DNS, where .invalid never resolves (RFC 6761)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kproxy.doctor.findings import Finding, State
from kproxy.doctor.names import advertised_hosts, examine_names
from tests.support.certificates import certificates
from tests.support.doctored import PATIENCE_S, config_of
from tests.support.links import run

SERVER = {"certificate": certificates().server.certificate, "key": certificates().server.key}


def said_of(folder: Path, addresses: dict[str, Any], nodes: Iterable[int] = (), tls: Any = SERVER) -> list[Finding]:
    found: list[Finding] = []

    async def work() -> None:
        config = config_of(folder, "kafka.test:9092", cluster_listener_tls=tls, cluster_addresses=addresses)
        found.extend([one async for one in examine_names(config.clusters[0], nodes, PATIENCE_S)])

    run(work)
    return found


def test_the_certificate_has_the_name_of_each_broker(tmp_path: Path) -> None:
    sni = {"mode": "sni", "broker_name": "{node_id}.kafka.test"}
    certificate, _ = said_of(tmp_path, sni, [7, 1])
    assert (certificate.state, certificate.what) == (State.GOOD, "is for 1.kafka.test, 7.kafka.test")
    sni["broker_name"] = "broker-{node_id}.kafka.example.com"
    certificate, _ = said_of(tmp_path, sni, [7])
    assert certificate.state is State.PROBLEM
    assert "it is not for broker-7.kafka.example.com" in certificate.what and "broker.test" in certificate.what
    addresses = {"advertise": "broker.test", "advertise_brokers": {"2": "elsewhere.test:443"}}
    certificate, _ = said_of(tmp_path, addresses, [1, 2])
    assert "it is not for elsewhere.test" in certificate.what


def test_names_that_dns_does_not_have(tmp_path: Path) -> None:
    sni = {"mode": "sni", "broker_name": "{node_id}.kproxy.invalid"}
    *_, names = said_of(tmp_path, sni, range(1, 8))
    assert names.state is State.WARNING
    assert names.what.startswith("1.kproxy.invalid, 2.kproxy.invalid, 3.kproxy.invalid, 4.kproxy.invalid")
    assert "and 2 more are not resolved here" in names.what and "*.kproxy.invalid" in names.advice
    [names] = said_of(tmp_path, {"advertise": "localhost"}, tls=None)
    assert (names.state, names.what) == (State.GOOD, "localhost resolves")


def test_where_clients_are_told_what_they_connected_to(tmp_path: Path) -> None:
    assert said_of(tmp_path, {}, [1, 2]) == []
    assert said_of(tmp_path, {"advertise": "127.0.0.1"}, [1, 2], tls=None) == []
    config = config_of(tmp_path, "kafka.test:9092", cluster_addresses={"mode": "fixed"})
    assert advertised_hosts(config.clusters[0], [1]) == []
