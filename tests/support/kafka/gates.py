"""The gates of a cluster, seen from the tests."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kafka import gate
from tests.support.kafka.processes import spawn, stop

HOST = "127.0.0.2"  # so that a real address is told from the proxy's at a glance, in any byte


@dataclass(frozen=True)
class Visitor:
    """Who connected: number of the process, its mark ("" for none), its command line."""

    pid: int
    mark: str
    command: str


class Gates:
    """One process that relays to every target and says who came. ``ports`` are in the order of the targets."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        self._log = folder / "gates.log"
        self._process: subprocess.Popen[bytes] = spawn(
            [sys.executable, str(gate.__file__), HOST, *targets], self._log, piped=True
        )
        self.ports: list[int] = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def visitors(self) -> list[Visitor]:
        """Who has connected since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return [Visitor(**each) for each in self._answer()]

    def close(self) -> None:
        stop(self._process)
