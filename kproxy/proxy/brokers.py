"""What a worker knows of the brokers of a virtual cluster.

    BrokerTable           node ids, the addresses of the brokers, and the port of kproxy that stands for each
    AdvertisedAddresses   the host and port that responses give clients in place of each broker's
    Reachability          whether a broker has been reached; reported to the supervisor, for /readyz

Addresses in brokers' responses are not trusted. A broker is not served if its host leads back to this proxy or to internal
addresses of the machine or a cloud, if its port is 0, or if there are more brokers than a cluster can have.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum

from kproxy.config.checks import parse_node_ids
from kproxy.config.structs import Addresses, Cluster
from kproxy.filters.contract import ConnectionFacts
from kproxy.protocol.addresses import LONGEST_NAME, MOST_PORT, Address, IPAddress, parse_ip, split_address, unmapped
from kproxy.proxy.logs import log
from kproxy.proxy.messages import BrokerReach, Message
from kproxy.proxy.network.socket_addresses import is_internal

_HOST = re.compile(r"[0-9A-Za-z_.:%-]+")


class BrokerTable:
    """The brokers of one virtual cluster, as one worker knows them; the AddressMap of its filters.

    Args:
        rules: the ``addresses`` of a cluster in the configuration, in mode "port" or "sni".
        listen: host and port of the cluster's listener.
        serve: called in port mode to listen on a broker's port, before its address is handed out; returns whether that worked.
        changed: called when a broker is new or has moved.
        withheld: called with the reason for every address that is refused.
    """

    def __init__(
        self,
        rules: Addresses,
        listen: tuple[str, int],
        *,
        serve: Callable[[int, int], bool] = lambda node_id, port: True,
        changed: Callable[[int], None] = lambda node_id: None,
        withheld: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.refused: Counter[str] = Counter()  # by reason
        self._rules = rules
        self._listen = listen
        self._first_port = listen[1] + 1 if rules.first_port is None else rules.first_port
        self._advertised = AdvertisedAddresses(rules, self.port_of)
        self._serve = serve
        self._changed = changed
        self._withheld = withheld
        self._targets: dict[int, tuple[str, int]] = {}

    def advertise(self, node_id: int, host: str, port: int, connection: ConnectionFacts) -> tuple[str, int] | None:
        return self._advertised.address_of(node_id, connection.listener) if self.learn(node_id, host, port) else None

    def learn(self, node_id: int, host: str, port: int) -> bool:
        """Note the address of a broker and serve it; False: refused, and counted."""
        if self._targets.get(node_id) == (host, port):
            return True
        if not self._accept(node_id, host, port):
            return False
        self._changed(node_id)
        return True

    def known(self, node_id: int, host: str, port: int, connection: ConnectionFacts) -> tuple[str, int] | None:
        if self._targets.get(node_id) != (host, port):
            return None
        return self._advertised.address_of(node_id, connection.listener)

    def target(self, node_id: int) -> tuple[str, int] | None:
        """Return the address of a broker; None: not known."""
        return self._targets.get(node_id)

    def port_of(self, node_id: int) -> int:
        """Return the port that stands for a broker in port mode, the same in every worker and after every restart."""
        return self._first_port + node_id

    def node_of_name(self, server_name: str) -> int | None:
        """Return the node whose server name (SNI) a client sent; None: no broker's (perhaps the bootstrap's)."""
        return self._advertised.node_of_name(server_name)

    def expected(self) -> list[int]:
        """Return the node ids in the configuration, ascending: kproxy listens on their ports from the start."""
        return sorted(set(parse_node_ids(self._rules.node_ids)))

    def merge(self, brokers: Iterable[tuple[int, str, int]]) -> None:
        """Learn the brokers of another worker's table (its ``as_list``), without calling ``changed``."""
        for node_id, host, port in brokers:
            if self._targets.get(node_id) != (host, port):
                self._accept(node_id, host, port)

    def as_list(self) -> list[tuple[int, str, int]]:
        """Return node id, host and port of every broker, ascending."""
        return [(node_id, *self._targets[node_id]) for node_id in sorted(self._targets)]

    def _accept(self, node_id: int, host: str, port: int) -> bool:
        """Note the address of a broker if it may be served, and return whether it may; in port mode listen on its port."""
        reason = self._why_not(node_id, host, port)
        if reason is None and self._rules.mode == "port" and node_id not in self._targets:
            reason = None if self._serve(node_id, self.port_of(node_id)) else "its port cannot be listened on"
        if reason is None:
            self._targets[node_id] = host, port
            return True
        self.refused[reason] += 1
        self._withheld(reason)
        if self.refused[reason] == 1:
            address = f"{host[:LONGEST_NAME]}:{port}"
            log("warning", "a broker's address is not served", node_id=node_id, broker=address, reason=reason)
        return False

    def _why_not(self, node_id: int, host: str, port: int) -> str | None:
        """Return why a broker may not be served; None: it may."""
        if not 0 <= node_id <= LARGEST_NODE_ID:
            return "an impossible node id"
        if not 1 <= port <= MOST_PORT:
            return "an impossible port"
        if node_id not in self._targets and len(self._targets) >= self._rules.most_brokers:
            return "more brokers than most_brokers"
        return self._why_not_served(node_id) or self._why_not_host(node_id, host, port)

    def _why_not_served(self, node_id: int) -> str | None:
        if self._rules.mode == "port" and self.port_of(node_id) > MOST_PORT:
            return "a node id too high for first_port"
        if self._advertised.port_is_too_high(node_id):
            return "a node id too high for advertise_port"
        if self._rules.mode == "port" and self.port_of(node_id) == self._listen[1]:
            return "its port would be the listener's own"
        return None

    def _why_not_host(self, node_id: int, host: str, port: int) -> str | None:
        if len(host) > LONGEST_NAME or not _HOST.fullmatch(host):
            return "a host that is no name"
        address = parse_any_ip(host)
        if address is not None and (address.is_unspecified or address.is_multicast):
            return "an unspecified or multicast address"
        if address is not None and not self._rules.allow_link_local and is_internal(address):
            return "a link-local address (allow_link_local)"
        if self._is_advertised(node_id, host, port) or (
            self._is_our_host(host, address) and self._is_our_port(node_id, port)
        ):
            return "an address of this proxy's own"
        return None

    def _is_advertised(self, node_id: int, host: str, port: int) -> bool:
        """Return whether clients are given this address for this broker or a known one, so that it leads back here."""
        if host.lower() == (self._rules.advertise or "").lower() and self._rules.advertise_port is None:
            return self._is_our_port(node_id, port)
        advertised_for = self._advertised.node_of(host, port)
        return advertised_for == node_id or advertised_for in self._targets

    def _is_our_port(self, node_id: int, port: int) -> bool:
        if port == self._listen[1]:
            return True
        stands_for = port - self._first_port
        return self._rules.mode == "port" and (stands_for == node_id or stands_for in self._targets)

    def _is_our_host(self, host: str, address: IPAddress | None) -> bool:
        """Return whether the host is kproxy's own, as far as that is known without DNS."""
        listen = self._listen[0].lower() or "::"  # no host: all addresses
        if host.lower() == listen:
            return True
        bound = parse_any_ip(listen)
        if host.lower() == "localhost" or (address is not None and address.is_loopback):
            return listen == "localhost" or (bound is not None and (bound.is_unspecified or bound.is_loopback))
        return address is not None and address == bound


def parse_any_ip(host: str) -> IPAddress | None:
    """Return the address that *host* is, in any form that resolvers accept ("0xa9.254.43518" too), unmapped; None for a name."""
    text = host.rstrip(".")
    address = parse_ip(text)
    return _parse_old_form(text) if address is None else unmapped(address)


def _parse_old_form(text: str) -> IPAddress | None:
    """Parse as inet_aton(3): one to four numbers, decimal, octal or hexadecimal; the last one fills the remaining bytes."""
    parts = text.lower().split(".")
    if len(parts) > 4 or not all(re.fullmatch("0x[0-9a-f]{1,8}|0[0-7]{0,11}|[1-9][0-9]{0,9}", part) for part in parts):
        return None
    *heads, last = (int(part, 16 if part.startswith("0x") else 8 if part.startswith("0") else 10) for part in parts)
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        return None
    value = sum(head << 8 * (3 - at) for at, head in enumerate(heads)) + last
    return ipaddress.IPv4Address(value)


LARGEST_NODE_ID = 0x7FFFFFFF
NODE_ID = "{node_id}"


class AdvertisedAddresses:
    """Maps node ids to advertised addresses, and server names (SNI) back to node ids.

    Args:
        rules: the ``addresses`` of a cluster in the configuration, in mode "port" or "sni".
        port_of: returns the port of ours that stands for a broker in port mode.
    """

    def __init__(self, rules: Addresses, port_of: Callable[[int], int]) -> None:
        self._port = rules.advertise_port
        self._port_of = port_of
        self._is_sni = rules.mode == "sni"
        self._host = (rules.broker_name if self._is_sni else rules.advertise) or ""
        self._one_port_for_all = self._is_sni or NODE_ID in self._host
        self._of_node = {int(node): split_address(text) for node, text in rules.advertise_brokers.items()}
        self._node_of_address = {
            Address(address.host.lower(), address.port): node for node, address in self._of_node.items()
        }
        self._node_of_host = {address.host: node for address, node in self._node_of_address.items()}

    def address_of(self, node_id: int, listener: str) -> Address:
        """Return the advertised address of a broker; *listener* is the "host:port" of ours that the client connected to."""
        address = self._of_node.get(node_id)
        if address is not None:
            return address
        host, port = split_address(listener)
        host = self._host.replace(NODE_ID, str(node_id)) or host
        return Address(host, self._advertised_port(node_id, port))

    def port_is_too_high(self, node_id: int) -> bool:
        """Whether the advertised port of a node would be above 65535."""
        return node_id not in self._of_node and self._advertised_port(node_id, 0) > MOST_PORT

    def node_of(self, host: str, port: int) -> int | None:
        """Return the node that this address is advertised for; None: for none, or that depends on where clients connect."""
        node_id = self._node_of_address.get(Address(host.lower(), port))
        if node_id is None and self._host and not (self._is_sni and self._port is None):
            if NODE_ID in self._host:
                node_id = self._node_of_name(host)
            elif host.lower() == self._host.lower() and port >= self._advertised_port(0, 0):
                node_id = port - self._advertised_port(0, 0)
            if node_id is not None and (node_id in self._of_node or self._advertised_port(node_id, 0) != port):
                return None
        return node_id

    def node_of_name(self, server_name: str) -> int | None:
        """Return the node whose server name (SNI) a client sent; None: no broker's (perhaps the bootstrap's)."""
        name = server_name.lower().rstrip(".")
        node_id = self._node_of_host.get(name)
        return self._node_of_name(name) if node_id is None else node_id

    def _node_of_name(self, name: str) -> int | None:
        before, _, after = self._host.lower().partition(NODE_ID)
        name = name.lower()
        number = name.removeprefix(before).removesuffix(after)
        if not re.fullmatch("0|[1-9][0-9]{0,9}", number, re.ASCII) or name != f"{before}{number}{after}":
            return None
        return int(number) if int(number) <= LARGEST_NODE_ID else None

    def _advertised_port(self, node_id: int, connected: int) -> int:
        if self._port is not None:
            return self._port if self._one_port_for_all else self._port + node_id
        return connected if self._is_sni else self._port_of(node_id)


Reach = Enum("Reach", "UNKNOWN FAILING REACHED")


class Reachability:
    """The state of one virtual cluster in one worker.

    Args:
        cluster: its name.
        send: sends a message to the supervisor.
    """

    def __init__(self, cluster: str, send: Callable[[Message], None]) -> None:
        self.state = Reach.UNKNOWN
        self._cluster = cluster
        self._send = send
        self._settings: object = None

    def use(self, cluster: Cluster) -> None:
        """Start over if this configuration reaches brokers in another way."""
        settings = cluster.bootstrap, cluster.broker_tls, cluster.through, cluster.send_proxy_protocol
        if settings != self._settings:
            self._settings, self.state = settings, Reach.UNKNOWN

    def reached(self) -> None:
        """Note that a broker was connected to."""
        if self.state is not Reach.REACHED:
            self.state = Reach.REACHED
            self._send(BrokerReach(self._cluster, True))

    def failed(self, reason: str) -> None:
        """Note that no broker could be connected to."""
        if self.state is Reach.UNKNOWN:
            self.state = Reach.FAILING
            self._send(BrokerReach(self._cluster, False, reason))
