"""Checks of values that their types do not express: modes that exclude each other, addresses, limits that contradict. No I/O.

check_values   each value, and tenants of one Kafka cluster (kproxy.filters.topic_prefix): no prefix may be the beginning of
               another. Virtual clusters are known to be in front of one Kafka cluster where they share a bootstrap address
check_ports    which ports are bound, and which two parts bind the same one: whether a port is free shows at the bind

Every check yields (path, message) and continues; reading.py adds the places.
"""

import re
import string
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple
from urllib.parse import urlsplit

from kproxy.authentication import kerberos_names
from kproxy.authentication.certificates import parse_rules
from kproxy.config.structs import (
    MOST_WORKERS,
    PRINCIPAL,
    Addresses,
    Authentication,
    BrokerTls,
    Cluster,
    Config,
    Limits,
    ListenerTls,
    Login,
    Tokens,
)
from kproxy.errors import UsageError
from kproxy.options import endpoint_problems, quoted
from kproxy.protocol.addresses import ANY_HOSTS, MOST_PORT, Address, parse_address, parse_host
from kproxy.secrets import VAULT_REFERENCE, is_reference

FILTER = "topic_prefix"
Problem = tuple[str, str]
NODE_RANGE = re.compile(r"([0-9]{1,10})\s*-\s*([0-9]{1,10})", re.ASCII)
NODE_ID = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
MOST_NODE = (1 << 31) - 1
LEAST_PAGE = 16 << 20
SMALLEST_FRAME = 1_024  # an ApiVersions response of Kafka 4.3 has 600 bytes
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PROXY_SCHEMES = ("socks5", "socks5h", "http")
USED_BY = {
    "first_port": ("port",),
    "node_ids": ("port", "sni"),
    "broker_name": ("sni",),
    "advertise": ("port",),
    "advertise_port": ("port", "sni"),
    "advertise_brokers": ("port", "sni"),
    "allow_link_local": ("port", "sni"),
}
ASSUMED_NODES = range(4)  # without node_ids: a small cluster


def check_values(config: Config) -> Iterator[Problem]:
    """Check everything that does not depend on the machine."""
    yield from _check_address("admin", config.admin, any_host=True)
    for at, host in enumerate(config.admin_hosts):
        yield from _check_host(f"admin_hosts[{at}]", host)
    if not 1 <= config.workers <= MOST_WORKERS:  # from --workers: in a file the type is checked
        yield "workers", f"{config.workers} is out of range: from 1 to {MOST_WORKERS}"
    names = [cluster.name for cluster in config.clusters]
    for at, cluster in enumerate(config.clusters):
        if cluster.name in names[:at]:
            yield (
                f"clusters[{at}].name",
                f"{quoted(cluster.name)} is the name of another cluster: names have to be unique",
            )
        yield from _check_cluster(f"clusters[{at}]", cluster)
    yield from check_tenants(config)
    yield from _check_limits(config.limits)
    yield from _check_analysis(config)
    yield from _check_traces(config)
    if config.page.edits and config.admin is None:
        yield "page.edits", "breakpoints are set at the admin server: give admin an address, or leave edits out"
    if config.page.memory < LEAST_PAGE:
        yield "page.memory", f"{config.page.memory:,} bytes are too few: at least 16MiB"


def parse_node_ids(node_ids: list[int | str]) -> list[int]:
    """Expand ranges of node ids: [0, "100-102"] -> [0, 100, 101, 102]. Raises ValueError that names the wrong entry."""
    ids: list[int] = []
    for entry in node_ids:
        first, last = _node_range(entry)
        if last - first >= 60_000:
            raise ValueError(f"{entry}: a range of more nodes than there are ports")
        ids.extend(range(first, last + 1))
    return ids


def _node_range(entry: int | str) -> tuple[int, int]:
    match = NODE_RANGE.fullmatch(str(entry)) if isinstance(entry, str) else None
    first, last = (int(match[1]), int(match[2])) if match else (entry, entry)
    if isinstance(first, str) or isinstance(last, str):
        raise ValueError(f'{quoted(str(entry))} is neither a node id nor a range: write 3 or "0-5"')
    if not 0 <= first <= last <= MOST_NODE:
        raise ValueError(f"{entry}: node ids are from 0 to {MOST_NODE:,}, the smaller one first")
    return first, last


def _check_address(path: str, text: str | None, *, any_host: bool = False) -> Iterator[Problem]:
    if text is None:
        return
    try:
        parse_address(text, any_host=any_host)
    except ValueError as error:
        yield path, f"{quoted(text)}: {error}"


def _check_host(path: str, host: str) -> Iterator[Problem]:
    try:
        parse_host(host)
    except ValueError as error:
        yield path, f"{quoted(host)}: {error}"


def _check_cluster(path: str, cluster: Cluster) -> Iterator[Problem]:
    yield from _check_address(f"{path}.listen", cluster.listen, any_host=True)
    for at, address in enumerate(cluster.bootstrap):
        yield from _check_address(f"{path}.bootstrap[{at}]", address)
    yield from _check_bootstrap(path, cluster)
    yield from _check_advertised(f"{path}.addresses", cluster.addresses)
    yield from _check_mode(path, cluster)
    unset = Addresses()
    for name, modes in USED_BY.items():
        mode = cluster.addresses.mode
        if mode not in modes and getattr(cluster.addresses, name) != getattr(unset, name):
            yield f"{path}.addresses.{name}", f"it has no effect in {mode} mode, only in {' and '.join(modes)} mode"
    yield from _check_tls(path, cluster.listener_tls, cluster.broker_tls)
    yield from _check_through(f"{path}.through", cluster.through)
    if cluster.authentication is not None:
        yield from _check_authentication(f"{path}.authentication", cluster.authentication, cluster.listener_tls)
    if cluster.login is not None:
        yield from _check_login(f"{path}.login", cluster, cluster.login)


def _check_bootstrap(path: str, cluster: Cluster) -> Iterator[Problem]:
    transparent = cluster.addresses.mode == "transparent"
    if not cluster.bootstrap and not transparent:
        yield f"{path}.bootstrap", 'it is missing: name a broker of the cluster, as ["host:port"]'
    if cluster.bootstrap and transparent:
        message = "transparent mode forwards to the original destination of each connection: leave bootstrap out"
        yield f"{path}.bootstrap", message
    for at, address in enumerate(cluster.bootstrap):
        if address == cluster.listen:
            yield (
                f"{path}.bootstrap[{at}]",
                f"{quoted(address)} is the address where this cluster listens: it would connect to itself",
            )


def _check_advertised(path: str, addresses: Addresses) -> Iterator[Problem]:
    if addresses.advertise is not None:
        yield from _check_advertised_host(f"{path}.advertise", addresses.advertise)
    yield from _check_advertised_brokers(f"{path}.advertise_brokers", addresses)
    try:
        parse_node_ids(addresses.node_ids)
    except ValueError as error:
        yield f"{path}.node_ids", str(error)


def _check_advertised_host(path: str, host: str) -> Iterator[Problem]:
    if "{" in host or "}" in host:
        yield from _check_broker_name(path, host)
    elif host.count(":") == 1 and host.partition(":")[2].isdecimal():
        yield path, f"{quoted(host)}: it is a host without a port: the port goes into advertise_port"
    else:
        yield from _check_host(path, host)


def _check_advertised_brokers(path: str, addresses: Addresses) -> Iterator[Problem]:
    """Check that each broker has an address of its own; in SNI mode, a host of its own."""
    seen: dict[str, str] = {}
    for node_id, text in addresses.advertise_brokers.items():
        if not NODE_ID.fullmatch(node_id) or int(node_id) > MOST_NODE:
            yield f"{path}.{node_id}", f"{quoted(node_id)} is no node id: write a number from 0 to {MOST_NODE:,}"
        try:
            host, _ = parse_address(text)
        except ValueError as error:
            yield f"{path}.{node_id}", f"{quoted(text)}: {error}"
            continue
        advertised = host.lower() if addresses.mode == "sni" else text.lower()
        if advertised in seen:
            yield (
                f"{path}.{node_id}",
                f"node {seen[advertised]} has the same {quoted(advertised)}: clients would confuse them",
            )
        seen[advertised] = node_id


def _check_mode(path: str, cluster: Cluster) -> Iterator[Problem]:
    """Check what one mode of addresses asks for; the ports of the mode "port" are checked by check_ports."""
    mode = cluster.addresses.mode
    if mode == "sni":
        yield from _check_sni(path, cluster)
    elif mode == "transparent" and cluster.proxy_protocol:
        message = "transparent mode takes the destination from the kernel: a PROXY header would describe another hop"
        yield f"{path}.proxy_protocol", message
    elif mode == "fixed" and len(cluster.bootstrap) > 1:
        yield f"{path}.bootstrap", "fixed mode has one target: write one address, or use another addresses.mode"


def _check_sni(path: str, cluster: Cluster) -> Iterator[Problem]:
    if cluster.listener_tls is None:
        yield (
            f"{path}.listener_tls",
            "it is missing: SNI mode distinguishes brokers by the server name in the TLS handshake",
        )
    name = cluster.addresses.broker_name
    if name is None:
        message = 'it is missing: SNI mode needs a name such as "broker-{node_id}.kafka.example.com"'
        yield f"{path}.addresses.broker_name", message
        return
    yield from _check_broker_name(f"{path}.addresses.broker_name", name)


def _check_broker_name(path: str, name: str) -> Iterator[Problem]:
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(name) if field is not None]
        if fields != ["node_id"]:
            raise ValueError("it has to contain {node_id} once, and nothing else in braces")
        parse_host(name.replace("{node_id}", str(MOST_NODE)))
    except ValueError as error:
        yield path, f"{quoted(name)}: {error}"


def _check_tls(path: str, listener: ListenerTls | None, broker: BrokerTls | None) -> Iterator[Problem]:
    if listener is not None and listener.client_auth != "none" and listener.client_ca is None:
        message = (
            f"it is missing: with client_auth {listener.client_auth} it contains the CAs of the clients' certificates"
        )
        yield f"{path}.listener_tls.client_ca", message
    if listener is not None and listener.client_ca is not None and listener.client_auth == "none":
        message = "client_ca has no effect with none: set this to required or requested, or leave client_ca out"
        yield f"{path}.listener_tls.client_auth", message
    if broker is None:
        return
    if (broker.certificate is None) != (broker.key is None):
        missing = "key" if broker.key is None else "certificate"
        yield f"{path}.broker_tls.{missing}", "it is missing: certificate and key are needed together"
    if not broker.verify and broker.ca is not None:
        yield f"{path}.broker_tls.verify", "ca has no effect if verify is false: leave one of them out"


def _check_authentication(path: str, authentication: Authentication, tls: ListenerTls | None) -> Iterator[Problem]:
    has_tls = tls is not None
    mechanisms = set(authentication.mechanisms)
    bare = sorted(mechanisms & {"PLAIN", "OAUTHBEARER"})
    if bare and not has_tls and not authentication.plain_without_tls:
        yield (
            f"{path}.mechanisms",
            f"{' and '.join(bare)} would send secrets unencrypted: give the cluster listener_tls, or set plain_without_tls",
        )
    has_ways = bool(mechanisms) or authentication.certificates is not None  # else that is the mistake
    if not has_ways:
        yield f"{path}.mechanisms", "it is missing: name a SASL mechanism, or give certificates"
    if authentication.certificates is not None:
        if tls is None or tls.client_auth == "none":
            yield (
                f"{path}.certificates",
                "no client shows one: set client_auth of listener_tls to requested or required",
            )
        try:
            parse_rules(authentication.certificates)
        except UsageError as error:
            yield f"{path}.certificates", str(error)
    if authentication.plain_without_tls and has_ways and (has_tls or not bare):
        yield (
            f"{path}.plain_without_tls",
            "it has no effect: no such mechanism is offered, or the cluster has listener_tls",
        )
    parts = {"tokens": {"OAUTHBEARER"}, "kerberos": {"GSSAPI"}}
    parts["users"] = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
    for name, users in parts.items():
        needed = mechanisms & users
        if has_ways and bool(needed) != (getattr(authentication, name) is not None):
            why = (
                f"it is missing: {', '.join(sorted(needed))} needs it"
                if needed
                else "no mechanism uses it: leave it out"
            )
            yield f"{path}.{name}", why
    if authentication.tokens is not None and "OAUTHBEARER" in mechanisms:
        yield from _check_tokens(f"{path}.tokens", authentication.tokens)
    if authentication.kerberos is not None:
        try:
            kerberos_names.parse_rules(authentication.kerberos.principal_rules)
        except UsageError as error:
            yield f"{path}.kerberos.principal_rules", str(error)


def _check_tokens(path: str, tokens: Tokens) -> Iterator[Problem]:
    if (tokens.keys_url is None) == (tokens.keys_file is None):
        yield f"{path}.keys_url", "give either keys_url or keys_file: tokens are checked with these keys"
    if tokens.ca is not None and tokens.keys_url is None:
        yield f"{path}.ca", "it has no effect without keys_url"
    if tokens.keys_url is None:
        return
    try:
        parts = urlsplit(tokens.keys_url)
        is_here = parts.scheme == "http" and parts.hostname in LOOPBACK
        if not parts.hostname or parts.username or not (parts.scheme == "https" or is_here):
            raise ValueError
    except ValueError:
        yield f"{path}.keys_url", "write https://host/path, without a login; http only for 127.0.0.1, ::1 and localhost"


def _check_through(path: str, through: str | None) -> Iterator[Problem]:
    if through is None:
        return
    scheme, _, rest = through.partition("://")
    try:
        if scheme not in PROXY_SCHEMES or not rest:
            raise ValueError('write "socks5://host:port" or "http://host:port"')
        parts = urlsplit(through)
        if "@" in through and "@" not in parts.netloc:
            raise ValueError("in a password, / ? and # are written %2F, %3F and %23")
        parse_address(parts.netloc.rpartition("@")[2])
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("the address has to end after the port")
    except ValueError as error:
        yield path, str(error)  # without the text: it may contain a password


def _check_login(path: str, cluster: Cluster, login: Login) -> Iterator[Problem]:
    in_vault, all_are_references = False, True
    for name, secret in secrets_of(login):
        if re.fullmatch(VAULT_REFERENCE, secret):
            in_vault = True
        elif not is_reference(secret):  # without the text: it may be the secret itself
            all_are_references = False
            yield f"{path}.{name}", 'it says where the secret is: write "file:PATH", "env:NAME" or "vault:PATH#FIELD"'
    if in_vault != (login.vault is not None) and (in_vault or all_are_references):
        missing = "it is missing: a secret is in Vault" if in_vault else 'no secret is in it: write "vault:PATH#FIELD"'
        yield f"{path}.vault", missing
    yield from LOGINS.get(login.mechanism, _check_password_login)(path, login)
    for name, mechanism in (
        ("token", "OAUTHBEARER"),
        ("extensions", "OAUTHBEARER"),
        ("region", "AWS_MSK_IAM"),
        ("service", "GSSAPI"),
    ):
        if getattr(login, name) and login.mechanism != mechanism:
            yield f"{path}.{name}", f"it has no effect with {login.mechanism}, only with {mechanism}"
    if not login.mechanism.startswith(("SCRAM", "GSSAPI")) and cluster.broker_tls is None and not login.cleartext:
        what = "the password" if login.mechanism == "PLAIN" else "a token"
        message = f"it sends {what}, and there is no TLS to the brokers: set broker_tls, or cleartext: true"
        yield f"{path}.mechanism", message
    has_names = cluster.authentication or (cluster.listener_tls and cluster.listener_tls.client_auth != "none")
    is_by_name = login.principals or any(PRINCIPAL in text for text in (login.username or "", login.password or ""))
    if is_by_name and not has_names:
        message = "clients have no names here: set authentication, or client_auth of listener_tls"
        yield f"{path}.{'principals' if login.principals else 'username'}", message


def secrets_of(login: Login) -> Iterator[tuple[str, str]]:
    """Yield the secrets of a login by their paths in it, as they are written: where they are."""
    given = {"password": login.password}
    given |= {f"principals.{name}.password": one.password for name, one in login.principals.items()}
    if login.token is not None:
        given |= {"token.client_secret": login.token.client_secret, "token.subject_token": login.token.subject_token}
    yield from ((name, secret) for name, secret in given.items() if secret is not None)


def _check_password_login(path: str, login: Login) -> Iterator[Problem]:
    if (login.username is None) != (login.password is None):
        missing = "username" if login.username is None else "password"
        yield f"{path}.{missing}", "it is missing: username and password are needed together"
    elif login.password is None and not login.principals:
        yield f"{path}.username", "it is missing: write username and password, or principals"


def _check_bearer_login(path: str, login: Login) -> Iterator[Problem]:
    for name in ("username", "principals"):
        if getattr(login, name):
            yield f"{path}.{name}", "it has no effect with OAUTHBEARER: the token names the user"
    if (login.token is None) == (login.password is None):
        yield f"{path}.token", "write either token, where tokens are fetched, or password, where the token is"
    url = login.token.url if login.token else None
    if url is not None and not url.startswith("https://") and not (url.startswith("http://") and login.cleartext):
        yield f"{path}.token.url", "it has to begin with https://: secrets and tokens are sent to it"


def _check_kerberos_login(path: str, login: Login) -> Iterator[Problem]:
    yield from _check_password_login(path, login)
    for name, secret in secrets_of(login):
        if not secret.startswith("file:"):
            yield f"{path}.{name}", 'with GSSAPI it is a keytab: write "file:PATH"'


def _check_msk_login(path: str, login: Login) -> Iterator[Problem]:
    for name in ("username", "password", "principals"):
        if getattr(login, name):
            yield f"{path}.{name}", "it has no effect with AWS_MSK_IAM: AWS's own settings name the user"
    if not login.region:
        yield f"{path}.region", "it is missing: the region of the cluster, as eu-north-1"


LOGINS = {"OAUTHBEARER": _check_bearer_login, "AWS_MSK_IAM": _check_msk_login, "GSSAPI": _check_kerberos_login}


def _check_limits(limits: Limits) -> Iterator[Problem]:
    if limits.frame_size < SMALLEST_FRAME:
        yield (
            "limits.frame_size",
            f"{limits.frame_size:,} bytes are less than Kafka's own requests need: at least 1 KiB",
        )
    if limits.frame_size > MOST_NODE:
        yield "limits.frame_size", f"a frame's size is an int32: at most {MOST_NODE:,} bytes"
    pairs = (("held_frame_size", "memory"), ("connections_per_address", "connections"))
    for small, big in pairs:
        low, high = getattr(limits, small), getattr(limits, big)
        if low > high:
            yield f"limits.{small}", f"{low:,} is more than {big} ({high:,})"


def _check_analysis(config: Config) -> Iterator[Problem]:
    analysis = config.analysis
    if not 1 << 16 <= analysis.ring_size <= 1 << 30:
        yield "analysis.ring_size", f"{analysis.ring_size:,} is out of range: from 64KiB to 1GiB"
    yield from _check_apis("analysis.api_name", analysis.apis)
    for part in ("log", "capture"):
        rotated = getattr(analysis, part)
        if rotated is not None and not rotated.path:
            yield f"analysis.{part}.path", "it is empty"
    if not analysis.enabled and (analysis.log or analysis.capture):
        yield "analysis.enabled", "log and capture are written by the analysis: enable the analysis, or leave them out"
    if analysis.log and analysis.capture and analysis.log.path == analysis.capture.path:
        yield "analysis.capture.path", "the log has the same path"


def _check_traces(config: Config) -> Iterator[Problem]:
    traces = config.traces
    if traces is None:
        return
    yield from ((f"traces.{path}", message) for path, message in endpoint_problems(traces))
    yield from _check_apis("traces.api_name", traces.apis)
    if not config.analysis.enabled:
        yield "traces", "spans are made by the analysis: enable the analysis, or leave traces out"
    if not traces.service_name.isprintable():
        yield "traces.service_name", "it has characters that cannot be printed"


def _check_apis(path: str, names: list[str]) -> Iterator[Problem]:
    if not names:
        return
    from kproxy.protocol.facts import facts  # noqa: PLC0415 - 3 MB, needed only for this check

    known = {api.name.lower(): api.name for api in facts().apis.values()}
    for at, name in enumerate(names):
        if name not in known.values():
            meant = known.get(name.lower())
            hint = f"did you mean {meant}?" if meant else "kproxy api lists them"
            yield f"{path}[{at}]", f"there is no API {quoted(name)}: {hint}"


class Binding(NamedTuple):
    """The ports that one part of the configuration binds on one host."""

    path: str
    host: str
    ports: frozenset[int]
    description: str


def check_ports(config: Config) -> Iterator[Problem]:
    """Report ports above 65535, and ports that two parts bind. Invalid addresses are skipped: check_values reports them."""
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
            of_brokers = ".addresses." in one.path or ".addresses." in other.path
            remedy = ", or set first_port or node_ids" if of_brokers else ""
            yield other.path, f"port {min(both)} is {one.description}: change one of them{remedy}"


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


def _address(text: str) -> Address | None:
    try:
        return parse_address(text, any_host=True)
    except ValueError:
        return None


def _same_host(one: str, other: str) -> bool:
    one, other = (("127.0.0.1" if host == "localhost" else host) for host in (one, other))
    return one == other or one in ANY_HOSTS or other in ANY_HOSTS


class Tenant(NamedTuple):
    """One use of the filter topic_prefix."""

    path: str  # of its prefix in the configuration
    prefix: str
    bootstrap: frozenset[str]


def check_tenants(config: Config) -> Iterator[Problem]:
    """Report a prefix that is the beginning of another tenant's, or the other way round."""
    tenants: list[Tenant] = []
    for tenant in _tenants(config):
        for other in tenants:
            if tenant.bootstrap & other.bootstrap and _overlap(tenant.prefix, other.prefix):
                yield (
                    tenant.path,
                    f"{quoted(tenant.prefix)} and {quoted(other.prefix)}, at {other.path}, are in front of the same brokers, and"
                    " one begins with the other: the names of one tenant would be names of the other",
                )
        tenants.append(tenant)


def _tenants(config: Config) -> Iterator[Tenant]:
    for number, cluster in enumerate(config.clusters):
        for at, use in enumerate(cluster.filters):
            prefix = use.with_.get("prefix")
            if use.use == FILTER and isinstance(prefix, str):
                path = f"clusters[{number}].filters[{at}].with.prefix"
                yield Tenant(path, prefix, frozenset(cluster.bootstrap))


def _overlap(one: str, other: str) -> bool:
    """Return whether one prefix begins with the other. "." equals "_": Kafka's metrics do not tell them apart."""
    if one == other:
        return False  # a second way in for the same tenant
    first, second = one.replace(".", "_"), other.replace(".", "_")
    return first.startswith(second) or second.startswith(first)
