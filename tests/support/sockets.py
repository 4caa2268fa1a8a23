"""Exact bytes over a socket, and on it a Kafka client of a few lines: what tests use to ask without anybody's help.

Layouts are those of the protocol guide.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from struct import pack, unpack_from
from types import TracebackType
from typing import Self

from tests.support.frames import array, request, string

CHUNK = 1 << 18


class Exact:
    """Raises EOFError when the other side ends too early."""

    socket: socket.socket

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exactly(self, size: int) -> bytes:
        """The next *size* bytes."""
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(min(size - len(data), CHUNK))
            if not more:
                raise EOFError(f"ended {size - len(data)} bytes early, after {len(data)}")
            data += more
        return bytes(data)

    def frame(self) -> bytes:
        """The next frame whole, size field included."""
        size = self.exactly(4)
        return size + self.exactly(unpack_from(">i", size)[0])


METADATA, LIST_OFFSETS, CREATE_TOPICS = 3, 2, 19
_LATEST, _NO_LEADER = -1, -1


def address(text: str) -> tuple[str, int]:
    """("host", port) of "host:port"."""
    host, _, port = text.rpartition(":")
    return host, int(port)


class Wire(Exact):
    """A connection to "host:port" over which whole frames go. Raises EOFError when the other side ends."""

    def __init__(self, bootstrap: str, *, patience: float = 30, tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(address(bootstrap), patience)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = tls.wrap_socket(plain, server_hostname=address(bootstrap)[0]) if tls else plain
        self._next = 0

    def ask(self, api_key: int, api_version: int, body: bytes, *, tags: bytes = b"") -> bytes:
        """Send a request and return its response from the correlation id on, which is checked and left out."""
        self._next += 1
        self.send(request(api_key, api_version, self._next, body, client_id="wire", tags=tags))
        answer = self.frame()
        assert unpack_from(">i", answer, 4)[0] == self._next, "the response answers another request"
        return answer[8:]


class Reader:
    """Reads what a response holds, front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    def number(self, kind: str) -> int:
        """One number, by its struct letter: h, i, q, b."""
        (value,) = unpack_from(">" + kind, self._data, self._pos)
        self._pos += {"b": 1, "h": 2, "i": 4, "q": 8}[kind]
        return int(value)

    def text(self) -> str | None:
        size = self.number("h")
        if size < 0:
            return None
        self._pos += size
        return self._data[self._pos - size : self._pos].decode()

    def times(self) -> range:
        """As many times as the count that stands here says."""
        return range(self.number("i"))


class Metadata:
    """Metadata v4: ``brokers`` node id -> "host:port"; ``leaders`` (topic, partition) -> node id."""

    def __init__(self, wire: Wire, topics: Sequence[str] | None = None) -> None:
        names = pack(">i", -1) if topics is None else array(*map(string, topics))
        read = Reader(wire.ask(METADATA, 4, names + b"\0"))
        read.number("i")  # throttle_time_ms
        self.brokers: dict[int, str] = {}
        for _ in read.times():
            node, host, port = read.number("i"), read.text(), read.number("i")
            read.text()  # rack
            self.brokers[node] = f"{host}:{port}"
        read.text()  # cluster_id
        self.controller = read.number("i")
        self.leaders: dict[tuple[str, int], int] = {}
        self.in_sync: dict[tuple[str, int], set[int]] = {}
        for _ in read.times():
            self._topic(read)

    def _topic(self, read: Reader) -> None:
        read.number("h")  # error_code
        name = read.text() or ""
        read.number("b")  # is_internal
        for _ in read.times():
            read.number("h")
            partition, leader = read.number("i"), read.number("i")
            _replicas = [read.number("i") for _ in read.times()]
            self.in_sync[name, partition] = {read.number("i") for _ in read.times()}
            self.leaders[name, partition] = leader

    def complete(self, topic: str, partitions: int) -> bool:
        """Whether every partition of *topic* has a leader."""
        found = [leader for (name, _), leader in self.leaders.items() if name == topic]
        return len(found) == partitions and _NO_LEADER not in found


def metadata(bootstrap: str, topics: Sequence[str] | None = None) -> Metadata:
    """Metadata as *bootstrap* gives it."""
    with Wire(bootstrap) as wire:
        return Metadata(wire, topics)


def create_topic(
    bootstrap: str, name: str, placed: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
) -> None:
    """CreateTopics v4 with partition i on the brokers ``placed[i]``. Raises AssertionError with the error code."""
    assignments = [pack(">i", i) + array(*(pack(">i", node) for node in nodes)) for i, nodes in enumerate(placed)]
    settings = [string(key) + string(value) for key, value in (configs or {}).items()]
    topic = string(name) + pack(">ih", -1, -1) + array(*assignments) + array(*settings)
    with Wire(bootstrap) as wire:
        read = Reader(wire.ask(CREATE_TOPICS, 4, array(topic) + pack(">ib", 30_000, 0)))
    read.number("i")
    for _ in read.times():
        read.text()
        assert read.number("h") == 0, f"CreateTopics {name}: {read.text()}"


def end_offsets(bootstrap: str, topic: str, isolation_level: int = 0) -> dict[int, int]:
    """The end of each partition of *topic*: ListOffsets v2 of the latest, asked of each partition's leader. 1: read_committed."""
    found = metadata(bootstrap, [topic])
    ends: dict[int, int] = {}
    for (_, partition), leader in found.leaders.items():
        with Wire(found.brokers[leader]) as wire:
            asked = array(string(topic) + array(pack(">iq", partition, _LATEST)))
            read = Reader(wire.ask(LIST_OFFSETS, 2, pack(">ib", -1, isolation_level) + asked))
        read.number("i")
        for _ in read.times():
            read.text()
            for _ in read.times():
                index, error = read.number("i"), read.number("h")
                read.number("q")
                assert error == 0, f"ListOffsets {topic}-{index}: error {error}"
                ends[index] = read.number("q")
    return ends
