"""MemoryReserve: address space that is given up when the process cannot get more, so that what is open can go on.

A worker without memory for one more connection releases it and stops accepting; log lines, timeouts and the connections that are
open have that much. It accepts again once it could take the reserve back. The pages are never touched: they cost no memory, only
room below RLIMIT_AS or the limit of overcommitment.
"""

RESERVE = 4 * 1024 * 1024  # bytes


class MemoryReserve:
    """The reserve of one process."""

    def __init__(self, size: int = RESERVE) -> None:
        self._size = size
        self._held: bytearray | None = bytearray(size)  # calloc(3): zero pages that are not there yet

    def release(self) -> None:
        """Give it up."""
        self._held = None

    def take(self) -> bool:
        """Take it again, unless it is held; return whether it is held."""
        if self._held is None:
            try:
                self._held = bytearray(self._size)
            except MemoryError:
                return False
        return True


OF_THIS_PROCESS = MemoryReserve()
