"""One broker as kproxy would reach it: name, port, TLS, what it speaks, whether it wants a login, and its clock.

Before a login, a broker tells its versions, its SASL mechanisms and its certificate; addresses and clock only after a login.
"""

import asyncio
import datetime
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kproxy.config.structs import BrokerTls, Cluster
from kproxy.doctor.findings import Words
from kproxy.errors import DecodeError, LoginRefused, UpstreamError
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import log_in
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import MOST_PORT, join_address, parse_ip
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import releases
from kproxy.proxy.broker_client import BrokerClient
from kproxy.proxy.network.tls import broker_context, server_name
from kproxy.proxy.network.upstream import Upstream

NO_MECHANISM = '{"mechanism": "kproxy-doctor"}'  # no broker has it: its answer lists those that it has
QUORUM = '{"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]}'
# Reasons of OpenSSL (X509_V_ERR_*), by number: openssl-verification-options(1), "DIAGNOSTICS".
NOT_YET_VALID, EXPIRED, SELF_SIGNED, SELF_SIGNED_IN_CHAIN, NO_ISSUER, NO_LEAF_ISSUER = 9, 10, 18, 19, 20, 21
WRONG_NAME, WRONG_IP = 62, 64
SOON = datetime.timedelta(days=14)
PLAIN_REASONS = {
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "UNEXPECTED_EOF_WHILE_READING",
}
# Alerts of a broker about a client's certificate, or about none (RFC 8446, 6.2); in TLS 1.3 they come after the handshake.
OF_CLIENT_CERTIFICATE = {
    "CERTIFICATE_REQUIRED",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_BAD_CERTIFICATE",  # Java says this too where there is none
    "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "SSLV3_ALERT_CERTIFICATE_REVOKED",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    "TLSV1_ALERT_UNKNOWN_CA",
    "TLSV1_ALERT_ACCESS_DENIED",
}


@dataclass
class Broker:
    """What is known about a broker. *failure*: why it could not be examined, and what to do; all else is empty then."""

    address: str
    host: str
    port: int
    failure: Words | None = None
    release: str = ""  # of Kafka, at least
    versions: dict[int, int] = field(default_factory=dict)
    mechanisms: list[str] = field(default_factory=list)  # of SASL; empty: it requires no login, or was not asked
    wants_login: bool = False
    logged_in: bool = False
    login_failure: Words | None = None  # why the login that was given failed, and what to do
    brokers: list[tuple[int, str, int]] = field(default_factory=list)
    clock_ahead_s: float | None = None  # how far its clock is ahead of this machine's; None: not known


class NoTls(Exception):
    """The peer does not speak TLS."""


async def ask_broker(
    cluster: Cluster, host: str, port: int, patience: float, *, questions: bool = True, login: Credentials | None = None
) -> Broker:
    """Connect to a broker as kproxy would, and examine it.

    Args:
        cluster: the configuration of its cluster.
        host: its name or IP address.
        port: its port.
        patience: seconds for one answer; all questions before a login together have twice as much, those after it again.
        questions: False: only check that it answers as a Kafka broker.
        login: used if the broker requires one.
    """
    broker = Broker(join_address(host, port), host, port)
    if not 0 < port <= MOST_PORT:  # a broker may advertise any number
        broker.failure = Words(f"{port} is no port", "correct the port")
        return broker
    try:
        async with asyncio.timeout(patience * 2):
            await _examine_before_login(broker, cluster, patience, questions)
    except TimeoutError:
        broker.failure = broker.failure or Words(
            f"no answer within {patience * 2:g} s", "is it overloaded, or a firewall between?"
        )
    if login is not None and broker.wants_login and broker.failure is None:
        await _examine_after_login(broker, cluster, patience, login)
    return broker


async def ask_topics(cluster: Cluster, broker: Broker, patience: float, login: Credentials | None) -> list[str]:
    """Return the names of all topics that a broker tells of; after a login, where the broker was examined with it.

    Raises UpstreamError, NoTls, LoginRefused, OSError (TimeoutError is one), EOFError, DecodeError.
    """
    async with asyncio.timeout(patience):
        asking = await _open(Upstream.of(cluster, patience), broker, cluster.broker_tls, patience)
        try:
            if login is not None and broker.logged_in:
                await log_in(asking.ask, login, broker.host, asyncio.to_thread, broker.versions)
            return await asking.topics(broker.versions)
        finally:
            asking.abort()


async def _examine_before_login(broker: Broker, cluster: Cluster, patience: float, questions: bool) -> None:
    upstream = Upstream.of(cluster, patience)
    try:
        asking = await _open(upstream, broker, cluster.broker_tls, patience)
    except UpstreamError as error:
        broker.failure = _explain_connect(str(error), broker)
        return
    except NoTls:
        plain = await _answers_api_versions(upstream, broker, None, patience)
        what, advice = "it does not speak TLS, but Kafka without TLS", "remove broker_tls"
        if not plain:
            what = "it ends the connection within the TLS handshake, as one that does not speak TLS"
            advice = "correct the port"
        broker.failure = Words(what, f"{advice}, or connect to the port of a listener with TLS (SSL or SASL_SSL)")
        return
    except OSError as error:
        _, names = await _probe_tls(upstream, broker, patience)
        broker.failure = _explain_tls(error, broker, cluster, names)
        return
    try:
        await _ask(asking, broker, questions)
    except (OSError, EOFError, DecodeError, asyncio.IncompleteReadError) as error:
        broker.failure = await _explain_silence(error, upstream, broker, cluster, patience)
    finally:
        asking.abort()


async def _examine_after_login(broker: Broker, cluster: Cluster, patience: float, login: Credentials) -> None:
    """Log in and examine the broker, on a new connection: a broker closes a connection whose SASL mechanism it lacks."""
    if login.needs_tls and cluster.broker_tls is None:
        broker.login_failure = Words(
            "not tried: security.protocol is SASL_SSL, and kproxy connects to the brokers without TLS",
            "set broker_tls of the cluster, and connect to a listener with TLS",
        )
        return
    try:
        async with asyncio.timeout(patience * 2):
            asking = await _open(Upstream.of(cluster, patience), broker, cluster.broker_tls, patience)
            try:
                await log_in(asking.ask, login, broker.host, asyncio.to_thread, broker.versions)
                broker.logged_in = True
                await _ask_for_cluster(asking, broker)
            finally:
                asking.abort()
    except LoginRefused as error:
        broker.login_failure = Words(str(error), error.advice)
    except TimeoutError:
        after = "after the login" if broker.logged_in else "to the login"
        advice = "does it wait for another server to check passwords? A longer --timeout lets it answer"
        broker.login_failure = Words(f"no answer {after} within {patience * 2:g} s", advice)
    except (UpstreamError, NoTls, OSError, EOFError, DecodeError) as error:
        after = "after the login" if broker.logged_in else "during the login"
        broker.login_failure = Words(f"the connection ended {after}: {error}", "see the log of the broker")


async def _open(upstream: Upstream, broker: Broker, tls: BrokerTls | None, patience: float) -> BrokerClient:
    """Open a connection. Raises UpstreamError (not connected), NoTls, or OSError (the handshake failed)."""
    connected = await upstream.connect(broker.host, broker.port)
    options = {}
    try:
        await asyncio.get_running_loop().sock_sendall(connected, upstream.own_proxy_header())
        if tls:
            options = {
                "ssl": broker_context(tls),
                "server_hostname": server_name(tls, broker.host),
                "ssl_handshake_timeout": patience,
            }
        reader, writer = await asyncio.open_connection(sock=connected, **options)  # type: ignore[arg-type]
    except ssl.SSLCertVerificationError:
        connected.close()
        raise
    except (ConnectionError, ssl.SSLError) as error:
        connected.close()
        if tls and (not isinstance(error, ssl.SSLError) or error.reason in PLAIN_REASONS):
            raise NoTls from error
        raise
    return BrokerClient(reader, writer)


async def _answers_api_versions(upstream: Upstream, broker: Broker, tls: BrokerTls | None, patience: float) -> bool:
    """Return whether the peer answers ApiVersions."""
    try:
        asking = await _open(upstream, broker, tls, patience)
    except (UpstreamError, NoTls, OSError):
        return False
    try:
        await asking.versions()
    except (OSError, EOFError, DecodeError, asyncio.IncompleteReadError):
        return False
    finally:
        asking.abort()
    return True


async def _probe_tls(upstream: Upstream, broker: Broker, patience: float) -> tuple[bool, list[str]]:
    """Return whether the peer speaks TLS, and the names in its certificate, valid or not."""
    try:
        asking = await _open(upstream, broker, BrokerTls(verify=False), patience)
    except ssl.SSLError:  # it speaks TLS, but may require a client certificate
        return True, []
    except (UpstreamError, NoTls, OSError):
        return False, []
    names = certificate_names(asking.certificate())
    asking.abort()
    return True, names


async def _alert(upstream: Upstream, broker: Broker, tls: BrokerTls, patience: float) -> ssl.SSLError | None:
    """Return the alert that follows a handshake of TLS 1.3; None if none comes.

    A client has finished its handshake before the broker can refuse its certificate (RFC 8446, 4.4.2.4). If it sent data then,
    the error of the closed connection could hide the alert, so nothing is sent here.
    """
    try:
        asking = await _open(upstream, broker, tls, patience)
    except (UpstreamError, NoTls, OSError):
        return None
    try:
        async with asyncio.timeout(patience):
            await asking.until_closed()
    except ssl.SSLError as error:
        return error
    except (OSError, EOFError):  # TimeoutError is one
        return None
    finally:
        asking.abort()
    return None


async def _ask(asking: BrokerClient, broker: Broker, questions: bool) -> None:
    broker.versions = await asking.versions()
    broker.release = _release(broker.versions)
    if not questions or ApiKey.METADATA not in broker.versions:
        return
    if ApiKey.SASL_HANDSHAKE in broker.versions:
        shaken = await asking.ask(ApiKey.SASL_HANDSHAKE, min(broker.versions[ApiKey.SASL_HANDSHAKE], 1), NO_MECHANISM)
        if shaken.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            broker.mechanisms, broker.wants_login = list(shaken.mechanisms), True
            return
    await _ask_for_cluster(asking, broker)


async def _ask_for_cluster(asking: BrokerClient, broker: Broker) -> None:
    broker.brokers = await asking.brokers(broker.versions)
    if broker.versions.get(ApiKey.DESCRIBE_QUORUM, 0) >= 1:
        broker.clock_ahead_s = await _clock(asking)


async def _clock(asking: BrokerClient) -> float | None:
    """Return by how many seconds the clock of the quorum's leader is ahead of ours (KIP-836); None without permission to ask."""
    before = time.time()
    response = await asking.ask(ApiKey.DESCRIBE_QUORUM, 1, QUORUM)
    after = time.time()
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    for partition in partitions:
        for replica in partition.current_voters:
            # the leader's own timestamp is the time at which it answers
            if replica.replica_id == partition.leader_id and replica.last_caught_up_timestamp > 0:
                return float(replica.last_caught_up_timestamp / 1000 - (before + after) / 2)
    return None


def _release(versions: dict[int, int]) -> str:
    """Return the oldest release of Kafka that has all these versions, the newest of their first releases; "" if not known."""
    first = releases()
    known = [first[api] for api in versions.items() if api in first]
    return max(known, key=lambda release: [int(part) for part in release.split(".")], default="")


async def _explain_silence(
    error: Exception, upstream: Upstream, broker: Broker, cluster: Cluster, patience: float
) -> Words:
    """Explain why a peer that accepts connections does not answer as a Kafka broker."""
    if cluster.broker_tls is None and (await _probe_tls(upstream, broker, patience))[0]:
        return Words(
            "it speaks TLS, and kproxy would not",
            "set broker_tls of the cluster: {} for the authorities of this system, else {ca: FILE}",
        )
    if cluster.broker_tls is not None:
        alert = (
            error if isinstance(error, ssl.SSLError) else await _alert(upstream, broker, cluster.broker_tls, patience)
        )
        if alert is not None:
            return _explain_tls(alert, broker, cluster, [])
    reason = str(error) or type(error).__name__
    return Words(f"it does not answer as Kafka: {reason}", "is this the port of a broker's listener for clients?")


def _explain_tls(error: OSError, broker: Broker, cluster: Cluster, names: list[str]) -> Words:
    assert cluster.broker_tls is not None
    wanted = server_name(cluster.broker_tls, broker.host)
    return explain_handshake(error, wanted, names, cluster.broker_tls.certificate)


def _explain_connect(reason: str, broker: Broker) -> Words:
    what = reason.removeprefix(f"no connection to {broker.address}: ").removeprefix(f"{broker.host}: ")
    if reason.startswith(f"{broker.host}: "):
        if "emporary failure" in reason or "in time" in reason:
            return Words(
                f"the name was not resolved: {what}", "does the name server of this machine answer (/etc/resolv.conf)?"
            )
        return Words(f"the name is not known: {what}", "correct the name, or add it to DNS or /etc/hosts")
    if "refused" in what.lower():
        return Words("nothing listens on that port", "correct the port, or start the broker")
    return Words(f"no connection: {what}", "is there a route, and does no firewall stand between?")


def explain_handshake(error: OSError, name: str, names: list[str], own: str | None) -> Words:
    """Explain why TLS with a broker failed.

    Args:
        error: what the handshake, or the first read after it, raised.
        name: the name that the broker's certificate must have.
        names: the names that it has.
        own: the file of our certificate; None if we have none.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, name, names)
    reason = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or str(error) or type(error).__name__
    words = reason.replace("_", " ").lower()
    if isinstance(error, ssl.SSLError) and reason in OF_CLIENT_CERTIFICATE:
        if own is None:
            return Words(
                "it wants a certificate of its clients, and kproxy has none for it",
                "set broker_tls.certificate and broker_tls.key to one that it accepts",
            )
        return Words(
            f"it does not accept the certificate {own}: {words}",
            "set broker_tls.certificate to one that has not expired, from an authority in the broker's ssl.truststore",
        )
    advice = "compare TLS versions and ciphers of both sides"
    if own is None:
        advice += "; if it wants a certificate of its clients, set broker_tls.certificate and broker_tls.key"
    return Words(f"no TLS handshake: {words}", advice)


def _explain_certificate(error: ssl.SSLCertVerificationError, name: str, names: list[str]) -> Words:
    match error.verify_code:
        case code if code == EXPIRED:
            return Words(
                "its certificate has expired", "renew the broker's certificate, or set the clock of this machine"
            )
        case code if code == NOT_YET_VALID:
            return Words(
                "its certificate is not valid yet", "is the clock of this machine right? See the check of the clock"
            )
        case code if code in (WRONG_NAME, WRONG_IP):
            has = ", ".join(names) or "none"
            return Words(
                f"its certificate is not for {name}; its names are: {has}",
                f"connect by one of these names, set broker_tls.server_name to one, or issue it with {name}",
            )
        case code if code in (SELF_SIGNED, SELF_SIGNED_IN_CHAIN, NO_ISSUER, NO_LEAF_ISSUER):
            return Words(
                f"its certificate is signed by an unknown authority ({error.verify_message})",
                "set broker_tls.ca to the file with the authority's certificate",
            )
    return Words(
        f"its certificate is not accepted: {error.verify_message}", "look at it with openssl s_client -showcerts"
    )


def _load(encoded: bytes) -> x509.Certificate:
    """Load a certificate, the first one of PEM. Raises ValueError."""
    if b"-----BEGIN" in encoded:
        return x509.load_pem_x509_certificate(encoded)
    return x509.load_der_x509_certificate(encoded)


def is_same_certificate(shown: bytes | None, encoded: bytes) -> bool:
    """Return whether the certificate shown in a handshake (DER) is this one (DER, or the first of PEM)."""
    try:
        return shown is not None and shown == _load(encoded).public_bytes(Encoding.DER)
    except ValueError:
        return False


def certificate_names(encoded: bytes | None) -> list[str]:
    """Return the names in a certificate (DER or PEM): its subject alternative names, else its common name."""
    if encoded is None:
        return []
    try:
        certificate = _load(encoded)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    except x509.ExtensionNotFound:
        return [str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except ValueError:
        return []


def is_for(names: list[str], host: str) -> bool:
    """Return whether a certificate with these names is valid for *host* (RFC 6125: a wildcard stands for one label)."""
    if parse_ip(host):
        return host in names
    wanted = host.rstrip(".").lower()
    _, _, parent = wanted.partition(".")
    return any(name.lower() in (wanted, f"*.{parent}") for name in names)


def date_problems(encoded: bytes, now: datetime.datetime) -> Iterator[str]:
    """Say what is wrong with the dates of a certificate (DER or PEM)."""
    try:
        certificate = _load(encoded)
    except ValueError:
        return
    if now > certificate.not_valid_after_utc:
        yield f"has expired ({certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC)"
    elif now < certificate.not_valid_before_utc:
        yield f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    elif now + SOON > certificate.not_valid_after_utc:
        yield f"expires on {certificate.not_valid_after_utc:%Y-%m-%d}"
