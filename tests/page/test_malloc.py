"""What is kept between large buffers that are freed takes its own size: measured in a process of its own, by the kernel."""

import platform
import subprocess
import sys
from mmap import PAGESIZE

import pytest

KEPT, FREED, ROUNDS = 20_000, 200_000, 1_000
MEASURED = f"""
import sys
from kproxy.page.malloc import keep_large_blocks_apart
if sys.argv[1] == "apart":
    keep_large_blocks_apart()
def resident():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("RssAnon:"))
bytearray(16 << 20)  # freed: from here on glibc maps no block below this size by itself
before, kept = resident(), []
for _ in range({ROUNDS}):  # as compressed blocks, each made of buffers that are freed behind it
    buffers = [bytearray({FREED}) for _ in range(4)]
    kept.append(bytearray({KEPT}))
    del buffers[::2]
    kept.append(buffers)
for index in range(1, len(kept), 2):
    kept[index] = None
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has such a threshold")
def test_blocks_take_what_they_have() -> None:
    def resident(how: str) -> int:
        return int(subprocess.check_output([sys.executable, "-c", MEASURED, how]))

    pages = -(-(KEPT + 16) // PAGESIZE) * PAGESIZE + PAGESIZE  # each block in pages of its own, with malloc's header
    assert KEPT * ROUNDS <= resident("apart") < 1.1 * pages * ROUNDS < resident("as it is")
