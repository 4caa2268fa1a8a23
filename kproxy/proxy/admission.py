"""The limits of clients: connections over all workers, per address and per second."""

import time
from collections.abc import Sequence

from kproxy.config import Limits
from kproxy.proxy.tap.counters import Counters, address_hash, connections_from

SOCKADDR_IN = 16  # bytes; sockaddr_in6 has 28
MAPPED = b"\0" * 10 + b"\xff\xff"  # before the IPv4 address in an IPv4-mapped one (RFC 4291, 2.5.5.2)


class Admission:
    """Applies the limits to the clients of one worker.

    Args:
        limits: as configured, for all workers together.
        workers: how many there are.
        counters: of all workers, this one first.
        key: for hashing addresses, the same in all workers.
    """

    def __init__(self, limits: Limits, workers: int, counters: Sequence[Counters], key: bytes) -> None:
        self._key = key
        self._own = counters[0]
        self._all = counters
        self._filled_at = time.monotonic()
        self.configure(limits, workers)

    def configure(self, limits: Limits, workers: int) -> None:
        """Use other limits, of which each of *workers* has its share."""
        self._limits = limits
        self.most_connections = -(-limits.connections // workers)
        self.checks_each_client = bool(limits.connections_per_address or limits.connections_per_second)
        self._share = limits.connections_per_second / workers
        self._allowance = self._share

    def refusal(self, peer: bytes) -> str | None:
        """Return the limit that refuses a client, other than the number of connections; None: it is accepted."""
        limits = self._limits
        most = limits.connections_per_address
        if most and connections_from(self._all, self._slot_of(peer)) >= most:
            return "connections_per_address"
        if self._share and not self._allowed():
            return "connections_per_second"
        return None

    def count(self, peer: bytes) -> int:
        """Count a connection of the client's host; return its slot."""
        slot = self._slot_of(peer)
        self._own.add_address(slot, 1)
        return slot

    def uncount(self, slot: int) -> None:
        """Uncount a connection that was counted in *slot*."""
        self._own.add_address(slot, -1)

    def _slot_of(self, peer: bytes) -> int:
        """The counter of connections from a client's host, the same for an IPv4 client at a socket of both families."""
        host = peer[4:8] if len(peer) == SOCKADDR_IN else peer[8:24].removeprefix(MAPPED)
        return address_hash(host.hex(), self._key)

    def _allowed(self) -> bool:
        """A token bucket of this worker's share, a second deep."""
        now = time.monotonic()
        self._allowance = min(self._allowance + (now - self._filled_at) * self._share, max(self._share, 1.0))
        self._filled_at = now
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True
