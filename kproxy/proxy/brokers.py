"""BrokerTable: node ids, where they are, which port or name of ours stands for them; what may not be mapped.

What a broker says is not believed: a host that leads back to this proxy, to the machine's own or a cloud's internal
addresses, or port 0, is not served, and neither are more brokers than a cluster can have.
"""

import ipaddress
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from kproxy.filters.contract import ConnectionFacts

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

LARGEST_PORT = 65_535
LONGEST_HOST = 253  # RFC 1035, section 2.3.4, without the root's dot
LARGEST_NODE_ID = 0x7FFFFFFF
CLOUD_METADATA = ipaddress.ip_address("fd00:ec2::254")  # where EC2 has over IPv6 what 169.254.169.254 has over IPv4
_HOST = re.compile(r"[0-9A-Za-z_.:%-]+")
_log = logging.getLogger("kproxy.brokers")


class AddressRules(Protocol):
    """``Addresses`` of the configuration."""

    @property
    def mode(self) -> str: ...
    @property
    def advertise(self) -> str | None: ...
    @property
    def first_port(self) -> int | None: ...
    @property
    def node_ids(self) -> Iterable[int | str]: ...
    @property
    def broker_name(self) -> str | None: ...
    @property
    def allow_link_local(self) -> bool: ...
    @property
    def most_brokers(self) -> int: ...


class BrokerTable:
    """The brokers of one virtual cluster, as one worker knows them; the AddressMap of its filters.

    Args:
        rules: mode ("port" or "sni") and the rest.
        listen: host and port of the cluster's listener.
        serve: has a broker's port listened on before it returns; False: that cannot be. Of port mode alone.
        changed: called when a broker is new or has moved.
        is_ours: whether an address is another listener of this proxy.
        withheld: called with the reason, for every address that is refused.
    """

    def __init__(
        self,
        rules: AddressRules,
        listen: tuple[str, int],
        *,
        serve: Callable[[int, int], bool] = lambda node_id, port: True,
        changed: Callable[[int], None] = lambda node_id: None,
        is_ours: Callable[[str, int], bool] = lambda host, port: False,
        withheld: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.refused: Counter[str] = Counter()  # by reason
        self._rules = rules
        self._listen = listen
        self._first_port = listen[1] + 1 if rules.first_port is None else rules.first_port
        self._serve = serve
        self._changed = changed
        self._is_ours = is_ours
        self._withheld = withheld
        self._targets: dict[int, tuple[str, int]] = {}

    def advertise(self, node_id: int, host: str, port: int, connection: ConnectionFacts) -> tuple[str, int] | None:
        """The address that clients are to use for a broker, served from now on; None: refused, and counted."""
        return self._ours(node_id, connection) if self.learn(node_id, host, port) else None

    def learn(self, node_id: int, host: str, port: int) -> bool:
        """Take in where a broker is, and serve it; False: refused, and counted."""
        if self._targets.get(node_id) == (host, port):
            return True
        if not self._accept(node_id, host, port):
            return False
        self._targets[node_id] = host, port
        self._changed(node_id)
        return True

    def known(self, node_id: int, host: str, port: int, connection: ConnectionFacts) -> tuple[str, int] | None:
        """The address that clients use for a broker that is known to be there; None: it is not."""
        return self._ours(node_id, connection) if self._targets.get(node_id) == (host, port) else None

    def target(self, node_id: int) -> tuple[str, int] | None:
        """Where a broker is; None: not known."""
        return self._targets.get(node_id)

    def port_of(self, node_id: int) -> int:
        """The port that stands for a broker in port mode, the same in every worker and after every restart."""
        return self._first_port + node_id

    def name_of(self, node_id: int) -> str:
        """The name that stands for a broker in SNI mode."""
        return (self._rules.broker_name or "").replace("{node_id}", str(node_id))

    def node_of_name(self, server_name: str) -> int | None:
        """The node id in a server name of TLS, as clients send it; None: it is no broker's (the bootstrap's, perhaps)."""
        before, _, after = (self._rules.broker_name or "").lower().partition("{node_id}")
        name = server_name.lower().rstrip(".")
        number = name.removeprefix(before).removesuffix(after)
        if not re.fullmatch("0|[1-9][0-9]{0,9}", number, re.ASCII) or name != f"{before}{number}{after}":
            return None
        return int(number) if int(number) <= LARGEST_NODE_ID else None

    def expected(self) -> list[int]:
        """The node ids that the configuration names, ascending: their ports are to be listened on from the start."""
        return sorted({node_id for part in self._rules.node_ids for node_id in _node_ids(part)})

    def merge(self, brokers: Iterable[tuple[int, str, int]]) -> None:
        """Learn what another worker has learned: ``as_list`` of its table. ``changed`` is not called."""
        for node_id, host, port in brokers:
            if self._targets.get(node_id) != (host, port) and self._accept(node_id, host, port):
                self._targets[node_id] = host, port

    def as_list(self) -> list[tuple[int, str, int]]:
        """Node id, host and port of every broker, ascending."""
        return [(node_id, *self._targets[node_id]) for node_id in sorted(self._targets)]

    def _accept(self, node_id: int, host: str, port: int) -> bool:
        """Whether that may be served, and is: in port mode its port is listened on now."""
        reason = self._why_not(node_id, host, port)
        if reason is None and self._rules.mode == "port" and node_id not in self._targets:
            reason = None if self._serve(node_id, self.port_of(node_id)) else "its port cannot be listened on"
        if reason is not None:
            self._refuse(node_id, host, port, reason)
        return reason is None

    def _why_not(self, node_id: int, host: str, port: int) -> str | None:
        if not 0 <= node_id <= LARGEST_NODE_ID:
            return "a node id that is none"
        if not 1 <= port <= LARGEST_PORT:
            return "a port that is none"
        if node_id not in self._targets and len(self._targets) >= self._rules.most_brokers:
            return "more brokers than most_brokers"
        if self._rules.mode == "port" and self.port_of(node_id) > LARGEST_PORT:
            return "a node id too high for first_port"
        if self._rules.mode == "port" and self.port_of(node_id) == self._listen[1]:
            return "its port would be the listener's own"
        return self._why_not_host(node_id, host, port)

    def _why_not_host(self, node_id: int, host: str, port: int) -> str | None:
        if len(host) > LONGEST_HOST or not _HOST.fullmatch(host):
            return "a host that is no name"
        address = parse_address(host)
        if address is not None and (address.is_unspecified or address.is_multicast):
            return "an address that is nobody's"
        if address is not None and not self._rules.allow_link_local and is_internal(address):
            return "a link-local address (allow_link_local)"
        if self._is_ours(host, port) or (self._is_our_host(host, address) and self._is_our_port(node_id, port)):
            return "an address of this proxy's own"
        return None

    def _is_our_port(self, node_id: int, port: int) -> bool:
        if port == self._listen[1]:
            return True
        stands_for = port - self._first_port
        return self._rules.mode == "port" and (stands_for == node_id or stands_for in self._targets)

    def _is_our_host(self, host: str, address: IPAddress | None) -> bool:
        """As far as that can be said without asking DNS."""
        listen = self._listen[0].lower()
        if host.lower() in (listen, (self._rules.advertise or listen).lower()):
            return True
        bound = parse_address(listen)
        if host.lower() == "localhost" or (address is not None and address.is_loopback):
            return listen == "localhost" or (bound is not None and (bound.is_unspecified or bound.is_loopback))
        return address is not None and address == bound

    def _ours(self, node_id: int, connection: ConnectionFacts) -> tuple[str, int]:
        host, _, port = connection.listener.rpartition(":")
        if self._rules.mode == "sni":
            return self.name_of(node_id), int(port)
        return self._rules.advertise or host.strip("[]"), self.port_of(node_id)

    def _refuse(self, node_id: int, host: str, port: int, reason: str) -> None:
        self.refused[reason] += 1
        self._withheld(reason)
        if self.refused[reason] == 1:
            _log.warning(
                "node %d at %s:%d is not served to clients: %s", node_id, ascii(host[:LONGEST_HOST]), port, reason
            )


def parse_address(host: str) -> IPAddress | None:
    """The address a host is, in every form that resolvers take ("0xa9.254.43518" too); None: a name."""
    text = host.strip("[]").rstrip(".")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return _parse_old_form(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_internal(address: IPAddress) -> bool:
    """Whether an address is link-local, as are those where clouds tell machines their secrets. For after DNS, too."""
    return address.is_link_local or address == CLOUD_METADATA


def _parse_old_form(text: str) -> IPAddress | None:
    """inet_aton(3): one to four numbers, decimal, octal or hexadecimal, the last filling what is left."""
    parts = text.lower().split(".")
    if len(parts) > 4 or not all(re.fullmatch("0x[0-9a-f]{1,8}|0[0-7]{0,11}|[1-9][0-9]{0,9}", part) for part in parts):
        return None
    *heads, last = (int(part, 16 if part.startswith("0x") else 8 if part.startswith("0") else 10) for part in parts)
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        return None
    value = sum(head << 8 * (3 - at) for at, head in enumerate(heads)) + last
    return ipaddress.IPv4Address(value)


def _node_ids(part: int | str) -> Iterator[int]:
    """``3``, ``"3"`` or ``"100-120"``; kproxy.config has checked it."""
    low, _, high = str(part).partition("-")
    yield from range(int(low), int(high or low) + 1)
