"""CRC-32C as crc32c's package computes it, with and without importing that package."""

import subprocess
import sys
from importlib.machinery import PathFinder

import crc32c as package
import pytest

from kproxy.protocol.records import checksum
from tests.support.traffic import ROOT

CHECK = b"123456789"  # RFC 3720 gives test patterns; this one is the check value of the catalogue of CRCs
CHECK_VALUE = 0xE3069283


def test_it_is_the_checksum_of_the_package() -> None:
    assert checksum.crc32c(CHECK) == package.crc32c(CHECK) == CHECK_VALUE
    assert checksum.crc32c(memoryview(bytes(100_000))[1:]) == package.crc32c(bytes(99_999))


def test_the_package_is_not_imported() -> None:
    code = "import sys; import kproxy.protocol.records.checksum; sys.exit('crc32c' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_without_the_extension_it_is_the_function_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)
    assert checksum._import_crc32c() is package.crc32c
