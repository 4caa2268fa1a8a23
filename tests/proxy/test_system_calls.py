"""Calls that Python has no function for."""

import ctypes
import mmap
from pathlib import Path

from kproxy.proxy import system_calls
from tests.support.kafka.processes import kib

STATUS = "/proc/self/status"
PADDING = 15  # the last byte of e_ident, which means nothing


def test_code_of_libraries_is_forgotten_and_what_was_written_is_not() -> None:
    before = kib(STATUS, "RssFile:"), kib(STATUS, "RssAnon:")
    system_calls.forget_code()
    after = kib(STATUS, "RssFile:"), kib(STATUS, "RssAnon:")
    assert after[0] < before[0] / 2
    assert after[1] > before[1] * 0.9


def test_a_page_of_code_that_differs_from_its_file_stays_as_with_a_debuggers_breakpoint() -> None:
    lines = Path("/proc/self/maps").read_text().splitlines()
    first = next(line for line in lines if line.endswith(str(system_calls.__file__)) and " 00000000 " in line)
    at = int(first.split("-")[0], 16)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(at, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    ctypes.memset(at + PADDING, 7, 1)
    assert protect(at, mmap.PAGESIZE, mmap.PROT_READ) == 0
    system_calls.forget_code()
    assert ctypes.string_at(at + PADDING, 1) == b"\7"
