"""Whether one more client may come in: connections over all workers, per address and per second."""

import time
from collections.abc import Sequence

from kproxy.config import Limits
from kproxy.proxy.tap.counters import Counters, address_hash, connections_from

SOCKADDR_IN = 16  # bytes; sockaddr_in6 has 28


class Admission:
    """The limits of a worker's clients.

    Args:
        limits: as configured, for all workers together.
        workers: how many there are.
        counters: what each worker counts, this one first.
        key: that addresses are hashed with, the same in all workers.
    """

    def __init__(self, limits: Limits, workers: int, counters: Sequence[Counters], key: bytes) -> None:
        self._key = key
        self._own = counters[0]
        self._all = counters
        self._filled_at = time.monotonic()
        self.configure(limits, workers)

    def configure(self, limits: Limits, workers: int) -> None:
        """Take other limits; each of *workers* takes its share."""
        self._limits = limits
        self.most_connections = -(-limits.connections // workers)
        self.checks_each_client = bool(limits.connections_per_address or limits.connections_per_second)
        self._share = limits.connections_per_second / workers
        self._allowance = self._share

    def refusal(self, peer: bytes) -> str | None:
        """Why a client may not come in, the number of connections apart; None: it may."""
        limits = self._limits
        most = limits.connections_per_address
        if most and connections_from(self._all, self._place_of(peer)) >= most:
            return "connections_per_address"
        if self._share and not self._allowed():
            return "connections_per_second"
        return None

    def came(self, peer: bytes) -> int:
        """A client has come in; gives where its host is counted."""
        place = self._place_of(peer)
        self._own.add_address(place, 1)
        return place

    def left(self, place: int) -> None:
        """And is gone."""
        self._own.add_address(place, -1)

    def _place_of(self, peer: bytes) -> int:
        """Where the connections of a client's host are counted."""
        return address_hash((peer[4:8] if len(peer) == SOCKADDR_IN else peer[8:24]).hex(), self._key)

    def _allowed(self) -> bool:
        """A token bucket of this worker's share, a second deep."""
        now = time.monotonic()
        self._allowance = min(self._allowance + (now - self._filled_at) * self._share, max(self._share, 1.0))
        self._filled_at = now
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True
