"""Whether the bytes of a capture stay where they are while it is decoded, instead of being copied into the staging folder.

The decode reads a capture connection by connection: every byte once, but each task reads here and there in all of it. From
memory, where the system keeps files that were just read, that is as fast as in order. From a disk or over a network each task
would fetch nearly all of the file. So bytes stay where all tasks run on this machine, and where its memory has room for them.
"""

import os
from contextlib import suppress
from pathlib import Path

from kproxy.spark.files import InputFile, is_remote

SHARE = 0.5  # of the memory, that a file may take
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def stays(master: str, file: InputFile) -> bool:
    """Whether the bytes of this file stay where they are, with this master of Spark's."""
    return master.startswith("local") and not is_remote(file.place) and file.size <= SHARE * memory()


def memory() -> int:
    """Bytes of memory that this process may use, those of files included."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):  # no limit there, or "max"
        sizes.append(int(CGROUP_LIMIT.read_text(encoding="ascii")))
    return min(sizes)
