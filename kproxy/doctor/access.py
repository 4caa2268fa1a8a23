"""Checks of logins and of the brokers' clock. Brokers give their addresses and their clock only to a client that is logged in."""

from collections.abc import Iterator

from kproxy.config import Cluster
from kproxy.config.checks import parse_node_ids
from kproxy.doctor.broker import Broker
from kproxy.doctor.findings import Finding, good, note, problem, warning
from kproxy.login.client_settings import MECHANISMS
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import parse_address, parse_ip

IN_THE_CLEAR = {"PLAIN", "OAUTHBEARER"}  # mechanisms that send the password or token itself
SASL_PLAIN_ADVICE = "use a listener with TLS (SASL_SSL) and set broker_tls, or a mechanism such as SCRAM-SHA-512"
CLOCK_S = 60.0  # a larger difference disturbs transactions and retention by time
NEARLY = 0.99  # so much of a day counts as a day


def examine_access(cluster: Cluster, broker: Broker) -> Iterator[Finding]:
    """Check logins and the clock, with what is known of the first broker that answered."""
    if ApiKey.METADATA not in broker.versions:  # a controller, which serves no client
        return
    if broker.wants_login:
        yield _passwords(cluster, broker)
        yield from _login(cluster, broker)
    if broker.logged_in or not broker.wants_login:
        yield _clock(cluster, broker)


def _passwords(cluster: Cluster, broker: Broker) -> Finding:
    subject = f"{cluster.name}: login"
    clear = [one for one in broker.mechanisms if one in IN_THE_CLEAR]
    if clear and cluster.broker_tls is None:
        what = f"{' and '.join(clear)} without TLS towards the brokers: passwords cross the network in the clear"
        return problem(subject, what, SASL_PLAIN_ADVICE)
    if clear and cluster.listener_tls is None and not _is_loopback(cluster.listen):
        what = f"{' and '.join(clear)} without TLS from clients: passwords cross the network in the clear"
        return warning(subject, what, "set listener_tls, or listen on localhost, as a sidecar does")
    return good(subject, f"clients log in ({', '.join(broker.mechanisms)})")


def _login(cluster: Cluster, broker: Broker) -> Iterator[Finding]:
    """Report whether the given login works; without a login, what could not be examined."""
    if broker.login_failure is not None:
        yield problem(f"{cluster.name}: the login that was given", *broker.login_failure)
    if broker.logged_in and broker.login_failure is None:
        yield good(f"{cluster.name}: the login that was given", "is accepted")
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


def _is_loopback(address: str) -> bool:
    host = parse_address(address, any_host=True).host
    number = parse_ip(host)
    return host == "localhost" or (number is not None and number.is_loopback)


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size * NEARLY:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
