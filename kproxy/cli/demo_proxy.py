"""The child processes of ``kproxy demo``: ``kproxy run``, and ``kproxy decode`` of the capture that it is writing."""

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
READY_S, END_S = 90.0, 10.0  # a laptop that does much else takes its time
POLL_S = 0.1
READ_SIZE = 262_144
HIDDEN = ["ApiVersions", "GetTelemetrySubscriptions", "PushTelemetry"]  # how each connection begins
SHOWN = f"!(apiName in {json.dumps(HIDDEN)})"


def free_ports(count: int) -> int:
    """Find *count* consecutive ports that are free, and return the first. Raises KproxyError when there are none."""
    for _ in range(100):
        first = random.randrange(20_000, 32_000)  # below what the kernel gives to clients
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind((HOST, port))
            return first
    raise KproxyError(f"no {count} consecutive free ports were found")


class Proxy:
    """A running ``kproxy run`` in front of *bootstrap*; its files are in *folder*."""

    def __init__(self, folder: Path, bootstrap: list[str]) -> None:
        first = free_ports(len(bootstrap) + 3)  # the admin port, the listener, the ports of nodes 0, 1, ...
        self.admin = f"{HOST}:{first}"
        self.listen = f"{HOST}:{first + 1}"
        self.decoded_log, self.capture, self.log_file = (
            folder / "decoded.jsonl",
            folder / "trace.pcapng",
            folder / "kproxy.log",
        )
        words = ["run", "--listen", self.listen, "--bootstrap", ",".join(bootstrap), "--admin", self.admin]
        words += ["--log", str(self.decoded_log), "--capture", str(self.capture)]
        with self.log_file.open("wb") as log_file:
            self._process = _kproxy(words, stdin=subprocess.DEVNULL, stderr=log_file)

    def wait(self, ending: threading.Event) -> None:
        """Wait until it is ready or *ending* is set. Raises KproxyError when it ends, or is not ready in time."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise KproxyError(f"kproxy run ended at once ({self._process.returncode}): {self._last_log_line()}")
            if ending.wait(POLL_S) or (self._ready() and self.capture.exists()):  # the analyzer creates the capture
                return
        raise KproxyError(f"kproxy run was not ready in {READY_S:.0f} s: {self._last_log_line()}")

    def metrics(self) -> str:
        """Return the text of /metrics; "" when it cannot be read."""
        with contextlib.suppress(OSError):
            return self._get("/metrics")
        return ""

    def stop(self) -> None:
        """Stop it, and wait until it has drained; kill it if that takes too long."""
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

    def _last_log_line(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        last = lines[-1] if lines else "it logged nothing"
        try:
            event = json.loads(last)
            return str(event.get("reason") or event.get("event"))
        except (ValueError, AttributeError):
            return last


class Scrolling:
    """Decodes a capture that is still being written, to this process's standard output."""

    def __init__(self, capture: Path) -> None:
        self._capture = capture
        self._ending = threading.Event()
        self._decoder = _kproxy(["decode", "--where", SHOWN, "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._thread = threading.Thread(target=self._follow, name="demo-scrolling")
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether the decoder has ended: the reader of standard output closed it."""
        return self._decoder.poll() is not None

    def stop(self) -> None:
        """Show the rest, and wait for it. Call this when the capture is complete."""
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
            while not self._ending.wait(POLL_S) and not self._capture.exists():
                pass
            while self._capture.exists():  # again for each part after a rotation
                if not self._copy_part(pipe):
                    break

    def _copy_part(self, pipe: IO[bytes]) -> bool:
        """Copy one part of the capture to its end; return whether another part has replaced it."""
        with self._capture.open("rb") as part:
            number = os.fstat(part.fileno()).st_ino
            while True:
                last = self._ending.is_set()  # before reading: then this read sees everything
                moved = not self._capture.exists() or self._capture.stat().st_ino != number
                while data := part.read(READ_SIZE):
                    pipe.write(data)
                pipe.flush()
                if moved or last:
                    return moved
                self._ending.wait(POLL_S)


def _kproxy(words: list[str], **streams: int | IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start another kproxy in a process group of its own: Ctrl-C must reach only the demo, which stops it in order."""
    return subprocess.Popen([sys.executable, "-m", "kproxy", *words], process_group=0, **streams)  # type: ignore[call-overload,no-any-return]
