"""The real supervisor over stand-in children: `python -m tests.support.supervised OPTIONS`, and what a test does with one."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from kproxy.config.reading import Options
from kproxy.proxy.supervisor.fleet import Modules
from kproxy.proxy.supervisor.start import main

STAND_IN = "tests.support.stand_in_worker"
LONG = 240.0  # seconds after which a test that waits has failed; the watchdog counts CPU seconds, which come slowly under load

Event = dict[str, Any]


class Supervised:
    """A running supervisor; its log is read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[Event] = []
        self.sentences: list[str] = []
        self._claimed: list[Event] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def close(self) -> None:
        """Kill it, and wait for its last word, which is that of its last child."""
        self.process.kill()
        self._reading.join(LONG)

    def until(self, event: str, **keys: Any) -> Event:
        """The first event of that name with those keys that was not asked for before."""
        for found in self._events():
            if found["event"] == event and keys.items() <= found.items() and found not in self._claimed:
                self._claimed.append(found)
                return found
        raise AssertionError(f"it ended without {event!r} {keys}: {self.seen} {self.sentences}")

    def _events(self) -> Iterator[Event]:
        yield from self.seen
        while (line := self._lines.get(timeout=LONG)) is not None:
            found = self._note(line)
            if found:
                yield found

    def _note(self, line: str) -> Event:
        if not line.startswith("{"):
            self.sentences.append(line.rstrip("\n"))
            return {}
        found: Event = json.loads(line)
        self.seen.append(found)
        return found

    def tell(self, number: signal.Signals) -> Self:
        """Send it a signal."""
        self.process.send_signal(number)
        return self

    def ended(self) -> int:
        """Wait for its end; its exit code."""
        while (line := self._lines.get(timeout=LONG)) is not None:
            self._note(line)
        return self.process.wait(LONG)

    def events(self, name: str) -> list[Event]:
        """Those of that name so far."""
        return [event for event in self.seen if event["event"] == name]


@contextmanager
def supervised(
    options: str, module: str = "tests.support.supervised", modules: Path | None = None
) -> Iterator[Supervised]:
    """A supervisor with these options, as JSON; it is killed if the test did not end it. *modules*: where filters may be."""
    words = [sys.executable, "-m", module, options]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{modules or root}"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=root, env=environment) as process:
        running = Supervised(process)
        try:
            yield running
        finally:
            running.close()


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Options), Modules(STAND_IN, STAND_IN)))
