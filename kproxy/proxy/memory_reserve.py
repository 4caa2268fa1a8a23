"""MemoryReserve: address space that a worker gives up when it can get no more memory, so that open connections can go on.

A worker that has no memory for one more connection releases the reserve and stops accepting. The open connections, timeouts and
log lines can use it. The worker accepts again once it could take the reserve back. The pages are never touched, so the reserve
costs no memory, only room below RLIMIT_AS or the limit of overcommitment.
"""

RESERVE = 4 * 1024 * 1024  # bytes


class MemoryReserve:
    """The reserve of one process."""

    def __init__(self, size: int = RESERVE) -> None:
        self._size = size
        self._held: bytearray | None = bytearray(size)  # calloc(3): zero pages that are not there yet

    def release(self) -> None:
        """Give the reserve up."""
        self._held = None

    def take(self) -> bool:
        """Take the reserve back if it was given up; return whether it is held now."""
        if self._held is None:
            try:
                self._held = bytearray(self._size)
            except MemoryError:
                return False
        return True


OF_THIS_PROCESS = MemoryReserve()
