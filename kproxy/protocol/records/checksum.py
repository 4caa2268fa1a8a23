"""CRC-32C, the checksum of record batches since magic 2 (KIP-98), from the package crc32c.

Only the package's extension is imported: the package itself looks up its version and imports argparse, which takes a fifth of
the time for a small capture.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Protocol


class Checksum(Protocol):
    """Computes CRC-32C of data, continuing from the value for the data before it."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int: ...


def _import_crc32c() -> Checksum:
    """Return crc32c from the package's extension, or from the package if there is no such extension."""
    package = find_spec("crc32c")
    extension = None if package is None else PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if extension is None or extension.loader is None:
        from crc32c import crc32c as of_package  # noqa: PLC0415 - a release of crc32c with other modules

        return of_package
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    of_extension: Checksum = module.crc32c
    return of_extension


crc32c = _import_crc32c()
