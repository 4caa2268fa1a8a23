"""Reachability: whether a worker has reached a broker of a virtual cluster; reported to the supervisor, for /readyz.

UNKNOWN    no attempt yet under the present configuration
FAILING    no attempt has succeeded yet
REACHED    a broker was connected to (with TLS: the handshake was done). It stays so when brokers go away later
"""

from collections.abc import Callable
from enum import Enum

from kproxy.config import Cluster
from kproxy.proxy.messages import BrokerReach, Message

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
