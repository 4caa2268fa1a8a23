"""The child processes of ``kproxy demo``: ``kproxy run``, and ``kproxy decode`` of the capture that it is writing."""

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from kproxy.errors import KproxyError

HOST = "127.0.0.1"
READY_S, END_S = 90.0, 10.0  # a laptop that does much else takes its time
POLL_S = 0.1
READ_SIZE = 262_144
HIDDEN = ["ApiVersions", "GetTelemetrySubscriptions", "PushTelemetry"]  # how each connection begins
SHOWN = f"!(apiName in {json.dumps(HIDDEN)})"
EXCHANGE = re.compile(r" (?P<api>[A-Z]\w+) v\d+ +(?P<client_id>\S+)  (?P<rest>.*)")  # in a line of kproxy decode
ERROR = re.compile(r"\b[A-Z]+_[A-Z_]+\b")
REBALANCE = {"JoinGroup", "SyncGroup", "LeaveGroup"}
MOST_OF_A_REBALANCE = 4  # lines for each client and API
PAGE_FILE = re.compile(r"/\S*/kproxy-page-\S+?\.url")  # in the log: the file that has the address of the page


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

    def page(self) -> str:
        """Return the address of the live page; "" where the packages that it needs are missing."""
        if not all(map(find_spec, ("duckdb", "pyarrow", "sqlglot"))):
            return ""
        file = PAGE_FILE.search(self.log_file.read_text(encoding="utf-8", errors="replace"))
        return Path(file[0]).read_text(encoding="ascii").strip() if file else ""

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


class Digest:
    """Decodes the capture while it is written, and passes on the lines that say something new.

    *show* gets the first request of each API and client, and the first four of each with an error or of a rebalance;
    ``left_out`` counts the others.
    """

    def __init__(self, capture: Path, show: Callable[[str], None]) -> None:
        self.left_out: Counter[str] = Counter()  # by API
        self._capture = capture
        self._show = show
        self._shown: Counter[tuple[str, str]] = Counter()  # by client id and API
        self._ending = threading.Event()
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._decoder = _kproxy(["decode", "--where", SHOWN, "-"], **streams)
        self._threads = [
            threading.Thread(target=self._copy, name="demo-capture"),
            threading.Thread(target=self._choose, name="demo-digest"),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Show what is left, and wait for it. Call this when the capture is complete."""
        self._ending.set()
        for thread in self._threads:
            thread.join(END_S)
        if self._decoder.poll() is None:
            self._decoder.kill()
        self._decoder.wait()

    def _choose(self) -> None:
        lines = self._decoder.stdout
        assert lines is not None
        with contextlib.closing(lines):
            for data in lines:
                line = data.decode("utf-8", "replace").rstrip()
                exchange = EXCHANGE.search(line)
                if exchange is None or self._says_something_new(*exchange.groups()):
                    self._show(line)
                else:
                    self.left_out[exchange["api"]] += 1

    def _says_something_new(self, api: str, client_id: str, rest: str) -> bool:
        self._shown[client_id, api] += 1
        most = MOST_OF_A_REBALANCE if api in REBALANCE or ERROR.search(rest) else 1
        return self._shown[client_id, api] <= most

    def _copy(self) -> None:
        """Copy the capture to the decoder."""
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
