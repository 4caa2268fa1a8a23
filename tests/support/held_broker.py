"""A broker that answers Heartbeat, or keeps its answers until it is let: what is in flight stays in flight."""

import contextlib
import socket
import threading
from struct import unpack_from
from typing import Self

from tests.support.frames import heartbeat_answer


class HeldBroker:
    """Listens on a port of its own; a thread a connection. ``asked`` is set when a request has come."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept, which would keep the port open
        self._listener.close()

    def hold(self) -> None:
        """Keep the answers from here on."""
        self.asked.clear()
        self.may_answer.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as requests, contextlib.suppress(OSError):
            while size := requests.read(4):
                body = requests.read(unpack_from(">i", size)[0])
                self.asked.set()
                self.may_answer.wait()
                client.sendall(heartbeat_answer(unpack_from(">i", body, 4)[0]))
