"""Ports that two parts bind, and ports above 65535."""

from typing import Any

import pytest

from kproxy.config.ports import broker_ports, check_ports, first_broker_port
from kproxy.config.structs import Addresses, Cluster, Config


def cluster(listen: str, **addresses: Any) -> Cluster:
    return Cluster(listen=listen, bootstrap=["b:1"], addresses=Addresses(**addresses))


def complaints(*clusters: Cluster, admin: str | None = None) -> list[tuple[str, str]]:
    return list(check_ports(Config(clusters=list(clusters), admin=admin)))


@pytest.mark.parametrize(
    ("clusters", "path", "port"),
    [
        ([cluster(":9092", mode="fixed"), cluster(":9092", mode="fixed")], "clusters[1].listen", 9092),
        ([cluster("127.0.0.1:9", mode="fixed"), cluster(":9", mode="fixed")], "clusters[1].listen", 9),
        ([cluster("localhost:9", mode="fixed"), cluster("127.0.0.1:9", mode="fixed")], "clusters[1].listen", 9),
        ([cluster(":9092", node_ids=["0-9"]), cluster(":9102", mode="sni")], "clusters[1].listen", 9102),
        ([cluster(":9102", mode="sni"), cluster(":9092", node_ids=["0-9"])], "clusters[1].addresses.node_ids", 9102),
        ([cluster(":9092", first_port=9092)], "clusters[0].addresses.first_port", 9092),
        ([cluster(":9092"), cluster(":9094", first_port=9100)], "clusters[1].listen", 9094),
        ([cluster(":9"), cluster(":5000", first_port=10)], "clusters[1].addresses.first_port", 10),
    ],
)
def test_a_port_cannot_be_bound_twice(clusters: list[Cluster], path: str, port: int) -> None:
    ((found, message),) = complaints(*clusters)
    assert found == path
    assert message.startswith(f"port {port} is ")


def test_the_admin_port_is_one_of_them() -> None:
    assert [path for path, _ in complaints(cluster(":9092"), admin="127.0.0.1:9093")] == [
        "clusters[0].addresses.first_port"
    ]
    assert complaints(cluster(":9092"), admin="127.0.0.1:9107") == []


def test_another_host_is_another_port() -> None:
    one, other = cluster("10.0.0.1:9092", mode="fixed"), cluster("10.0.0.2:9092", mode="fixed")
    assert complaints(one, other) == []


def test_node_ids_say_that_ports_are_free() -> None:
    assert complaints(cluster(":9092", node_ids=[0, 1]), cluster(":9095", node_ids=[0, 1])) == []


def test_ports_end_at_65535() -> None:
    ((path, message),) = complaints(cluster(":65000", node_ids=[1, 1000]))
    assert path == "clusters[0].addresses.node_ids"
    assert "node 1000 would get port 66001" in message


def test_an_invalid_address_is_skipped() -> None:
    assert complaints(cluster("nowhere"), cluster("nowhere"), admin="nowhere") == []
    assert broker_ports(cluster("nowhere", node_ids=[1])) == {}


def test_ports_of_brokers() -> None:
    assert first_broker_port(cluster(":9092")) == 9093
    assert broker_ports(cluster(":9092", first_port=9200, node_ids=["0-1", 7])) == {0: 9200, 1: 9201, 7: 9207}


def test_an_advertised_port_that_does_not_exist() -> None:
    ((path, message),) = complaints(cluster(":9092", advertise_port=65_535, node_ids=["0-1"]))
    assert path == "clusters[0].addresses.node_ids"
    assert message == "node 1 would get port 65536: advertise_port plus the node id may be at most 65535"
    assert complaints(cluster(":9092", advertise_port=443, advertise="b-{node_id}.x", node_ids=["0-1"])) == []
