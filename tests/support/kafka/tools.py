"""Apache Kafka's own command-line tools, run in one Java process a release (Tools.java), which starts at the first of them."""

import base64
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.kafka.jars import java
from tests.support.kafka.processes import spawn, stop, tail

_PATIENCE = 240  # seconds after which a tool is killed
_SOURCE = Path(__file__).with_name("Tools.java")


class _Tools:
    """The process of one release."""

    def __init__(self, release: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kproxy-tools-")
        self._log = Path(self._folder.name) / "tools.log"
        command = java(release, str(_SOURCE), options=["--add-opens", "java.base/java.lang=ALL-UNNAMED"])
        self._process: subprocess.Popen[bytes] = spawn(command, self._log, piped=True)

    def run(self, main: str, words: tuple[str, ...]) -> tuple[int, str, str]:
        """Status, standard output and standard error of the class *main* with *words*."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(_PATIENCE, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(b" ".join(map(_encoded, (main, *words))) + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().split()
        finally:
            watchdog.cancel()
        if len(answer) != 3:
            raise RuntimeError(
                f"{main} {words}: killed after {_PATIENCE} s, or it ended the process: {tail(self._log)}"
            )
        status, printed, complained = answer
        return int(status), _decoded(printed), _decoded(complained)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        stop(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._folder.cleanup()


def _encoded(word: str) -> bytes:
    return b"." + base64.b64encode(word.encode())


def _decoded(text: bytes) -> str:
    return base64.b64decode(text[1:]).decode(errors="replace")


_running: dict[str, _Tools] = {}


def run_tool(release: str, main: str, *words: str, expect: int | None = 0) -> str:
    """Run a tool and return what it printed. Raises AssertionError with all of it when its status is not *expect*."""
    tools = _running.get(release)
    if tools is None or not tools.running:
        if tools is not None:
            tools.close()
        tools = _running[release] = _Tools(release)
    status, printed, complained = tools.run(main, words)
    assert expect in {None, status}, f"{main} {words}: {status}\n{printed}\n{complained}"
    return printed


def close_tools() -> None:
    """End the processes."""
    while _running:
        _running.popitem()[1].close()


@contextmanager
def properties_file(properties: Mapping[str, str]) -> Iterator[str]:
    """A file of Java properties, for as long as the block lasts."""
    with tempfile.NamedTemporaryFile("w", suffix=".properties", encoding="utf-8") as file:
        file.write("".join(f"{key}={value}\n" for key, value in properties.items()))
        file.flush()
        yield file.name


def events(printed: str) -> list[dict[str, Any]]:
    """What a Verifiable... tool printed, a JSON object a line."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def config_option(release: str, before: str) -> str:
    """The option for a properties file: --command-config since 4.2 (KIP-1147), *before* it another name."""
    return "--command-config" if release >= "4.2" else before
