"""Read payloads without a schema: big-endian primitives, with every length and count checked first.

Use one Reader for each payload. ``java_utf`` reads what DataOutputStream.writeUTF wrote; ``string`` and ``nullable_bytes`` read
the protocol's own types (common.protocol.types.Type).
"""

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from kproxy.errors import Malformed, TrailingBytes, Truncated

T = TypeVar("T")
Texts: TypeAlias = list[tuple[int, int, str]]  # where each text begins and ends, and its encoding
ALLOWANCE = 64 * 1024
EXPANSION = 32  # characters of names that may be repeated for each byte of the payload


class Reader:
    """A position in some bytes, which every method advances. Raises only DecodeError.

    Args:
        what: the name of the payload in errors.
        data: the payload.
        position: where to start in *data*.
        texts: list to which the position of each text is added, for callers that replace texts.
    """

    __slots__ = ("_allowance", "data", "position", "texts", "what")

    def __init__(self, what: str, data: bytes, position: int = 0, texts: Texts | None = None) -> None:
        self.what = what
        self.texts = texts
        self.data = data
        self.position = position
        self._allowance = ALLOWANCE + EXPANSION * len(data)

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        """Return the next *size* bytes."""
        if size > self.left:
            raise Truncated(
                f"needs {size} bytes, {self.left} left",
                message=self.what,
                position=self.position,
                needed=size,
                left=self.left,
            )
        self.position += size
        return self.data[self.position - size : self.position]

    def int8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def uint16(self) -> int:
        """Two bytes without a sign."""
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def int32s(self) -> list[int]:
        """Read an array of INT32."""
        count = self.count(4)
        return list(struct.unpack(f">{count}i", self.take(4 * count)))

    def uuid(self) -> str:
        """Read 16 bytes as a UUID in the form of Kafka's Uuid.toString."""
        return urlsafe_b64encode(self.take(16)).rstrip(b"=").decode()

    def uvarint(self) -> int:
        """Read an unsigned varint of at most five bytes (ByteUtils.readUnsignedVarint)."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFF
        raise self.malformed("a varint is longer than five bytes")

    def string(self) -> str | None:
        """Read a NULLABLE_STRING: INT16 size, then UTF-8; invalid bytes become U+FFFD, as in Java."""
        size = self.int16()
        return None if size < 0 else self._text(size, "utf-8").decode("utf-8", "replace")

    def nullable_bytes(self) -> bytes | None:
        """Read NULLABLE_BYTES: INT32 size, then the bytes."""
        size = self.int32()
        return None if size < 0 else self.take(size)

    def java_utf(self) -> str:
        """Read what DataOutputStream.writeUTF wrote: UINT16 size, then modified UTF-8 (special forms of NUL and surrogates)."""
        text = self._text(self.uint16(), "utf-8").replace(b"\xc0\x80", b"\0")
        try:
            return text.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            return text.decode("utf-8", "replace")

    def java_chars(self) -> str:
        """Read an INT32 count and the UTF-16 units that DataOutputStream.writeChars wrote."""
        return self._text(2 * self.count(2), "utf-16-be").decode("utf-16-be", "replace")

    def text_bytes(self) -> bytes:
        """Read NULLABLE_BYTES that hold a text; null counts as empty."""
        return self._text(max(0, self.int32()), "utf-8")

    def _text(self, size: int, encoding: str) -> bytes:
        data = self.take(size)
        if self.texts is not None and size:
            self.texts.append((self.position - size, self.position, encoding))
        return data

    def count(self, smallest: int) -> int:
        """Read the INT32 count of elements, each of at least *smallest* bytes; null counts as 0."""
        count = self.int32()
        if count * smallest > self.left:
            raise self.malformed(f"claims {count} elements of at least {smallest} bytes, {self.left} bytes left")
        return max(count, 0)

    def array(self, smallest: int, read: Callable[[], T]) -> list[T]:
        """Read an array: its count, then each element with *read*."""
        return [read() for _ in range(self.count(smallest))]

    def end(self) -> None:
        """Raise TrailingBytes if bytes are left."""
        if self.left:
            raise TrailingBytes(f"{self.left} bytes are left over", message=self.what, position=self.position)

    def repeated(self, name: str) -> str:
        """Return *name*, which the result repeats although the bytes hold it once; raise if that inflates the result."""
        self._allowance -= len(name)
        if self._allowance < 0:
            raise self.malformed("names are repeated until they are many times what the payload holds")
        return name

    def malformed(self, reason: str) -> Malformed:
        """Return the error to raise for bytes that no writer produces."""
        return Malformed(reason, message=self.what, position=self.position)
