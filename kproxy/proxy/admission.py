"""Whether one more client is accepted: limits per address and second over all workers, and memory for it.

Worker.take_place limits the number of connections.
"""

import time

from kproxy.config.structs import Limits
from kproxy.proxy.tap.counted import CloseCause
from kproxy.proxy.tap.counters import Counters, SharedLimits, address_hash

SOCKADDR_IN = 16  # bytes; sockaddr_in6 has 28
MAPPED = b"\0" * 10 + b"\xff\xff"  # before the IPv4 address in an IPv4-mapped one (RFC 4291, 2.5.5.2)
MOST_PLACES = 0xFFFFFFFF


class ClientRefused(Exception):
    """The client is not let in: *cause* is counted, the text is logged."""

    def __init__(self, cause: CloseCause, why: str) -> None:
        super().__init__(why)
        self.cause = cause


class LoginRefused(ClientRefused):
    """The same for a failed login, which has been logged."""


class Admission:
    """Applies the limits to the clients of one worker.

    Args:
        limits: as configured, for all workers together.
        own: the counters of this worker; if it dies, the supervisor releases the places that they count.
        shared: the places that all workers share.
        key: for hashing addresses, the same in all workers.
    """

    def __init__(self, limits: Limits, own: Counters, shared: SharedLimits, key: bytes) -> None:
        self._key = key
        self._own = own
        self._shared = shared
        self.configure(limits)

    def configure(self, limits: Limits) -> None:
        self._most = limits.connections_per_address
        self._per_second = limits.connections_per_second
        self.checks_each_client = bool(self._most or self._per_second)

    def admit(self, peer: bytes) -> int | None:
        """Count a connection of the client's host and return its slot; None: a limit refuses it."""
        slot = self._slot_of(peer)
        if not self._shared.take_address(slot, self._most or MOST_PLACES):
            return None
        if self._per_second and not self._shared.take_turn(time.monotonic_ns(), self._per_second):
            self._shared.release_address(slot)
            return None
        self._own.add_address(slot, 1)
        return slot

    def count(self, peer: bytes) -> int:
        """Count a connection that is already open, whatever the limits; return its slot."""
        slot = self._slot_of(peer)
        self._shared.take_address(slot, MOST_PLACES)
        self._own.add_address(slot, 1)
        return slot

    def uncount(self, slot: int) -> None:
        self._own.add_address(slot, -1)
        self._shared.release_address(slot)

    def _slot_of(self, peer: bytes) -> int:
        """Return the slot of a client's host; an IPv4 client has the same slot at an IPv6 socket."""
        host = peer[4:8] if len(peer) == SOCKADDR_IN else peer[8:24].removeprefix(MAPPED)
        return address_hash(host.hex(), self._key)


RESERVE = 4 * 1024 * 1024  # bytes


class MemoryReserve:
    """The reserve of one process."""

    def __init__(self, size: int = RESERVE) -> None:
        self._size = size
        self._held: bytes | None = bytes(size)  # calloc(3): zero pages that are not there yet

    def release(self) -> None:
        """Give the reserve up."""
        self._held = None

    def take(self) -> bool:
        """Take the reserve back if it was given up; return whether it is held now."""
        if self._held is None:
            try:
                self._held = bytes(self._size)
            except MemoryError:
                return False
        return True


OF_THIS_PROCESS = MemoryReserve()
