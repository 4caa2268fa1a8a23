"""The reserve, in a process whose address space is limited."""

import subprocess
import sys

HELD_BACK = """
import resource
from pathlib import Path
from kproxy.proxy.memory_reserve import MemoryReserve

reserve = MemoryReserve(64 << 20)
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (8 << 20), -1))

def fits(size):
    try:
        return len(bytearray(size)) == size
    except MemoryError:
        return False

print(fits(32 << 20), reserve.take())
reserve.release()
print(fits(32 << 20))
taken = bytearray(48 << 20)
print(reserve.take())
del taken
print(reserve.take(), fits(32 << 20))
"""


def test_what_is_held_back_is_there_when_it_is_released() -> None:
    done = subprocess.run([sys.executable, "-c", HELD_BACK], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == ["False", "True", "True", "False", "True", "False"], done.stderr
