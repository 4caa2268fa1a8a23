"""Run all checks, in the order in which a person would look: the running kproxy, this machine, each cluster.

The last ones connect through a running kproxy, as a client does, and then to the addresses that it advertises.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from kproxy.config.showing import redacted
from kproxy.config.structs import Cluster, Config
from kproxy.doctor.broker import certificate_names, is_for, is_same_certificate
from kproxy.doctor.cluster import examine_cluster, unresolved
from kproxy.doctor.findings import Finding, good, listed, note, problem, warning
from kproxy.doctor.keys import examine_keys
from kproxy.doctor.machine import Running, examine_machine, examine_running, look_for
from kproxy.errors import DecodeError, LoginRefused
from kproxy.filters.loading import BUILT_IN
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import log_in
from kproxy.protocol.addresses import ANY_HOSTS, join_address, parse_address
from kproxy.proxy.broker_client import BrokerClient

# TimeoutError is an OSError, IncompleteReadError an EOFError; ValueError and OverflowError: no such name (UnicodeError) or port
NO_ANSWER = (OSError, EOFError, DecodeError, ValueError, OverflowError)


async def examine(
    config: Config, patience: float, *, is_complete: bool = True, login: Credentials | None = None
) -> AsyncIterator[Finding]:
    """Examine what *config* would run, or what runs already if its admin server answers.

    Args:
        config: the configuration.
        patience: seconds to wait for one answer; all questions to one broker together have twice as much.
        is_complete: *config* is the whole configuration, and is compared with that of a running kproxy; False if a person
            gave only a few options.
        login: used where brokers require one.
    """
    running = await asyncio.to_thread(look_for, config.admin, patience) if config.admin else None
    if running:
        for finding in examine_running(running, redacted(config, BUILT_IN) if is_complete else None):
            yield finding
    else:
        where = f"at {config.admin}" if config.admin else "here (no admin address)"
        yield note("kproxy", f"none runs {where}; its configuration is examined as if it would start now")
    for finding in examine_machine(config, running=running is not None):
        yield finding
    for cluster in config.clusters:
        topics: list[str] = []
        async for finding in examine_cluster(config, cluster, patience, login, topics):
            yield finding
        async for finding in examine_keys(cluster, topics):
            yield finding
    if running:
        async for finding in examine_through(config, patience, login):
            yield finding


async def examine_admin(running: Running) -> AsyncIterator[Finding]:
    """Examine a running kproxy by its admin pages alone."""
    for finding in examine_running(running, None):
        yield finding


class LoginNotTried(LoginRefused):
    """No login was sent: the password could be seen, or another program listens there."""


async def examine_through(config: Config, patience: float, login: Credentials | None = None) -> AsyncIterator[Finding]:
    """Connect to each cluster through kproxy as a client does, then to each broker listed. *login*: if brokers require one."""
    for cluster in config.clusters:
        if cluster.addresses.mode in ("port", "fixed", "sni"):
            yield await _examine_as_client(cluster, patience, login)


async def _examine_as_client(cluster: Cluster, patience: float, login: Credentials | None) -> Finding:
    listen = parse_address(cluster.listen, any_host=True)
    host = "localhost" if listen.host in ANY_HOSTS else listen.host
    subject = f"{cluster.name}: clients at {join_address(host, listen.port)}"
    if cluster.proxy_protocol or (cluster.listener_tls and cluster.listener_tls.client_auth == "required"):
        header = "connections begin with a PROXY header of the load balancer"
        return note(subject, f"not tried: {header if cluster.proxy_protocol else 'clients need a certificate'}")
    try:
        brokers = await _ask_as(None, cluster, host, listen.port, patience)
        if brokers is None and login is not None:
            brokers = await _ask_as(login, cluster, host, listen.port, patience)
    except LoginNotTried as error:
        return warning(subject, f"connected; the login was not tried: {error}", error.advice)
    except LoginRefused as error:
        return problem(subject, f"the login fails through kproxy: {error}", error.advice)
    except NO_ANSWER as error:
        reason = str(error) or f"no answer within {patience:g} s"
        advice = "see the findings about its brokers, and the log of kproxy"
        return problem(subject, f"no answer through kproxy: {reason}", advice)
    if brokers is None:
        advice = "" if login else "--command-config FILE: the properties of a client, to log in as it does"
        return note(subject, "connected; brokers are listed only to clients that log in", advice)
    return await _follow(cluster, brokers, (host, listen.port), patience)


async def _follow(
    cluster: Cluster, brokers: list[tuple[int, str, int]], listen: tuple[str, int], patience: float
) -> Finding:
    """Connect to every broker at the address that kproxy advertises for it."""
    subject = f"{cluster.name}: clients at {join_address(*listen)}"
    refused, other_names = [], []
    for node, name, port in brokers:
        where = name, port
        if cluster.addresses.mode == "sni" and await unresolved([name], patience):
            where = listen  # cluster.py checks DNS; this checks whether the name in the handshake leads to the broker
        try:
            names = await _answers(cluster, *where, name, patience)
        except NO_ANSWER:
            refused.append(f"broker {node} at {join_address(name, port)}")
            continue
        if cluster.listener_tls is not None and not is_for(names, name):
            other_names.append(name)
    if refused:
        what = f"kproxy advertises {listed(refused)}, where this machine gets no answer"
        advice = (
            "set addresses.advertise to a name that clients reach; behind a load balancer addresses.advertise_port too"
        )
        if cluster.addresses.mode == "sni":
            advice = "let addresses.broker_name lead to kproxy in DNS; behind a load balancer set addresses.advertise_port too"
        return problem(subject, what, advice)
    if other_names and cluster.addresses.mode == "sni":
        what = f"the certificate that is shown there is not for {listed(other_names)}"
        return problem(
            subject, what, "issue listener_tls.certificate with these names; does another program end TLS there?"
        )
    who = (
        "the broker answers at the address"
        if len(brokers) == 1
        else f"all {len(brokers)} brokers answer at the addresses"
    )
    return good(subject, f"{who} that kproxy advertises")


async def _ask_as(
    login: Credentials | None, cluster: Cluster, host: str, port: int, patience: float
) -> list[tuple[int, str, int]] | None:
    """Return node id, host and port of each broker; None if they are listed only after a login, or after another one.

    Raises LoginRefused, one of NO_ANSWER, and LoginNotTried before anything of the login is sent.
    """
    async with _open_client(cluster, host, port, host, patience) as asking:
        versions = await asking.versions()
        if login is not None:
            _check_safety(login, cluster, asking)
            await log_in(asking.ask, login, host, asyncio.to_thread, versions)
        try:
            return await asking.brokers(versions)
        except EOFError:  # brokers close a connection that sends anything else before its login
            return None


def _check_safety(login: Credentials, cluster: Cluster, asking: BrokerClient) -> None:
    """Raise LoginNotTried unless kproxy itself gets the password, or the settings allow it to cross a network in the clear."""
    if cluster.listener_tls is None:
        if login.needs_tls:
            what = "security.protocol is SASL_SSL, and clients have no TLS here"
            raise LoginNotTried(what, "set listener_tls of the cluster")
        return
    own = Path(cluster.listener_tls.certificate).read_bytes()
    if not is_same_certificate(asking.certificate(), own):
        what = "another certificate than listener_tls.certificate is shown"
        raise LoginNotTried(what, "does another program listen there? If the file was renewed, reload kproxy")


async def _answers(cluster: Cluster, host: str, port: int, name: str, patience: float) -> list[str]:
    """Connect with *name* in the TLS handshake; return the names in the certificate. Raises one of NO_ANSWER."""
    async with _open_client(cluster, host, port, name, patience) as asking:
        await asking.versions()
        return certificate_names(asking.certificate())


@contextlib.asynccontextmanager
async def _open_client(
    cluster: Cluster, host: str, port: int, name: str, patience: float
) -> AsyncIterator[BrokerClient]:
    words = {}
    if cluster.listener_tls:
        context = ssl.create_default_context()  # names and dates are checked elsewhere; here only whether TLS works
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        words = {"ssl": context, "server_hostname": name}
    async with asyncio.timeout(patience):
        reader, writer = await asyncio.open_connection(host, port, **words)  # type: ignore[arg-type]
        asking = BrokerClient(reader, writer)
        try:
            yield asking
        finally:
            asking.abort()
