"""The result of decompressing a batch."""

from dataclasses import dataclass


@dataclass(slots=True)
class Unpacked:
    """Decompressed bytes, and why there are not more of them.

    ``error``: the compressed bytes are broken; ``data`` is what came out before. ``skipped``: a limit was exceeded;
    ``data`` is empty.
    """

    data: bytes | bytearray
    error: str | None = None
    skipped: str | None = None
