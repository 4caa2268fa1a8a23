"""Run inside a network namespace that redirects port 9092 to kproxy: a broker, `kproxy run` in transparent mode, a client.

`python -m tests.support.redirected CONFIG BROKER-HOST CLIENT-HOST [USER]` prints what came of it as JSON: the response read
(hex; "" for none), how many connections the broker saw, and kproxy's log. USER: the user id to which the client's socket belongs.
"""

import contextlib
import encodings.idna  # noqa: F401 - of getaddrinfo, imported before this is another user
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

PATIENCE_S = 15
PORT = 9092
REQUEST = bytes.fromhex("0000000b 0012 0000 00000007 0001 74")  # ApiVersions v0 of client "t", correlation id 7
RESPONSE = bytes.fromhex("0000000a 00000007 0000 00000000")


def _serve(server: socket.socket, seen: list[str]) -> None:
    while True:
        client, peer = server.accept()
        seen.append(peer[0])
        with client:
            while client.recv(len(REQUEST)):
                client.sendall(RESPONSE)


def _ask(broker: str, client: str) -> bytes:
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection((broker, PORT), PATIENCE_S, (client, 0)) as asking,
    ):
        asking.sendall(REQUEST)
        return asking.recv(100)
    return b""


def _until_serving(process: "subprocess.Popen[str]", log: list[dict[str, Any]]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        log.append(json.loads(line))
        if log[-1]["event"] == "serving":
            return


def main(config: str, broker: str, client: str, user: str = "0") -> None:
    """See above."""
    seen: list[str] = []
    family = socket.AF_INET6 if ":" in broker else socket.AF_INET
    server = socket.create_server((broker, PORT), family=family)
    threading.Thread(target=_serve, args=(server, seen), daemon=True).start()
    words = [sys.executable, "-m", "kproxy", "run", "-c", config]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(PATIENCE_S * 2, process.kill)
        watchdog.start()
        log: list[dict[str, Any]] = []
        _until_serving(process, log)
        os.seteuid(int(user))
        answer = _ask(broker, client)
        os.seteuid(0)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        log.extend(json.loads(line) for line in process.stderr)
        watchdog.cancel()
    print(json.dumps({"answer": answer.hex(), "connections": len(seen), "log": log, "exit": process.returncode}))


if __name__ == "__main__":
    main(*sys.argv[1:])
