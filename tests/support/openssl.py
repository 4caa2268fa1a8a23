"""The programs of OpenSSL talking through a relay that writes down what they say: for what Python's ssl cannot do."""

import contextlib
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.support.tls import REQUEST, RESPONSE, Chunks, Direction, certificates

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
