"""Calls that Python has no function for."""

from pathlib import Path

from kproxy.proxy.system_calls import forget_code
from tests.support.kafka.processes import kib


def test_code_of_libraries_is_forgotten_and_read_again() -> None:
    status = Path("/proc/self/status")
    before = kib(status, "RssFile:"), kib(status, "RssAnon:")
    forget_code()
    after = kib(status, "RssFile:"), kib(status, "RssAnon:")
    assert after[0] < before[0] / 2
    assert after[1] > before[1] * 0.9  # nothing that was written is lost, such as relocated addresses
