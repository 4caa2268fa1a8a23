"""Names that clients are told: the certificate for them, and DNS, where .invalid never resolves (RFC 6761)."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kproxy.doctor.findings import Finding, State
from kproxy.doctor.names import AT_A_TIME, advertised_hosts, examine_names
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


def test_names_are_looked_up_at_the_same_time_however_few_processors_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lookup ends before all of them have begun."""
    all_began = threading.Barrier(AT_A_TIME)

    def look_up(*_: Any, **__: Any) -> list[Any]:
        all_began.wait(PATIENCE_S)
        return []

    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # of which asyncio's own number of threads is made
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    sni = {"mode": "sni", "broker_name": "{node_id}.kafka.test"}
    config = config_of(tmp_path, "127.0.0.1:9092", cluster_listener_tls=SERVER, cluster_addresses=sni)

    async def work() -> Finding:
        *_, names = [one async for one in examine_names(config.clusters[0], range(AT_A_TIME), PATIENCE_S)]
        return names

    names = asyncio.run(work())  # as kproxy doctor does; uvloop has other threads
    assert (names.state, names.what[:12]) == (State.GOOD, "0.kafka.test")


def test_where_clients_are_told_what_they_connected_to(tmp_path: Path) -> None:
    assert said_of(tmp_path, {}, [1, 2]) == []
    assert said_of(tmp_path, {"advertise": "127.0.0.1"}, [1, 2], tls=None) == []
    config = config_of(tmp_path, "kafka.test:9092", cluster_addresses={"mode": "fixed"})
    assert advertised_hosts(config.clusters[0], [1]) == []
