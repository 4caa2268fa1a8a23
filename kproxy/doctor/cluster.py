"""A cluster: its bootstrap brokers, all that they advertise, and loops."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from kproxy.config import Cluster, Config
from kproxy.config.checks import broker_ports, first_broker_port
from kproxy.doctor.access import examine_access
from kproxy.doctor.broker import Broker, ask_broker
from kproxy.doctor.findings import Finding, good, note, problem, warning
from kproxy.doctor.names import examine_names
from kproxy.login.client_settings import Credentials
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import ANY_HOSTS, MOST_PORT, join_address, parse_address, split_address

AT_A_TIME = 32  # brokers
MOST_NAMED = 5  # of a list in one sentence


async def examine_cluster(
    config: Config, cluster: Cluster, patience: float, login: Credentials | None = None
) -> AsyncIterator[Finding]:
    """Examine every bootstrap broker, then all brokers that the first one advertises. *login*: if brokers require one."""
    if cluster.addresses.mode == "transparent":
        yield note(
            cluster.name, "transparent mode: each connection goes where its client wanted, so no broker is known here"
        )
        return
    listening = Listening(config)
    looping = [address for address in cluster.bootstrap if listening.is_own(*split_address(address))]
    for address in looping:
        yield problem(
            f"{cluster.name}: {address}",
            "kproxy itself listens there: it would connect to itself",
            "set bootstrap to the address of a broker",
        )
    others = [split_address(address) for address in cluster.bootstrap if address not in looping]
    brokers = await _all(cluster, others, patience, questions=True, login=login)
    for broker in brokers:
        yield _answer(cluster, broker)
    answering = [broker for broker in brokers if broker.failure is None]
    first = next((broker for broker in answering if broker.brokers), answering[0] if answering else None)
    if first is not None:
        for finding in examine_access(cluster, first):
            yield finding
        async for finding in _advertised(cluster, first, listening, patience):
            yield finding
    async for finding in examine_names(cluster, [node for node, _, _ in first.brokers] if first else [], patience):
        yield finding


def _answer(cluster: Cluster, broker: Broker) -> Finding:
    subject = f"{cluster.name}: {broker.address}"
    if broker.failure:
        return problem(subject, *broker.failure)
    if ApiKey.METADATA not in broker.versions:
        return problem(
            subject, "it is a controller's listener, which serves no client", "use a port of a broker's listener"
        )
    tls = "TLS, " if cluster.broker_tls else ""
    return good(subject, f"answers ({tls}Kafka {broker.release or 'of an unknown release'} or later)")


async def _advertised(
    cluster: Cluster, first: Broker, listening: "Listening", patience: float
) -> AsyncIterator[Finding]:
    """Check that this machine reaches each broker at the address that it advertises, as kproxy has to."""
    own = [(node, host, port) for node, host, port in first.brokers if listening.is_own(host, port)]
    for node, host, port in own:
        yield problem(
            f"{cluster.name}: broker {node}",
            f"it advertises {join_address(host, port)}, where kproxy itself listens: kproxy would connect to itself",
            "set advertised.listeners of the broker to its own address; kproxy replaces it for clients",
        )
    for finding in _about_ports(cluster, first.brokers):
        yield finding
    others = [(host, port) for node, host, port in first.brokers if (node, host, port) not in own]
    nodes = {(host, port): node for node, host, port in first.brokers}
    brokers = await _all(cluster, others, patience, questions=False)
    for broker in brokers:
        if broker.failure:
            subject = f"{cluster.name}: broker {nodes[broker.host, broker.port]}"
            what = f"it advertises {broker.address}, which kproxy cannot use: {broker.failure.what}"
            advice = f"{broker.failure.advice}; or set advertised.listeners of the broker to an address that this machine reaches"
            yield problem(subject, what, advice)
    fine = sum(broker.failure is None for broker in brokers)
    if fine and fine == len(first.brokers):
        yield good(f"{cluster.name}: brokers", f"all {fine} are reached at the addresses that they advertise")


def _about_ports(cluster: Cluster, brokers: Iterable[tuple[int, str, int]]) -> Iterator[Finding]:
    """Check, in port mode, that every node id has a port, and that the node ids in the configuration exist."""
    if cluster.addresses.mode != "port":
        return
    subject = f"{cluster.name}: node ids"
    there = {node for node, _, _ in brokers}
    named = set(broker_ports(cluster))
    if named and (missing := sorted(there - named)):
        what = f"addresses.node_ids lacks {_listed(missing)}, which the cluster has"
        yield warning(subject, what, "add them, so that a firewall or Service in front has their ports")
    if named and there and (gone := sorted(named - there)):
        yield note(subject, f"addresses.node_ids has {_listed(gone)}, which the cluster does not have now")
    highest = max(there, default=0)
    port = first_broker_port(cluster) + highest
    if port > MOST_PORT:
        what = f"broker {highest} would get port {port}, above {MOST_PORT}"
        yield problem(subject, what, "set addresses.first_port lower, or use mode sni")


async def _all(
    cluster: Cluster,
    endpoints: Sequence[tuple[str, int]],
    patience: float,
    *,
    questions: bool,
    login: Credentials | None = None,
) -> list[Broker]:
    turns = asyncio.Semaphore(AT_A_TIME)

    async def one(host: str, port: int) -> Broker:
        async with turns:
            return await ask_broker(cluster, host, port, patience, questions=questions, login=login)

    return list(await asyncio.gather(*(one(host, port) for host, port in dict.fromkeys(endpoints))))


class Listening:
    """The addresses on which this configuration listens."""

    def __init__(self, config: Config) -> None:
        self._own: list[tuple[str, set[int]]] = []
        for cluster in config.clusters:
            listen = parse_address(cluster.listen, any_host=True)
            ports = set(broker_ports(cluster).values()) if cluster.addresses.mode == "port" else set()
            self._own.append((listen.host, {listen.port, *ports}))

    def is_own(self, host: str, port: int) -> bool:
        """Return whether a connection to that address would reach kproxy itself."""
        candidates = [listen for listen, ports in self._own if port in ports]
        if not candidates:
            return False
        return any(
            _is_local(number) if listen in ANY_HOSTS else number in _numbers(listen)
            for listen in candidates
            for number in _numbers(host)
        )


def _numbers(host: str) -> set[str]:
    """Return the IP addresses of a host; none if its name cannot be resolved."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):  # a label too long for DNS is a UnicodeError
        return set()


def _is_local(number: str) -> bool:
    """Return whether an IP address belongs to this machine: only such an address can be bound."""
    family = socket.AF_INET6 if ":" in number else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((number, 0))
        except OSError:
            return False
    return True


def _listed(nodes: list[int]) -> str:
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    return ", ".join(map(str, nodes[:MOST_NAMED])) + more
