"""Apache Kafka's own broker and tools: the jars of a release, fetched once by Maven; and tools run from them.

The tools run in one Java process a release (Tools.java), which starts at the first of them.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.kafka.processes import spawn, stop, tail

NEWEST = "4.3.1"
LAST_WITH_ZOOKEEPER = "3.9.2"
RELEASES = (NEWEST, LAST_WITH_ZOOKEEPER)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_TOOL_PATIENCE = 240  # seconds after which a tool is killed
_SOURCE = Path(__file__).with_name("Tools.java")
_PATIENCE = 900  # seconds, for a first download over a slow line
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
_ARTIFACTS = (("org.apache.kafka", "kafka_2.13", None), ("org.apache.kafka", "kafka-tools", None), _LOGGING)
_PROGRAMS = {
    "connect": ("connect-runtime", "connect-file"),
    "mirror": ("connect-mirror",),
    "streams": ("kafka-streams",),
}


def _folder() -> Path:
    """Where jars are kept: KPROXY_KAFKA_JARS, or a directory in the user's cache."""
    named = os.environ.get("KPROXY_KAFKA_JARS")
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache_home / "kproxy" / "kafka"


def missing() -> str | None:
    """Why brokers cannot be run here; None when they can."""
    if not shutil.which("java"):
        return "brokers need java"
    if not shutil.which("mvn") and not all((_folder() / release).is_dir() for release in RELEASES):
        return "Kafka's jars are fetched with Maven (mvn)"
    return None


def folder_of(name: str) -> Path:
    """Where the jars of that name are kept, whether they are there or not."""
    return _folder() / name


def fetch(kept: Path, artifacts: Sequence[tuple[str, str, str]]) -> None:
    """Have Maven put artifacts (group, name, version) and what they need into the directory *kept*."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{module}</artifactId><version>{version}</version></dependency>"
        for group, module, version in artifacts
    )
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        project = Path(name) / "pom.xml"
        project.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kproxy</groupId>'
            f"<artifactId>broker</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>\n",
            encoding="utf-8",
        )
        fetched = Path(name) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(project), COPY, f"-DoutputDirectory={fetched}"]
        subprocess.run(command, check=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL)
        for other in ("reload4j", "log4j12"):  # what old releases bring; only slf4j-simple is to write the log
            for binding in fetched.glob(f"slf4j-{other}-*.jar"):
                binding.unlink()
        try:
            fetched.rename(kept)  # whole or not at all, even if another process does the same
        except OSError:
            if not kept.is_dir():
                raise


@cache
def jars(release: str) -> Path:
    """The directory with all that `java -cp 'DIRECTORY/*'` needs of *release*; or of connect, mirror, streams of the newest."""
    if modules := _PROGRAMS.get(release):
        kept = folder_of(f"{release}-{NEWEST}")
        artifacts = [*(("org.apache.kafka", module, NEWEST) for module in modules), _LOGGING]
    else:
        kept = folder_of(release)
        artifacts = [(group, module, version or release) for group, module, version in _ARTIFACTS]
    if not kept.is_dir():
        fetch(kept, artifacts)
    return kept


def java(release: str, main: str, *words: str, heap: str = "192m", options: Sequence[str] = ()) -> list[str]:
    """The command that runs class *main* of *release*, or a source file; *options* are those of Java itself."""
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", f"-Xmx{heap}"]
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *quick, *options, logging, "-cp", f"{jars(release)}/*", main, *words]


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
        watchdog = threading.Timer(_TOOL_PATIENCE, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(b" ".join(map(_encoded, (main, *words))) + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().split()
        finally:
            watchdog.cancel()
        if len(answer) != 3:
            raise RuntimeError(
                f"{main} {words}: killed after {_TOOL_PATIENCE} s, or it ended the process: {tail(self._log)}"
            )
        status, printed, complained = answer
        return int(status), _decoded(printed), _decoded(complained)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        stop(self._process)
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
