"""Which ports a configuration binds, and which two parts bind the same one. No I/O: whether a port is free shows at the bind."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from kproxy.config.checks import Problem, parse_node_ids
from kproxy.config.structs import Addresses, Cluster, Config
from kproxy.protocol.addresses import ANY_HOSTS, MOST_PORT, Address, parse_address

ASSUMED_NODES = range(4)  # without node_ids: a small cluster


class Binding(NamedTuple):
    """The ports that one part of the configuration binds on one host."""

    path: str
    host: str
    ports: frozenset[int]
    description: str


def check_ports(config: Config) -> Iterator[Problem]:
    """Report ports above 65535, and ports that two parts bind. Invalid addresses are skipped: checks.py reports them."""
    bindings = list(_listener("admin", config.admin)) if config.admin else []
    for at, cluster in enumerate(config.clusters):
        path = f"clusters[{at}]"
        bindings.extend(_listener(path, cluster.listen))
        if cluster.addresses.mode == "port":
            ports = broker_ports(cluster)
            yield from _too_high(path, cluster.addresses, ports)
            bindings.extend(_brokers(path, cluster, ports))
    for one, other in combinations(bindings, 2):
        both = one.ports & other.ports
        if both and _same_host(one.host, other.host):
            yield other.path, f"port {min(both)} is {one.description}: change one of them{_remedy(one, other)}"


def first_broker_port(cluster: Cluster) -> int:
    """Return the port of node 0 in port mode. Raises ValueError if the cluster's address is invalid."""
    return cluster.addresses.first_port or parse_address(cluster.listen, any_host=True).port + 1


def broker_ports(cluster: Cluster) -> dict[int, int]:
    """Map node id to port for the nodes that are bound at the start; empty if something about them is wrong."""
    try:
        first = first_broker_port(cluster)
        return {node_id: first + node_id for node_id in parse_node_ids(cluster.addresses.node_ids)}
    except ValueError:
        return {}


def _too_high(path: str, addresses: Addresses, ports: dict[int, int]) -> Iterator[Problem]:
    node_id, port = max(ports.items(), default=(0, 0))
    highest = [("first_port", port)]
    if addresses.advertise_port and "{node_id}" not in (addresses.advertise or ""):
        highest.append(("advertise_port", addresses.advertise_port + node_id))
    for name, port in highest:
        if port > MOST_PORT:
            message = f"node {node_id} would get port {port}: {name} plus the node id may be at most {MOST_PORT}"
            yield f"{path}.addresses.node_ids", message


def _listener(path: str, text: str) -> Iterator[Binding]:
    listens = path if path == "admin" else f"{path}.listen"
    address = _address(text)
    if address is not None:
        words = "where the admin server listens" if path == "admin" else f"where {path} listens"
        yield Binding(listens, address.host, frozenset([address.port]), words)


def _brokers(path: str, cluster: Cluster, ports: dict[int, int]) -> Iterator[Binding]:
    address = _address(cluster.listen)
    if address is None:
        return
    first = first_broker_port(cluster)
    numbers = ports.values() or [first + node_id for node_id in ASSUMED_NODES]
    of = (
        ""
        if ports
        else f"; without node_ids, {first} to {first + ASSUMED_NODES[-1]} are reserved for nodes 0 to {ASSUMED_NODES[-1]}"
    )
    where = "node_ids" if cluster.addresses.node_ids else "first_port"
    yield Binding(f"{path}.addresses.{where}", address.host, frozenset(numbers), f"that of a broker of {path}{of}")


def _remedy(*parts: Binding) -> str:
    brokers = [part for part in parts if ".addresses." in part.path]
    return ", or set first_port or node_ids" if brokers else ""


def _address(text: str) -> Address | None:
    try:
        return parse_address(text, any_host=True)
    except ValueError:
        return None


def _same_host(one: str, other: str) -> bool:
    one, other = (("127.0.0.1" if host == "localhost" else host) for host in (one, other))
    return one == other or one in ANY_HOSTS or other in ANY_HOSTS
