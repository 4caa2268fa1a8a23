"""Which ports a configuration takes, and which of its parts take the same one. No I/O: whether it is free, binding tells."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from kproxy.config.addresses import ANY_HOST, Address, parse_address
from kproxy.config.checks import Complaint, parse_node_ids
from kproxy.config.structs import Cluster, Config

MOST_PORT = 65_535
ASSUMED_NODES = range(4)  # where node_ids says nothing: what a small cluster is made of


class Taken(NamedTuple):
    """Ports on one host that belong to one part of the configuration."""

    path: str
    host: str
    ports: frozenset[int]
    words: str


def check_ports(config: Config) -> Iterator[Complaint]:
    """Ports beyond the last, and ports that two parts want. Addresses that are none are passed over."""
    taken = list(_listener("admin", config.admin)) if config.admin else []
    for at, cluster in enumerate(config.clusters):
        path = f"clusters[{at}]"
        taken.extend(_listener(path, cluster.listen))
        if cluster.addresses.mode == "port":
            ports = broker_ports(cluster)
            yield from _beyond(path, ports)
            taken.extend(_brokers(path, cluster, ports))
    for one, other in combinations(taken, 2):
        both = one.ports & other.ports
        if both and _same_host(one.host, other.host):
            yield other.path, f"port {min(both)} is {one.words}: move one of them{_remedy(one, other)}"


def first_broker_port(cluster: Cluster) -> int:
    """The port of node 0 in port mode. Raises ValueError where the cluster's address is none."""
    return cluster.addresses.first_port or parse_address(cluster.listen, any_host=True).port + 1


def broker_ports(cluster: Cluster) -> dict[int, int]:
    """node id -> port of those that are bound from the start; empty where something about them is wrong."""
    try:
        first = first_broker_port(cluster)
        return {node_id: first + node_id for node_id in parse_node_ids(cluster.addresses.node_ids)}
    except ValueError:
        return {}


def _beyond(path: str, ports: dict[int, int]) -> Iterator[Complaint]:
    node_id, port = max(ports.items(), default=(0, 0))
    if port > MOST_PORT:
        message = f"node {node_id} would get port {port}: first_port plus the node id may be at most {MOST_PORT}"
        yield f"{path}.addresses.node_ids", message


def _listener(path: str, text: str) -> Iterator[Taken]:
    listens = path if path == "admin" else f"{path}.listen"
    address = _address(text)
    if address is not None:
        words = "where the admin server listens" if path == "admin" else f"where {path} listens"
        yield Taken(listens, address.host, frozenset([address.port]), words)


def _brokers(path: str, cluster: Cluster, ports: dict[int, int]) -> Iterator[Taken]:
    address = _address(cluster.listen)
    if address is None:
        return
    first = first_broker_port(cluster)
    numbers = ports.values() or [first + node_id for node_id in ASSUMED_NODES]
    of = (
        ""
        if ports
        else f"; without node_ids {first} to {first + ASSUMED_NODES[-1]} are kept for nodes 0 to {ASSUMED_NODES[-1]}"
    )
    where = "node_ids" if cluster.addresses.node_ids else "first_port"
    yield Taken(f"{path}.addresses.{where}", address.host, frozenset(numbers), f"that of a broker of {path}{of}")


def _remedy(*parts: Taken) -> str:
    brokers = [part for part in parts if ".addresses." in part.path]
    return ", with first_port or by saying which node_ids there are" if brokers else ""


def _address(text: str) -> Address | None:
    try:
        return parse_address(text, any_host=True)
    except ValueError:
        return None


def _same_host(one: str, other: str) -> bool:
    one, other = (("127.0.0.1" if host == "localhost" else host) for host in (one, other))
    return one == other or one in ANY_HOST or other in ANY_HOST
