"""Both ends of a proxy in the hands of a test: a broker that does as it is told, and a client, in exact bytes."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from struct import pack, unpack_from
from types import TracebackType
from typing import Self

from tests.support.canaries import Scene
from tests.support.frames import heartbeat_answer
from tests.support.kafka.proxies import Proxy
from tests.support.sockets import CHUNK, Exact

PATIENCE = 30  # seconds after which a test that waits for bytes fails
_RESET = pack("ii", 1, 0)  # SO_LINGER: close with RST


class Peer(Exact):
    """A connected socket that reads and writes exact bytes. Raises EOFError when the other side ends."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        connected.settimeout(PATIENCE)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def swallow(self) -> int:
        """Read until the other side ends, however it does; returns how many bytes came."""
        total = 0
        with contextlib.suppress(ConnectionError):
            while more := self.socket.recv(CHUNK):
                total += len(more)
        return total

    def rest(self) -> bytes:
        """Everything until the other side ends."""
        data = bytearray()
        with contextlib.suppress(ConnectionError):
            while more := self.socket.recv(CHUNK):
                data += more
        return bytes(data)

    def closed(self) -> bool:
        """Wait for the other side to end; whether it did so without sending anything more."""
        return self.swallow() == 0

    def end(self) -> None:
        """Half-close: FIN, and go on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.socket.close()


def client(address: str, *, receive_buffer: int | None = None) -> Peer:
    """Connect to "host:port"."""
    host, _, port = address.rpartition(":")
    connected = socket.socket()
    if receive_buffer is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connected.settimeout(PATIENCE)
    try:
        connected.connect((host, int(port)))
    except OSError:
        connected.close()
        raise
    return Peer(connected)


Script = Callable[[Peer], None]


class ScriptedBroker:
    """Listens on a port of its own and plays *script* with everybody who connects, each in a thread.

    What a script raises for a connection that ends is what the other side wanted; anything else is in ``faults``.
    """

    def __init__(self, script: Script, *, backlog: int = 1_024, port: int = 0) -> None:
        self.script = script
        self.accepted = 0
        self.faults: list[BaseException] = []
        self._peers: list[Peer] = []
        self._listener = socket.create_server(("127.0.0.1", port), backlog=backlog)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connected, _ = self._listener.accept()
                self.accepted += 1
                peer = Peer(connected)
                self._peers.append(peer)
                threading.Thread(target=self._play, args=(peer,), daemon=True).start()

    def _play(self, peer: Peer) -> None:
        try:
            with contextlib.closing(peer):
                self.script(peer)
        except (OSError, EOFError):
            pass
        except BaseException as error:
            self.faults.append(error)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)


def answer(request: bytes, body: bytes = b"\0\0") -> bytes:
    """A response frame to a whole request frame, header version 0."""
    return pack(">i", 4 + len(body)) + request[8:12] + body


def is_answered(request: bytes) -> bool:
    """Whether a broker answers: not a Produce (v3 without a transactional id, as frames.produce makes it) with acks=0."""
    api_key, client_id_size = unpack_from(">h", request, 4)[0], max(0, unpack_from(">h", request, 12)[0])
    return bool(api_key or unpack_from(">h", request, 14 + client_id_size + 2)[0])


def heartbeats(peer: Peer) -> None:
    """A broker that answers Heartbeat v0."""
    while True:
        peer.send(heartbeat_answer(int.from_bytes(peer.frame()[8:12], "big")))


def answering(peer: Peer) -> None:
    """A script: every request gets a small answer at once."""
    while True:
        request = peer.frame()
        if is_answered(request):
            peer.send(answer(request))


def swallowing(peer: Peer) -> None:
    """A script: reads everything and says nothing."""
    peer.swallow()


class Recorder:
    """A script that remembers, byte for byte, what each connection brought until it ended, and answers nothing."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self._seen = threading.Condition()

    def __call__(self, peer: Peer) -> None:
        data = peer.rest()
        with self._seen:
            self.received.append(data)
            self._seen.notify_all()

    def wait(self, count: int = 1) -> list[bytes]:
        """What *count* connections brought, when they have ended."""
        with self._seen:
            assert self._seen.wait_for(lambda: len(self.received) >= count, PATIENCE), self.received
            return list(self.received)


def size_field(size: int) -> bytes:
    """Four bytes of a size, negative ones too."""
    return struct.pack(">I", size & 0xFFFFFFFF)


def broker_of(shown: list[Scene]) -> Script:
    """Plays the broker's part of the scene that a client begins; what the client sends is not checked, only counted."""
    by_beginning = {scene.segments[0][1]: scene for scene in shown}

    def play(peer: Peer) -> None:
        scene = by_beginning[peer.frame()]
        for from_client, data in scene.segments[1:]:
            if from_client:
                peer.exactly(len(data))
            else:
                peer.send(data)
        peer.swallow()

    return play


def play(proxy: Proxy, scene: Scene) -> None:
    """Play the client's part; a proxy may close the connection at what it does not forward."""
    with client(proxy.bootstrap()) as one:
        one.socket.settimeout(5)
        with contextlib.suppress(OSError, EOFError):
            for from_client, data in scene.segments:
                if from_client:
                    one.send(data)
                else:
                    one.exactly(len(data))
