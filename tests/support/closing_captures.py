"""Record how connections end, with the kernel's own FINs and RSTs: python -m tests.support.closing_captures DIRECTORY (as root).

A client and a broker of a few lines speak Kafka over the loopback, and dumpcap records. The files that the tests read are in
tests/captures/closed; each is named by what happens in it.
"""

import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.frames import frame, heartbeat, heartbeat_answer

PORT = 19_092
ANSWER = frame(struct.pack(">i", 2) + bytes(200_000))  # a response larger than the receiver's buffer
Talk = Callable[[socket.socket, socket.socket], None]


def ask(client: socket.socket, broker: socket.socket) -> None:
    """One exchange, then a request that the broker has received."""
    client.sendall(heartbeat(1))
    broker.recv(1_000)
    broker.sendall(heartbeat_answer(1))
    client.recv(1_000)
    client.sendall(heartbeat(2))
    broker.recv(1_000)


def reset(end: socket.socket) -> None:
    """Close with RST."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def client_closes(client: socket.socket, broker: socket.socket) -> None:
    ask(client, broker)
    client.close()
    broker.recv(1_000)


def client_closes_then_is_answered(client: socket.socket, broker: socket.socket) -> None:
    """The client's kernel answers the late response with RST."""
    ask(client, broker)
    client.close()
    broker.sendall(heartbeat_answer(2))
    time.sleep(0.05)


def client_closes_inside_a_response(client: socket.socket, broker: socket.socket) -> None:
    """Unread bytes in the client's buffer: its kernel sends RST in place of FIN."""
    ask(client, broker)
    broker.sendall(ANSWER[:60_000])
    time.sleep(0.05)
    client.close()
    time.sleep(0.05)


def client_half_closes(client: socket.socket, broker: socket.socket) -> None:
    ask(client, broker)
    client.shutdown(socket.SHUT_WR)
    broker.recv(1_000)
    broker.sendall(heartbeat_answer(2))
    client.recv(1_000)


def client_resets(client: socket.socket, broker: socket.socket) -> None:
    ask(client, broker)
    reset(client)
    time.sleep(0.05)


def client_resets_inside_a_request(client: socket.socket, broker: socket.socket) -> None:
    ask(client, broker)
    broker.sendall(heartbeat_answer(2))
    client.recv(1_000)
    client.sendall(heartbeat(3)[:20])
    broker.recv(1_000)
    reset(client)
    time.sleep(0.05)


def broker_closes(client: socket.socket, broker: socket.socket) -> None:
    ask(client, broker)
    broker.close()
    client.recv(1_000)


def broker_closes_inside_a_response(client: socket.socket, broker: socket.socket) -> None:
    ask(client, broker)
    broker.sendall(heartbeat_answer(2)[:9])
    client.recv(1_000)
    broker.close()
    client.recv(1_000)


def broker_resets(client: socket.socket, broker: socket.socket) -> None:
    ask(client, broker)
    reset(broker)
    time.sleep(0.05)


TALKS: tuple[Talk, ...] = (
    client_closes,
    client_closes_then_is_answered,
    client_closes_inside_a_response,
    client_half_closes,
    client_resets,
    client_resets_inside_a_request,
    broker_closes,
    broker_closes_inside_a_response,
    broker_resets,
)


def play(talk: Talk) -> None:
    """Let both ends talk over a connection of their own."""
    with socket.create_server(("127.0.0.1", PORT)) as server:
        client = socket.create_connection(("127.0.0.1", PORT))
        broker, _ = server.accept()
        with client, broker:
            talk(client, broker)
    time.sleep(0.1)


def record(talk: Talk, path: Path) -> None:
    """Play a talk and record it."""
    command = ["dumpcap", "-q", "-i", "lo", "-P", "-f", f"tcp port {PORT}", "-w", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
        assert recorder.stderr is not None
        for line in recorder.stderr:
            if line.startswith("File:"):
                break
        threading.Thread(target=recorder.stderr.read, daemon=True).start()
        time.sleep(0.3)
        play(talk)
        time.sleep(1)  # until dumpcap has read and written what it captured
        recorder.terminate()


def main() -> None:
    """Record all talks."""
    for talk in TALKS:
        record(talk, Path(sys.argv[1]) / f"{talk.__name__.replace('_', '-')}.pcap")


if __name__ == "__main__":
    main()
