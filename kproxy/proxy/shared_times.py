"""SharedTimes: a time for each of many names, which all workers move on together; in the memfd of SharedCounts.

    the table   groups of WAYS slots of 32 bytes; a name is in the group that its digest says, in any slot of it
    a slot      BLAKE2b of the name (16 bytes), its time (8 bytes, a double: seconds of CLOCK_MONOTONIC, which all processes of a
                machine share), 8 bytes that are not used

A process that moves a time on has a lock of that group (fcntl(2)); the kernel releases it when the process dies. Where a group is
full, the name with the earliest time is forgotten: one whose time is past has nothing to lose.
"""

import fcntl
import mmap
import os
from hashlib import blake2b
from struct import Struct as Packing

SLOT = Packing("=16sdQ")
WAYS = 8
GROUPS = 1 << 15
TABLE_SIZE = SLOT.size * WAYS * GROUPS  # 8 MiB, of which only what is used takes memory
DIGEST_SIZE = 16
NO_DIGEST = bytes(DIGEST_SIZE)


class SharedTimes:
    """The times of names that begin with *prefix*.

    Args:
        fd: a file of at least *start* + TABLE_SIZE bytes, which begin as zeros.
        start: where the table begins, a multiple of the page size.
    """

    def __init__(self, fd: int, start: int, prefix: str) -> None:
        self._fd = fd
        self._start = start
        self._memory = mmap.mmap(fd, TABLE_SIZE, offset=start)
        self._prefix = prefix.encode("utf-8", "surrogatepass")

    def move_on(self, name: str, seconds: float, now: float) -> float:
        """Add *seconds* to the time of a name, or to *now*, if that is later; return the sum."""
        digest = blake2b(self._prefix + b"\0" + name.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).digest()
        size = SLOT.size * WAYS
        at = int.from_bytes(digest[:4], "little") % GROUPS * size
        fcntl.lockf(self._fd, fcntl.LOCK_EX, size, self._start + at, os.SEEK_SET)
        try:
            slots = [(*SLOT.unpack_from(self._memory, at + way * SLOT.size), way) for way in range(WAYS)]
            own = next((slot for slot in slots if slot[0] == digest), None)
            time = max(now, own[1] if own is not None else now) + seconds
            way = own[-1] if own is not None else min(slots, key=_first_to_forget)[-1]
            # pack_into would write zeros first, which stay if this process is killed then
            place = at + way * SLOT.size
            self._memory[place : place + SLOT.size] = SLOT.pack(digest, time, 0)
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, size, self._start + at, os.SEEK_SET)
        return time


def _first_to_forget(slot: tuple[bytes, float, int, int]) -> tuple[bool, float]:
    return slot[0] != NO_DIGEST, slot[1]
