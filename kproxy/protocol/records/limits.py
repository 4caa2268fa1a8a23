"""How much of a records field is opened: what the bytes claim is an attacker's to choose, what is spent on them is not."""

from dataclasses import dataclass, replace

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on decoding; what exceeds one is marked ``skipped``, and the rest goes on. Forwarding is not concerned."""

    decompressed: int = 64 * MIB  # bytes that one batch may decompress to
    total: int = 256 * MIB  # bytes that the batches of one field may decompress to together
    ratio: int = 1_000  # decompressed bytes to one compressed byte, once past *free*
    free: int = MIB  # bytes up to which any ratio will do: a batch of zeroes is no attack
    window: int = 128 * MIB  # of a zstd frame; what Kafka's own reader (zstd-jni) allows
    records: int = 1_000_000  # records of one batch
    batches: int = 1_000_000  # batches of one field

    def allowed(self, compressed: int) -> int:
        """Bytes that *compressed* bytes may become."""
        return min(self.decompressed, max(self.free, compressed * self.ratio))

    def after(self, spent: int) -> "Limits":
        """The limits for the next batch of a field whose batches before took *spent* bytes."""
        left = max(0, self.total - spent)
        return self if left >= self.decompressed else replace(self, decompressed=left)

    def exceeded(self, compressed: int) -> str:
        """The reason to give when that is not enough."""
        allowed = self.allowed(compressed)
        if allowed == self.decompressed:
            return f"decompresses to more than {allowed:,} bytes"
        return f"decompresses to more than {allowed:,} bytes, over {self.ratio:,} times its {compressed:,}"


DEFAULT_LIMITS = Limits()
