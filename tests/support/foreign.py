"""Conversations of other protocols, made up from their specifications by a seed: what must never be taken for Kafka."""

import gzip
import io
import json
import random
import tarfile
import zlib
from collections.abc import Callable
from struct import pack

from kproxy.capture.items import TcpSegment
from tests.support.late_starts import SYN, Segment

ACK, PUSH = 16, 8
KEY = bytes((10, 0, 0, 5)) + pack(">H", 40_000) + bytes((10, 0, 0, 9)) + pack(">H", 41_000)
Said = list[tuple[int, bytes]]  # who says it (0: the side that opens the connection), and what


def http(chance: random.Random) -> Said:
    """RFC 9112: requests and answers with bodies of JSON and of bytes."""
    said: Said = []
    for number in range(8):
        body = json.dumps(
            {"number": number, "values": [chance.random() for _ in range(chance.randrange(200))]}
        ).encode()
        said.append(
            (0, b"POST /topics/%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (number, len(body)) + body)
        )
        file = gzip.compress(chance.randbytes(chance.randrange(5_000)), mtime=0)
        said.append((1, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(file) + file))
    return said


def http2(chance: random.Random) -> Said:
    """RFC 9113: the preface, then frames: 3 bytes of size, type, flags, 4 bytes of stream."""

    def framed(kind: int, stream: int, data: bytes) -> bytes:
        return len(data).to_bytes(3, "big") + bytes((kind, 0)) + pack(">i", stream) + data

    said: Said = [(0, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + framed(4, 0, pack(">hi", 3, 100))), (1, framed(4, 0, b""))]
    for stream in range(1, 40, 2):
        said.append((0, framed(1, stream, chance.randbytes(30)) + framed(0, stream, bytes(5) + chance.randbytes(200))))
        said.append((1, framed(1, stream, chance.randbytes(9)) + framed(0, stream, bytes(chance.randrange(4_000)))))
    return said


def tls(chance: random.Random) -> Said:
    """RFC 8446: records of a handshake, then of data."""
    said: Said = [(0, b"\x16\x03\x01" + pack(">H", 200) + b"\x01\0\0\xc4\x03\x03" + chance.randbytes(194))]
    for number in range(20):
        data = chance.randbytes(chance.randrange(1, 3_000))
        said.append((number % 2, b"\x17\x03\x03" + pack(">H", len(data)) + data))
    return said


def ssh(chance: random.Random) -> Said:
    """RFC 4253: names in text, then packets: 4 bytes of size, padding, payload."""
    said: Said = [(1, b"SSH-2.0-OpenSSH_9.2\r\n"), (0, b"SSH-2.0-Go\r\n")]
    for number in range(30):
        size = chance.randrange(12, 800)
        said.append((number % 2, pack(">iB", size, chance.randrange(4, 12)) + chance.randbytes(size - 1)))
    return said


def postgresql(chance: random.Random) -> Said:
    """Protocol 3.0: a startup message, then typed messages with sizes; small integers everywhere."""
    startup = pack(">i", 196_608) + b"user\0me\0database\0me\0\0"
    said: Said = [
        (0, pack(">i", len(startup) + 4) + startup),
        (1, b"R" + pack(">ii", 8, 0) + b"Z" + pack(">i", 5) + b"I"),
    ]
    for _ in range(20):
        said.append((0, b"Q" + pack(">i", 13) + b"SELECT 1\0"))
        rows = b"".join(
            b"D" + pack(">ihii", 14, 1, 4, chance.randrange(1_000)) + bytes(4) for _ in range(chance.randrange(200))
        )
        said.append((1, b"T" + pack(">ih", 30, 1) + bytes(24) + rows + b"C" + pack(">i", 13) + b"SELECT 1\0"))
    return said


def zookeeper(chance: random.Random) -> Said:
    """Jute records: a size, an xid that counts, a type, a path; what is most like Kafka of all."""

    def sized(data: bytes) -> bytes:
        return pack(">i", len(data)) + data

    def string(text: bytes) -> bytes:
        return pack(">i", len(text)) + text

    said: Said = [
        (0, sized(pack(">iqiq", 0, 0, 30_000, 0) + string(bytes(16)) + b"\0")),
        (1, sized(pack(">iiq", 0, 30_000, 1 << 56) + string(bytes(16)) + b"\0")),
    ]
    for xid in range(1, 60):
        said.append(
            (0, sized(pack(">ii", xid, chance.choice((3, 4, 8, 12))) + string(b"/brokers/ids/%d" % xid) + b"\0"))
        )
        said.append((1, sized(pack(">iqi", xid, 4_000 + xid, 0) + string(bytes(chance.randrange(300))) + bytes(68))))
    return said


def mysql(chance: random.Random) -> Said:
    """Packets: 3 bytes of size, little-endian, and a number."""
    greeting = b"\x0a8.0.36\0" + chance.randbytes(60)
    said: Said = [(1, len(greeting).to_bytes(3, "little") + b"\0" + greeting)]
    for number in range(30):
        data = (
            bytes((3,)) + b"SELECT * FROM t" if number % 2 == 0 else bytes(chance.randrange(900)) + chance.randbytes(9)
        )
        said.append((number % 2, len(data).to_bytes(3, "little") + b"\0" + data))
    return said


def redis(chance: random.Random) -> Said:
    """RESP: text with sizes."""
    said: Said = []
    for number in range(40):
        value = chance.randbytes(chance.randrange(400))
        said.append((0, b"*3\r\n$3\r\nSET\r\n$5\r\nkey%02d\r\n$%d\r\n" % (number, len(value)) + value + b"\r\n"))
        said.append((1, b"+OK\r\n"))
    return said


def thrift(chance: random.Random) -> Said:
    """Framed binary: a size, a version, the name of a method, a number that counts, fields with small integers."""
    said: Said = []
    for number in range(50):
        call = pack(">ii", -0x7FFEFFFF, 4) + b"ping" + pack(">i", number) + b"\x08\0\1" + pack(">i", 7) + b"\0"
        said.append((0, pack(">i", len(call)) + call))
        reply = pack(">ii", -0x7FFEFFFE, 4) + b"ping" + pack(">i", number) + bytes(chance.randrange(60))
        said.append((1, pack(">i", len(reply)) + reply))
    return said


def rpc(chance: random.Random) -> Said:
    """A size, a number that counts, and small integers, of nobody's protocol in particular."""
    said: Said = []
    for number in range(1, 80):
        words = pack(">6i", number, *(chance.choice((0, 0, 1, 2, 5, 100)) for _ in range(5)))
        said.append((0, pack(">i", len(words)) + words))
        said.append((1, pack(">i", 9) + pack(">iib", number, 0, 1)))
    return said


def noise(chance: random.Random) -> Said:
    """Random bytes."""
    return [(number % 2, chance.randbytes(chance.randrange(1, 6_000))) for number in range(40)]


def zeros(chance: random.Random) -> Said:
    """Zeros."""
    return [(number % 2, bytes(chance.randrange(1, 20_000))) for number in range(40)]


def numbers(chance: random.Random) -> Said:
    """Small integers of four bytes, big-endian: an array, a column, an image."""
    return [
        (0, b"".join(pack(">i", chance.randrange(300)) for _ in range(chance.randrange(1, 3_000)))) for _ in range(20)
    ]


def file(chance: random.Random) -> Said:
    """A file copied: an archive of text, zeros, numbers and compressed bytes."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, data in (
            ("a.txt", b"the quick brown fox\n" * chance.randrange(1, 900)),
            ("b.bin", bytes(chance.randrange(20_000))),
            ("c.z", zlib.compress(chance.randbytes(20_000))),
            ("d.col", b"".join(pack(">q", number) for number in range(chance.randrange(3_000)))),
            ("e.col", b"".join(pack("<i", number) for number in range(chance.randrange(3_000)))),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return [(0, target.getvalue())]


PROTOCOLS: dict[Callable[[random.Random], Said], set[str]] = {
    http: {"http"},
    http2: {"http"},
    tls: {"tls"},
    ssh: {"ssh"},
    postgresql: {"postgresql"},
    zookeeper: {"zookeeper"},
    mysql: {"unknown"},
    redis: {"unknown", "text"},
    thrift: {"unknown"},
    rpc: {"unknown"},
    noise: {"unknown", "text", "tls"},
    zeros: {"unknown"},
    numbers: {"unknown"},
    file: {"unknown", "text"},
}


def segments_of(said: Said, chance: random.Random, *, syn: bool) -> list[Segment]:
    """The packets of a conversation, cut as a network would: whole messages, in a size of segments."""
    sequence = [chance.randrange(1 << 31), chance.randrange(1 << 31)]
    size = chance.choice((536, 1_448, 8_948, 65_000))
    out: list[Segment] = []

    def send(side: int, flags: int, data: bytes = b"") -> None:
        tcp = TcpSegment(KEY, side, sequence[side] % (1 << 32), sequence[1 - side] % (1 << 32), flags, data, 0)
        out.append(Segment(1_700_000_000_000_000_000 + len(out) * 1_000_000, tcp))
        sequence[side] += len(data) + bool(flags & SYN)

    if syn:
        send(0, SYN)
        send(1, SYN | ACK)
    for side, data in said:
        for start in range(0, len(data), size):
            send(side, ACK | PUSH, data[start : start + size])
    return out
