"""Calls that Python has no function for."""

import ctypes
import mmap
from pathlib import Path
from types import ModuleType

from kproxy.proxy import system_calls
from kproxy.proxy.tap import ring

PADDING = 15  # the last byte of an ELF file's e_ident, which means nothing
PRESENT = 1 << 63  # of an entry of /proc/PID/pagemap


def first_page(module: ModuleType) -> int:
    """The address at which the file of a compiled module begins in memory."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    line = next(line for line in lines if line.endswith(str(module.__file__)) and " 00000000 " in line)
    return int(line.split("-")[0], 16)


def is_present(address: int) -> bool:
    with Path("/proc/self/pagemap").open("rb") as pagemap:
        pagemap.seek(address // mmap.PAGESIZE * 8)
        return bool(int.from_bytes(pagemap.read(8), "little") & PRESENT)


def test_code_of_libraries_is_forgotten_and_read_again() -> None:
    at = first_page(ring)
    assert ctypes.string_at(at, 4) == b"\x7fELF"
    assert is_present(at)
    system_calls.forget_code()
    assert not is_present(at)
    assert ctypes.string_at(at, 4) == b"\x7fELF"


def test_a_page_of_code_that_differs_from_its_file_stays_as_with_a_debuggers_breakpoint() -> None:
    at = first_page(system_calls)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(at, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    ctypes.memset(at + PADDING, 7, 1)
    assert protect(at, mmap.PAGESIZE, mmap.PROT_READ) == 0
    system_calls.forget_code()
    assert ctypes.string_at(at + PADDING, 1) == b"\7"
