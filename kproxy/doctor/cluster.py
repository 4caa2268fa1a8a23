"""A cluster: its bootstrap brokers and all that they advertise, loops, logins, the clock, and the names that clients get.

Brokers give their addresses and their clock only to a client that is logged in. Names are looked up in DNS, and in the
certificate that clients are shown.
"""

import asyncio
import dataclasses
import socket
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kproxy.config.checks import broker_ports, first_broker_port, parse_node_ids
from kproxy.config.structs import Cluster, Config, Login
from kproxy.doctor.broker import Broker, ask_broker, certificate_names, is_for
from kproxy.doctor.findings import Finding, good, listed, note, problem, warning
from kproxy.doctor.keys import examine_rules
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import MECHANISMS, Credentials
from kproxy.login.identities import Identities
from kproxy.login.tokens import end_of
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import ANY_HOSTS, MOST_PORT, join_address, parse_address, parse_ip, split_address
from kproxy.proxy.brokers import AdvertisedAddresses

AT_A_TIME = 32  # brokers
IN_THE_CLEAR = {"PLAIN", "OAUTHBEARER"}  # mechanisms that send the password or token itself
SASL_PLAIN_ADVICE = "use a listener with TLS (SASL_SSL) and set broker_tls, or a mechanism such as SCRAM-SHA-512"
CLOCK_S = 60.0  # a larger difference disturbs transactions and retention by time
NEARLY = 0.99  # so much of a day counts as a day
MOST_NAMES = 1_000  # that are looked at
# Stands for the address that a client connected to, which is advertised if the configuration names no other
ANY_CLIENT = "?:0"


async def examine_cluster(
    config: Config, cluster: Cluster, patience: float, login: Credentials | None, topics: list[str]
) -> AsyncIterator[Finding]:
    """Examine every bootstrap broker, then all brokers that the first one advertises.

    *login*: if brokers require one. *topics*: gets the topics of the cluster, if filters have to do with them.
    """
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
    if cluster.login is not None:
        login, finding = await _own_login(cluster, cluster.login)
        if finding is not None:
            yield finding
    brokers = await _ask_brokers(cluster, others, patience, questions=True, login=login)
    for broker in brokers:
        yield _answer(cluster, broker)
    answering = [broker for broker in brokers if broker.failure is None]
    first = next((broker for broker in answering if broker.brokers), answering[0] if answering else None)
    if first is not None:
        for finding in examine_access(cluster, first):
            yield finding
        async for finding in _advertised(cluster, first, listening, patience):
            yield finding
        async for finding in examine_rules(cluster, first, patience, login, topics):
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
    brokers = await _ask_brokers(cluster, others, patience, questions=False)
    for broker in brokers:
        if broker.failure:
            subject = f"{cluster.name}: broker {nodes[broker.host, broker.port]}"
            what = f"it advertises {broker.address}, which kproxy cannot use: {broker.failure.what}"
            advice = f"{broker.failure.advice}; or set advertised.listeners of the broker to an address that this machine reaches"
            yield problem(subject, what, advice)
    fine = sum(broker.failure is None for broker in brokers)
    if fine and fine == len(first.brokers):
        what = f"all {fine} are reached at the addresses that they advertise"
        if fine == 1:
            what = "the only one is reached at the address that it advertises"
        yield good(f"{cluster.name}: brokers", what)


def _about_ports(cluster: Cluster, brokers: Iterable[tuple[int, str, int]]) -> Iterator[Finding]:
    """Check, in port mode, that every node id has a port, and that the node ids in the configuration exist."""
    if cluster.addresses.mode != "port":
        return
    subject = f"{cluster.name}: node ids"
    there = {node for node, _, _ in brokers}
    named = set(broker_ports(cluster))
    if named and (missing := sorted(there - named)):
        what = f"addresses.node_ids lacks {listed(missing)}, which the cluster has"
        yield warning(subject, what, "add them, so that a firewall or Service in front has their ports")
    if named and there and (gone := sorted(named - there)):
        yield note(subject, f"addresses.node_ids has {listed(gone)}, which the cluster does not have now")
    highest = max(there, default=0)
    port = first_broker_port(cluster) + highest
    if port > MOST_PORT:
        what = f"broker {highest} would get port {port}, above {MOST_PORT}"
        yield problem(subject, what, "set addresses.first_port lower, or use mode sni")


async def _ask_brokers(
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


def examine_access(cluster: Cluster, broker: Broker) -> Iterator[Finding]:
    """Check logins and the clock, with what is known of the first broker that answered."""
    if ApiKey.METADATA not in broker.versions:  # a controller, which serves no client
        return
    if broker.wants_login:
        yield _passwords(cluster, broker)
        yield from _login(cluster, broker)
    elif cluster.login is not None:
        what = "login is set, and the brokers want none: they refuse it (ILLEGAL_SASL_STATE)"
        yield problem(f"{cluster.name}: login", what, "leave login out, or connect to a listener with SASL")
    if broker.logged_in or not broker.wants_login:
        yield _clock(cluster, broker)


async def _own_login(cluster: Cluster, login: Login) -> tuple[Credentials | None, Finding | None]:
    """Return what kproxy logs in to brokers with, and what is to be said of it before it is tried."""
    subject = f"{cluster.name}: credentials"
    try:
        identities = Identities(login, time.time)
        if not identities.has_own:
            return None, note(subject, "not tried: kproxy logs in for each client, by its name")
        credentials = identities.known(None)
        if credentials is None:
            credentials = await asyncio.to_thread(identities.fetch)
    except LoginRefused as error:
        return None, problem(subject, str(error), error.advice)
    credentials = dataclasses.replace(credentials, needs_tls=False)  # checks.py says what may be sent without TLS
    ends_at = end_of(credentials.password) if credentials.mechanism == "OAUTHBEARER" else None
    if ends_at is None:
        return credentials, None
    left = ends_at - time.time()
    if left <= 0:
        what = f"the token ended {_duration(-left)} ago"
        return credentials, problem(subject, what, "put a new one where login.password says, before each ends")
    return credentials, good(subject, f"the token ends in {_duration(left)}")


def _passwords(cluster: Cluster, broker: Broker) -> Finding:
    subject = f"{cluster.name}: login"
    if cluster.login is not None:
        return good(subject, f"kproxy logs in, by {cluster.login.mechanism} ({', '.join(broker.mechanisms)})")
    clear = [one for one in broker.mechanisms if one in IN_THE_CLEAR]
    if clear and cluster.broker_tls is None:
        what = f"{' and '.join(clear)} without TLS towards the brokers: passwords cross the network in the clear"
        return problem(subject, what, SASL_PLAIN_ADVICE)
    host = parse_address(cluster.listen, any_host=True).host
    number = parse_ip(host)
    is_loopback = host == "localhost" or (number is not None and number.is_loopback)
    if clear and cluster.listener_tls is None and not is_loopback:
        what = f"{' and '.join(clear)} without TLS from clients: passwords cross the network in the clear"
        return warning(subject, what, "set listener_tls, or listen on localhost, as a sidecar does")
    return good(subject, f"clients log in ({', '.join(broker.mechanisms)})")


def _login(cluster: Cluster, broker: Broker) -> Iterator[Finding]:
    """Report whether the given login works; without a login, what could not be examined."""
    subject = f"{cluster.name}: {'the login that was given' if cluster.login is None else 'the login of kproxy'}"
    if broker.login_failure is not None:
        yield problem(subject, *broker.login_failure)
    if broker.logged_in and broker.login_failure is None:
        yield good(subject, "is accepted")
    if (broker.logged_in and broker.login_failure is None) or cluster.login is not None:
        return
    what = "not examined, as brokers tell them only after a login: the addresses that they advertise, and their clock"
    usable = [one for one in MECHANISMS if one in broker.mechanisms]
    advice = "give the properties of a client: --command-config FILE, with security.protocol, sasl.mechanism and sasl.jaas.config"
    if not usable:
        advice = (
            f"kproxy doctor logs in by {', '.join(MECHANISMS)} only: compare them by hand (kafka-broker-api-versions)"
        )
    yield note(f"{cluster.name}: brokers", what, advice)
    if not parse_node_ids(cluster.addresses.node_ids) and cluster.addresses.mode == "port":
        yield note(
            f"{cluster.name}: node ids",
            "kproxy learns the brokers from its clients' Metadata, after their login",
            "set addresses.node_ids to the ids of all brokers, so that their ports are bound from the start",
        )


def _clock(cluster: Cluster, broker: Broker) -> Finding:
    subject = f"{cluster.name}: clock"
    ahead = broker.clock_ahead_s
    if ahead is None:
        what = "not examined: brokers tell their time since Kafka 3.3 (KRaft), to those who may describe the cluster"
        return note(subject, what, "compare the output of date -u on both machines")
    if abs(ahead) > CLOCK_S:
        what = f"the brokers' clock is {_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the clock of this machine"
        return problem(subject, what, "find out which of them is wrong, and let NTP (chrony, timesyncd) set it")
    return good(subject, "brokers and this machine agree")


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size * NEARLY:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


async def examine_names(cluster: Cluster, nodes: Iterable[int], patience: float) -> AsyncIterator[Finding]:
    """Check the name that clients get for each broker. *nodes*: the node ids in the cluster; empty if not known."""
    hosts = advertised_hosts(cluster, nodes)
    for finding in _certificate(cluster, hosts):
        yield finding
    names = [host for host in hosts if parse_ip(host) is None]
    if not names:
        return
    lost = await unresolved(names, patience)
    subject = f"{cluster.name}: names of brokers"
    if lost:
        are = "is" if len(lost) == 1 else "are"
        what = f"{listed(lost)} {are} not resolved here: clients that ask the same DNS cannot connect"
        _, _, parent = lost[0].partition(".")
        advice = (
            f"add {'it' if len(lost) == 1 else 'them'} to DNS, or a wildcard (*.{parent}), and let it lead to kproxy"
        )
        yield warning(subject, what, advice)
    else:
        yield good(subject, f"{listed(names)} resolve{'s' if len(names) == 1 else ''}")


def advertised_hosts(cluster: Cluster, nodes: Iterable[int]) -> list[str]:
    """Return the hosts that kproxy advertises for brokers; none if it advertises the host that each client connected to.

    *nodes*: ids; if there are none, those of addresses.node_ids, and without them 0 for an example.
    """
    rules = cluster.addresses
    if rules.mode not in ("port", "sni"):
        return []
    known = sorted({*nodes, *parse_node_ids(rules.node_ids)})[:MOST_NAMES] or [0]
    advertised = AdvertisedAddresses(rules, lambda node: 0)
    hosts = [advertised.address_of(node, ANY_CLIENT).host for node in known]
    return [host for host in dict.fromkeys(hosts) if host != "?"]


def _certificate(cluster: Cluster, hosts: list[str]) -> Iterator[Finding]:
    """Check that the one certificate of a cluster has all its names."""
    if cluster.listener_tls is None or not hosts:
        return
    subject = f"{cluster.name}: certificate for clients"
    names = certificate_names(Path(cluster.listener_tls.certificate).read_bytes())
    if missing := [host for host in hosts if not is_for(names, host)]:
        what = f"it is not for {listed(missing)}, where clients are told to connect; its names are: {listed(names) or 'none'}"
        advice = "issue it with these names, or change addresses.advertise or addresses.broker_name"
        yield problem(subject, what, advice)
    else:
        yield good(subject, f"is for {listed(hosts)}")


async def unresolved(names: list[str], patience: float) -> list[str]:
    """Return the names that this machine's resolver does not know."""
    turns = asyncio.Semaphore(AT_A_TIME)
    # Own threads: a small machine's event loop has few, and lookups would spend their timeout waiting for one
    threads = ThreadPoolExecutor(AT_A_TIME, "lookup")

    async def resolves(name: str) -> bool:
        async with turns:
            try:
                async with asyncio.timeout(patience):
                    await asyncio.get_running_loop().run_in_executor(threads, socket.getaddrinfo, name, None)
            except (OSError, UnicodeError):  # TimeoutError is an OSError; a label too long for DNS is a UnicodeError
                return False
        return True

    try:
        results = await asyncio.gather(*map(resolves, names))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    return [name for name, fine in zip(names, results, strict=True) if not fine]
