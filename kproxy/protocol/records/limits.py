"""How much of a records field is decompressed and read: the bytes may claim anything, the limits bound what is spent on them."""

from dataclasses import dataclass, replace

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on decoding; what exceeds one is marked ``skipped``, and the rest is decoded. Forwarding is not affected."""

    decompressed: int = 64 * MIB  # bytes that one batch may decompress to
    total: int = 256 * MIB  # bytes that the batches of one field may decompress to together
    ratio: int = 1_000  # decompressed bytes to one compressed byte, once past *free*
    free: int = MIB  # bytes up to which any ratio is accepted: a batch of zeroes is no attack
    window: int = 128 * MIB  # of a zstd frame; what Kafka's own reader (zstd-jni) allows
    records: int = 1_000_000  # records of one batch
    batches: int = 1_000_000  # batches of one field

    def allowed(self, compressed: int) -> int:
        """Return bytes that *compressed* bytes may become."""
        return min(self.decompressed, max(self.free, compressed * self.ratio))

    def after(self, spent: int) -> "Limits":
        """Return the limits for the next batch of a field, *spent* bytes being used by the batches before it."""
        left = max(0, self.total - spent)
        return self if left >= self.decompressed else replace(self, decompressed=left)

    def exceeded(self, compressed: int) -> str:
        """Return the reason to report when *compressed* bytes become more than that."""
        allowed = self.allowed(compressed)
        if allowed == self.decompressed:
            return f"decompresses to more than {allowed:,} bytes"
        return f"decompresses to more than {allowed:,} bytes, over {self.ratio:,} times its {compressed:,}"


DEFAULT_LIMITS = Limits()
