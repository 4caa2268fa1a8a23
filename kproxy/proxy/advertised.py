"""AdvertisedAddresses: the host and port that responses give clients in place of each broker's.

    rule                            host                        port
    advertise_brokers has the node  from there                  from there
    SNI mode                        broker_name                 advertise_port, or the one the client connected to
    port mode, advertise with       advertise                   advertise_port, or the broker's port of ours
      {node_id}
    port mode                       advertise, or the one the   advertise_port + node id, or the broker's port of ours
                                    client connected to

The advertised port differs from the one that kproxy listens on where a load balancer, a NodePort or a port mapping is in front:
responses name 443 while kproxy listens on 19092.
"""

import re
from collections.abc import Callable

from kproxy.config import Addresses
from kproxy.protocol.addresses import MOST_PORT, Address, split_address

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
            node_id = self._node_of_name(host) if NODE_ID in self._host else self._node_of_port(host, port)
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

    def _node_of_port(self, host: str, port: int) -> int | None:
        node_id = port - self._advertised_port(0, 0)
        return node_id if node_id >= 0 and host.lower() == self._host.lower() else None

    def _advertised_port(self, node_id: int, connected: int) -> int:
        if self._port is not None:
            return self._port if self._one_port_for_all else self._port + node_id
        return connected if self._is_sni else self._port_of(node_id)
