"""Real TLS, made in the process by OpenSSL (Python's ssl): what both sides wrote, and the key log.

And the programs of OpenSSL, through a relay that records them, for what Python's ssl cannot do. Certificates and keys are made
when a test run needs them first.
"""

import contextlib
import functools
import socket
import ssl
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from cryptography.hazmat.primitives.asymmetric import rsa

from kproxy.capture.items import TlsProblem
from kproxy.capture.tls import KeyLog, Lost, Plain, TlsFacts, TlsItem
from kproxy.capture.tls.connection import TlsConnection
from kproxy.protocol import Direction
from tests.support.certificates import Authority

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
Chunks = list[tuple[Direction, bytes]]

NO_ENCRYPT_THEN_MAC = 1 << 19  # SSL_OP_NO_ENCRYPT_THEN_MAC of OpenSSL, which Python does not name
BROKER = "CN=broker.test"
CLIENT = "CN=alice,OU=orders,O=kproxy tests"  # as RFC 4514 writes it: the other way round than it is stored


@functools.cache
def certificates() -> Path:
    """A folder with broker.pem and client.pem (key and certificate each) and ca.pem; RSA, for the ciphers of TLS 1.2."""
    authority = Authority(make_key=lambda: rsa.generate_private_key(65537, 2048))
    subjects = {"broker": [("CN", "broker.test")], "client": [("O", "kproxy tests"), ("OU", "orders"), ("CN", "alice")]}
    for who, subject in subjects.items():
        pair = authority.issue(who, subject, ())
        Path(pair.certificate).write_text(Path(pair.key).read_text() + Path(pair.certificate).read_text())
    return authority.folder


@dataclass
class Setup:
    """How client and broker are configured."""

    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""  # TLS 1.2, in OpenSSL's words
    client_certificate: bool = False
    ask_certificate: bool = False
    ask_certificate_later: bool = False  # TLS 1.3 only; the client must have one
    alpn: list[str] = field(default_factory=list)
    server_name: str | None = "broker.test"
    encrypt_then_mac: bool = True
    curve: str | None = None  # the only one of the broker
    tickets: bool = True


class Pair:
    """A client and a broker that talk TLS; ``chunks`` is what went over the wire, in order.

    Args:
        setup: their configuration.
        before: an earlier pair of the same setup; its contexts are used again and its session is resumed.
    """

    def __init__(self, setup: Setup | None = None, before: "Pair | None" = None) -> None:
        self.setup = setup or Setup()
        self.chunks: Chunks = []
        if before is None:
            self._keylog = Path(tempfile.mkdtemp(prefix="kproxy-tls-")) / "keys"
            self._client_context, self._broker_context = self._contexts()
        else:
            self._keylog = before._keylog
            self._client_context, self._broker_context = before._client_context, before._broker_context
        self._to_broker, self._to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._from_client, self._from_broker = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = self._client_context.wrap_bio(
            self._to_client,
            self._from_client,
            server_hostname=self.setup.server_name,
            session=None if before is None else before.client.session,
        )
        self.broker = self._broker_context.wrap_bio(self._to_broker, self._from_broker, server_side=True)

    @property
    def keylog(self) -> bytes:
        """The key log, with the lines of all pairs that share it."""
        return self._keylog.read_bytes()

    def handshake(self) -> "Pair":
        """Shake hands."""
        open_sides = [self.client, self.broker]
        while open_sides:
            for side in list(open_sides):
                try:
                    side.do_handshake()
                    open_sides.remove(side)
                except ssl.SSLWantReadError:
                    pass
                self._carry()
        return self

    def send(self, direction: Direction, data: bytes) -> bytes:
        """Write on one side, read on the other; returns what was read."""
        writer, reader = (self.client, self.broker) if direction is REQUEST else (self.broker, self.client)
        writer.write(data)
        self._carry()
        got = b""
        while len(got) < len(data):
            got += reader.read(len(data) - len(got))
        return got

    def ask_certificate(self) -> None:
        """TLS 1.3: ask the client for its certificate although the handshake is over."""
        self.broker.verify_client_post_handshake()
        self.send(RESPONSE, b"?")
        self.send(REQUEST, b"!")

    def _carry(self) -> None:
        for direction, out, to in (
            (REQUEST, self._from_client, self._to_broker),
            (RESPONSE, self._from_broker, self._to_client),
        ):
            data = out.read()
            if data:
                self.chunks.append((direction, data))
                to.write(data)

    def _contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        setup, folder = self.setup, certificates()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client.check_hostname = False
        client.load_verify_locations(folder / "ca.pem")
        broker.load_cert_chain(folder / "broker.pem")
        client.keylog_filename = str(self._keylog)
        if setup.client_certificate:
            client.load_cert_chain(folder / "client.pem")
            client.post_handshake_auth = True
        if setup.ask_certificate or setup.ask_certificate_later:
            broker.verify_mode = ssl.CERT_OPTIONAL
            broker.load_verify_locations(folder / "ca.pem")
            broker.post_handshake_auth = setup.ask_certificate_later
        for context in (client, broker):
            context.minimum_version = context.maximum_version = setup.version
            if setup.ciphers:
                context.set_ciphers(f"{setup.ciphers}:@SECLEVEL=0")
            if setup.alpn:
                context.set_alpn_protocols(setup.alpn)
            if not setup.encrypt_then_mac:
                context.options |= NO_ENCRYPT_THEN_MAC
            if not setup.tickets:
                context.options |= ssl.OP_NO_TICKET
        if setup.curve is not None:
            broker.set_ecdh_curve(setup.curve)
        return client, broker


@dataclass
class Heard:
    """What kproxy made of it."""

    connection: TlsConnection
    items: list[TlsItem | TlsFacts]

    def plain(self, direction: Direction) -> bytes:
        """The application data of a direction; a mark where some is lost."""
        out = b""
        for item in self.items:
            if isinstance(item, Plain) and item.direction is direction:
                out += item.data
            elif isinstance(item, Lost) and item.direction is direction:
                out += b"[lost]"
        return out

    @property
    def facts(self) -> TlsFacts:
        """What is known at the end."""
        return self.connection.facts

    @property
    def problems(self) -> list[str]:
        """What could not be read, in words."""
        return [item.what for item in self.items if isinstance(item, TlsProblem)]


def listen(chunks: Chunks, keylog: KeyLog | bytes) -> Heard:
    """Give chunks to a TlsConnection; the time of chunk n is n."""
    if isinstance(keylog, bytes):
        keylog = log_of(keylog)
    connection = TlsConnection(keylog)
    items: list[TlsItem | TlsFacts] = []
    for at, (direction, data) in enumerate(chunks):
        items += connection.receive(direction, data, at)
    items += connection.close(len(chunks))
    return Heard(connection, items)


def log_of(data: bytes) -> KeyLog:
    """A KeyLog of a whole file."""
    keylog = KeyLog()
    keylog.feed(data)
    keylog.finish()
    return keylog


TIMEOUT_S = 10  # ends a test that hangs


class Program:
    """A program of OpenSSL with its standard input and output."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            ["openssl", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._watchdog = threading.Timer(TIMEOUT_S, self._process.kill)
        self._watchdog.start()

    def say(self, line: bytes, answer: bytes | None = None) -> None:
        """Write to its standard input; a command letter needs its *answer*, as what is read with it is lost."""
        stream = self._stream(self._process.stdin)
        stream.write(line)
        stream.flush()
        if answer is not None:
            self.wait_for(answer)

    def wait_for(self, text: bytes) -> bytes:
        """Read lines until one has *text*; returns that line."""
        for line in self._stream(self._process.stdout):
            if text in line:
                return line
        raise AssertionError(f"openssl ended without saying {text!r}")

    def close(self) -> None:
        """End it: first its input, then the program. May be called again."""
        if self._process.returncode is not None:
            return
        self._stream(self._process.stdin).close()
        self._process.terminate()
        self._stream(self._process.stdout).close()
        self._process.wait()
        self._watchdog.cancel()

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream


class Broker:
    """``openssl s_server`` behind a relay; each connection's bytes are a list in ``connections``."""

    def __init__(self, *options: str) -> None:
        words = ["s_server", "-accept", "127.0.0.1:0", "-cert", str(certificates() / "broker.pem"), *options]
        self.program = Program(*words)
        self.port = int(self.program.wait_for(b"ACCEPT").rpartition(b":")[2])
        self.connections: list[Chunks] = []
        self._clients: list[Program] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))

    def connect(self, keylog: Path, *options: str) -> Program:
        """Start ``openssl s_client`` against it, through the relay."""
        address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        client = Program("s_client", "-connect", address, "-keylogfile", str(keylog), *options)
        self._clients.append(client)
        near, _ = self._listener.accept()
        far = socket.create_connection(("127.0.0.1", self.port))
        chunks: Chunks = []
        self.connections.append(chunks)
        for pair in ((REQUEST, near, far), (RESPONSE, far, near)):
            thread = threading.Thread(target=_carry, args=(*pair, chunks))
            thread.start()
            self._threads.append(thread)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in (*self._clients, self.program):
            program.close()
        self._listener.close()
        for thread in self._threads:
            thread.join()


def _carry(direction: Direction, source: socket.socket, target: socket.socket, chunks: Chunks) -> None:
    with source:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                chunks.append((direction, data))  # before it is passed on: what answers it comes later in the list
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
