"""``kproxy run`` as ``kproxy demo`` starts it, and what it has captured as text while it captures."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import IO

from kproxy.errors import KproxyError

HOST = "127.0.0.1"
READY_S, END_S = 20.0, 10.0
LOOK_S = 0.1
READ_SIZE = 262_144
# The mock cluster's ApiVersions and Metadata are not as Kafka writes them, and telemetry is of no interest here.
SHOWN = '!(apiName in ["ApiVersions", "Metadata", "GetTelemetrySubscriptions", "PushTelemetry"])'


def free_ports(count: int) -> int:
    """The first of *count* ports in a row that nobody listens on. Raises KproxyError when there are none."""
    for _ in range(100):
        first = random.randrange(20_000, 32_000)  # below what the kernel gives to clients
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind((HOST, port))
            return first
    raise KproxyError(f"no {count} free ports in a row were found")


class Proxy:
    """A running ``kproxy run`` in front of *bootstrap*; its files are in *folder*."""

    def __init__(self, folder: Path, bootstrap: list[str]) -> None:
        first = free_ports(len(bootstrap) + 3)  # the admin port, the listener, the ports of nodes 0, 1, ...
        self.admin = f"{HOST}:{first}"
        self.listen = f"{HOST}:{first + 1}"
        self.log, self.capture, self.said = folder / "decoded.jsonl", folder / "trace.pcapng", folder / "kproxy.log"
        words = ["run", "--listen", self.listen, "--bootstrap", ",".join(bootstrap), "--admin", self.admin]
        words += ["--log", str(self.log), "--capture", str(self.capture)]
        with self.said.open("wb") as said:
            self._process = _kproxy(words, stdin=subprocess.DEVNULL, stderr=said)

    def wait(self, ending: threading.Event) -> None:
        """Return when it is ready, or *ending* is set. Raises KproxyError when it ends, or does not begin in time."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise KproxyError(f"kproxy run ended at once ({self._process.returncode}): {self._last_words()}")
            if ending.wait(LOOK_S) or self._ready():
                return
        raise KproxyError(f"kproxy run was not ready in {READY_S:.0f} s: {self._last_words()}")

    def metrics(self) -> str:
        """What Prometheus would read; "" when it cannot be read."""
        with contextlib.suppress(OSError):
            return self._get("/metrics")
        return ""

    def stop(self) -> None:
        """Let it drain and end; kill it if it does not."""
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ready(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self._get("/readyz"))
        return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=2) as answer:
            text: str = answer.read().decode("utf-8", "replace")
        return text

    def _last_words(self) -> str:
        lines = self.said.read_text(encoding="utf-8", errors="replace").splitlines()
        last = lines[-1] if lines else "it said nothing"
        try:
            event = json.loads(last)
            return str(event.get("reason") or event.get("event"))
        except (ValueError, AttributeError):
            return last


class Scrolling:
    """``kproxy decode`` of a capture that is still being written, on this process's standard output."""

    def __init__(self, capture: Path) -> None:
        self._capture = capture
        self._ending = threading.Event()
        self._decoder = _kproxy(["decode", "--where", SHOWN, "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._thread = threading.Thread(target=self._follow, name="demo-scrolling")
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether nobody reads what is shown any more."""
        return self._decoder.poll() is not None

    def stop(self) -> None:
        """Show the rest. To be called when the capture is written to its end."""
        self._ending.set()
        self._thread.join()
        try:
            self._decoder.wait(END_S)
        except subprocess.TimeoutExpired:
            self._decoder.kill()
            self._decoder.wait()

    def _follow(self) -> None:
        pipe = self._decoder.stdin
        assert pipe is not None
        with contextlib.suppress(OSError), contextlib.closing(pipe):
            while not self._ending.wait(LOOK_S) and not self._capture.exists():
                pass
            while self._capture.exists():  # once, and again for each part that follows
                if not self._pass_on(pipe):
                    break

    def _pass_on(self, pipe: IO[bytes]) -> bool:
        """One part of the capture to its end; whether another has taken its place."""
        with self._capture.open("rb") as part:
            number = os.fstat(part.fileno()).st_ino
            while True:
                last = self._ending.is_set()  # before reading: then what is read now is all
                moved = not self._capture.exists() or self._capture.stat().st_ino != number
                while data := part.read(READ_SIZE):
                    pipe.write(data)
                pipe.flush()
                if moved or last:
                    return moved
                self._ending.wait(LOOK_S)


def _kproxy(words: list[str], **streams: int | IO[bytes]) -> "subprocess.Popen[bytes]":
    """Another kproxy, in a process group of its own: Ctrl-C on the terminal is for the demo, which ends it in order."""
    return subprocess.Popen([sys.executable, "-m", "kproxy", *words], process_group=0, **streams)  # type: ignore[call-overload,no-any-return]
