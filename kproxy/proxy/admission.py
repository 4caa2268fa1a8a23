"""Whether one more client may come in: connections over all workers, per address and per second."""

import time
from collections.abc import Sequence

from kproxy.config import Limits
from kproxy.proxy.counted import Total
from kproxy.proxy.counters import Counters, address_hash, connections_from


class Admission:
    """The limits of a worker's clients.

    Args:
        limits: as configured, for all workers together.
        own: what this worker counts.
        all_workers: what each worker counts, this one among them.
        key: that addresses are hashed with; the same in all workers.
    """

    def __init__(self, limits: Limits, own: Counters, all_workers: Sequence[Counters], key: bytes) -> None:
        self._own = own
        self._all = all_workers
        self._key = key
        self._allowance = 0.0
        self._filled_at = time.monotonic()
        self.configure(limits)

    def configure(self, limits: Limits) -> None:
        """Take other limits."""
        self._limits = limits
        self._allowance = float(limits.connections_per_second)

    def refusal(self, peer: bytes) -> str | None:
        """Why a client may not come in, in a word; None: it may."""
        limits = self._limits
        if self._connections() >= limits.connections:
            return "connections"
        if limits.connections_per_address:
            place = address_hash(_host_of(peer), self._key)
            if connections_from(self._all, place) >= limits.connections_per_address:
                return "connections_per_address"
        if limits.connections_per_second and not self._allowed(limits.connections_per_second):
            return "connections_per_second"
        return None

    def came(self, peer: bytes) -> None:
        """A client has come in."""
        if self._limits.connections_per_address:
            self._own.add_address(address_hash(_host_of(peer), self._key), 1)

    def left(self, peer: bytes) -> None:
        """And is gone."""
        if self._limits.connections_per_address:
            self._own.add_address(address_hash(_host_of(peer), self._key), -1)

    def _connections(self) -> int:
        return sum(counters.total_of(Total.CONNECTIONS_OPEN) for counters in self._all)

    def _allowed(self, per_second: int) -> bool:
        """A token bucket of this worker's share, a second deep."""
        share = per_second / len(self._all)
        now = time.monotonic()
        self._allowance = min(self._allowance + (now - self._filled_at) * share, max(share, 1.0))
        self._filled_at = now
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True


def _host_of(peer: bytes) -> str:
    return peer[4:8].hex() if len(peer) == 16 else peer[8:24].hex()
