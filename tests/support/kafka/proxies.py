"""`kproxy run` as a process, as a user starts it: by a configuration file."""

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.kafka.gate import MARK
from tests.support.kafka.processes import children, command_line, eventually, resident_size, spawn, stop, tail
from tests.support.ports import free_ports
from tests.support.sockets import address

ROOT = Path(__file__).parents[3]
ROOM = 12  # ports for a listener: its own and those of brokers 0 to 10
HOST = "127.0.0.1"


def cluster(bootstrap: Sequence[str], **settings: Any) -> dict[str, Any]:
    """A virtual cluster in front of *bootstrap*, listening on free ports."""
    return {"listen": f"{HOST}:{free_ports(ROOM)}", "bootstrap": list(bootstrap), **settings}


class Proxy:
    """One `kproxy run`. ``settings`` are those of the configuration file beside clusters."""

    def __init__(
        self,
        folder: Path,
        clusters: Sequence[Mapping[str, Any]],
        *,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.mark = uuid.uuid4().hex
        self.file = folder / "kproxy.yaml"
        self.log = folder / "kproxy.log"
        self.config: dict[str, Any] = {
            "clusters": [dict(each) for each in clusters],
            "admin": f"{HOST}:{free_ports()}",
            **settings,
        }
        self._environment = {MARK: self.mark, "PYTHONPATH": str(ROOT), **(environment or {})}
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, patience: float = 90, reaches_brokers: bool = True) -> "Proxy":
        """Write the configuration, start, and wait for /readyz, or where there is no admin port until it accepts.

        Args:
            reaches_brokers: False where it never will: wait until it serves clients.

        Raises RuntimeError with the end of its log.
        """
        self.begin()

        def ready() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"kproxy ended with {self.process.returncode}: {self.said()}")
            if not reaches_brokers:
                return '"event": "serving"' in self.log.read_text(encoding="utf-8")
            if self.config["admin"]:
                return self.get("/readyz", but=(503,))[0] == 200
            for number in range(len(self.config["clusters"])):
                socket.create_connection(address(self.bootstrap(number)), 5).close()
            return True

        try:
            eventually(ready, patience=patience, what="/readyz")
        except TimeoutError as error:
            raise RuntimeError(f"{error}; its log: {self.said()}") from error
        return self

    def begin(self) -> None:
        """Write the configuration and start, without waiting for anything."""
        self.write()
        words = [sys.executable, "-m", "kproxy", "run", "-c", str(self.file), *self._options]
        self._process = spawn(words, self.log, environment=self._environment, folder=self.file.parent)

    def serve(self, cluster: Mapping[str, Any]) -> str:
        """Serve one more virtual cluster by a reload, which costs a tenth of a start. Returns its listening address."""
        self.config["clusters"].append(dict(cluster))
        if self._process is None:
            self.start()
        else:
            self._reload()
        return str(cluster["listen"])

    def change(self, listen: str, **settings: Any) -> None:
        """Change settings of the virtual cluster that listens there, by a reload."""
        next(each for each in self.config["clusters"] if each["listen"] == listen).update(settings)
        self._reload()

    def _reload(self) -> None:
        before = self._reloads()
        self.write()
        eventually(lambda: self._reloads() > before, what=f"the configuration was taken; {self.said()}")

    def _reloads(self) -> int:
        return self.log.read_bytes().count(b'"the configuration was taken"')

    def write(self) -> None:
        """Write ``config`` to its file (JSON is YAML), in one step: a reader never sees half of it."""
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(self.config, indent=1), encoding="utf-8")
        beside.rename(self.file)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def bootstrap(self, number: int = 0) -> str:
        """What clients of a virtual cluster are given."""
        return str(self.config["clusters"][number]["listen"])

    def get(self, path: str, *, but: Sequence[int] = ()) -> tuple[int, str]:
        """Status and text from the admin port; a status in *but* is no error."""
        try:
            with urllib.request.urlopen(f"http://{self.config['admin']}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                if error.code in but:
                    return error.code, error.read().decode()
                raise

    def metrics(self) -> dict[str, float]:
        """Prometheus text by 'name{labels}'."""
        lines = self.get("/metrics")[1].splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def count(self, name: str, *parts: str) -> float:
        """The sum of the metric *name* over all labels, or over those that have all *parts* in them."""
        found = ((shown.partition("{"), value) for shown, value in self.metrics().items())
        return sum(value for (own, _, labels), value in found if own == name and all(part in labels for part in parts))

    def analyzing(self) -> "Proxy":
        """Wait until the analyzer says that it is at work."""
        eventually(lambda: self.count("kproxy_analysis_up") == 1, what="the analyzer is up")
        return self

    def connections(self) -> Any:
        """/connections, as JSON."""
        return json.loads(self.get("/connections")[1])

    def pids(self) -> list[int]:
        """All its processes."""
        return list(children(self.process.pid))

    def named(self, part: str) -> list[int]:
        """Its processes with *part* in their command line."""
        return [pid for pid in self.pids() if part in command_line(pid)]

    def workers(self) -> list[int]:
        """The processes that forward."""
        return self.named("kproxy: worker")

    def resident_size(self) -> int:
        """Resident bytes of the own memory of the processes that forward."""
        return sum(map(resident_size, self.workers()))

    def page_url(self) -> str:
        """The address of its page, with the token: the log names the file that has it."""

        def file() -> str | None:
            lines = [line for line in self.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
            events = map(json.loads, lines)
            return next((event["file"] for event in events if re.match("the page(,|$)", event["event"])), None)

        return Path(eventually(file, what="the address of the page in the log")).read_text(encoding="ascii").strip()

    def said(self) -> str:
        """The end of its log."""
        return tail(self.log)

    def stop(self, *, patience: float = 0) -> int:
        """Kill it, or with *patience* (seconds) send SIGTERM first. Returns its exit status."""
        return stop(self.process, patience=patience)

    def close(self) -> None:
        if self._process is not None:
            self.stop()
