"""Checks of the host names that kproxy advertises: DNS resolves them, and the listener's certificate has them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kproxy.config import Cluster
from kproxy.config.checks import parse_node_ids
from kproxy.doctor.findings import Finding, good, problem, warning
from kproxy.doctor.tls_words import certificate_names, is_for
from kproxy.protocol.addresses import parse_ip
from kproxy.proxy.brokers import AdvertisedAddresses

AT_A_TIME = 32  # names
MOST_NAMED = 5  # of a list in one sentence
MOST_NAMES = 1_000  # that are looked at
# Stands for the address that a client connected to, which is advertised if the configuration names no other
ANY_CLIENT = "?:0"


async def examine_names(cluster: Cluster, nodes: Iterable[int], patience: float) -> AsyncIterator[Finding]:
    """Check the name that clients get for each broker. *nodes*: the node ids in the cluster; empty if not known."""
    hosts = advertised_hosts(cluster, nodes)
    for finding in _certificate(cluster, hosts):
        yield finding
    names = [host for host in hosts if parse_ip(host) is None]
    if not names:
        return
    lost = await _unresolved(names, patience)
    subject = f"{cluster.name}: names of brokers"
    if lost:
        are = "is" if len(lost) == 1 else "are"
        what = f"{_listed(lost)} {are} not resolved here: clients that ask the same DNS cannot connect"
        _, _, parent = lost[0].partition(".")
        advice = (
            f"add {'it' if len(lost) == 1 else 'them'} to DNS, or a wildcard (*.{parent}), and let it lead to kproxy"
        )
        yield warning(subject, what, advice)
    else:
        yield good(subject, f"{_listed(names)} resolve{'s' if len(names) == 1 else ''}")


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
        what = f"it is not for {_listed(missing)}, where clients are told to connect; its names are: {_listed(names) or 'none'}"
        advice = "issue it with these names, or change addresses.advertise or addresses.broker_name"
        yield problem(subject, what, advice)
    else:
        yield good(subject, f"is for {_listed(hosts)}")


async def _unresolved(names: list[str], patience: float) -> list[str]:
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


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
