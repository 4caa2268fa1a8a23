"""Limits on decompressing and reading a records field, whose bytes may claim anything; Unpacked, the result of decompressing."""

from dataclasses import dataclass, replace

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on decoding. A batch that exceeds one is marked ``skipped``; others are decoded. Forwarding is not affected."""

    decompressed: int = 64 * MIB  # decompressed bytes of one batch
    total: int = 256 * MIB  # decompressed bytes of all batches of one field
    ratio: int = 1_000  # decompressed bytes for each compressed byte, beyond *free*
    free: int = MIB  # decompressed bytes allowed at any ratio: a batch of zeroes is no attack
    window: int = 128 * MIB  # window of a zstd frame; the limit of Kafka's own reader (zstd-jni)
    records: int = 1_000_000  # records of one batch
    batches: int = 1_000_000  # batches of one field

    def allowed(self, compressed: int) -> int:
        """Return how many bytes *compressed* bytes may decompress to."""
        return min(self.decompressed, max(self.free, compressed * self.ratio))

    def after(self, spent: int) -> "Limits":
        """Return the limits for the next batch of a field whose batches so far decompressed to *spent* bytes."""
        left = max(0, self.total - spent)
        return self if left >= self.decompressed else replace(self, decompressed=left)

    def exceeded(self, compressed: int) -> str:
        """Return the reason to report if *compressed* bytes decompress to more than allowed."""
        allowed = self.allowed(compressed)
        if allowed == self.decompressed:
            return f"decompresses to more than {allowed:,} bytes"
        return f"decompresses to more than {allowed:,} bytes, over {self.ratio:,} times its {compressed:,}"


DEFAULT_LIMITS = Limits()


class TooLarge(ValueError):
    """A batch decompresses to more than the limits allow."""


class NoRoom(TooLarge):
    """A batch takes more bytes after a change than there is room for."""


@dataclass(slots=True)
class Unpacked:
    """Decompressed bytes, and why they are incomplete.

    ``error``: the compressed bytes are broken; ``data`` has the bytes before. ``skipped``: a limit was exceeded; ``data`` is
    empty.
    """

    data: bytes | bytearray
    error: str | None = None
    skipped: str | None = None
