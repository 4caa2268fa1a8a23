"""The result of decompressing a batch."""

from dataclasses import dataclass


@dataclass(slots=True)
class Unpacked:
    """Decompressed bytes, and why they are incomplete.

    ``error``: the compressed bytes are broken; ``data`` has the bytes before. ``skipped``: a limit was exceeded; ``data`` is
    empty.
    """

    data: bytes | bytearray
    error: str | None = None
    skipped: str | None = None
