"""Kafka's own clients, in one Java process (FaultClient.java)."""

import re
import subprocess
import tempfile
from pathlib import Path

from tests.support.fault_clients import PATIENCE_S, WORK, Seen, names
from tests.support.kafka import jars
from tests.support.kafka.processes import spawn, stop, tail

SOURCE = Path(__file__).with_name("FaultClient.java")
RECEIVED = re.compile(r"Received ([A-Z_]+) response from node .*?: (\w+Data\(.*)")
CODE = re.compile(r"errorCode=(-?\d+)")
LOGGING = [
    f"-Dorg.slf4j.simpleLogger.{option}"
    for option in ("log.org.apache.kafka.clients.NetworkClient=debug", "logFile=System.out", "showThreadName=false")
]


class JavaClient:
    """The producer and the consumer (classic protocol) of kafka-clients."""

    name = "java"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kproxy-java-")
        self._log = Path(self._folder.name) / "java.log"
        command = jars.java(jars.NEWEST, str(SOURCE), options=LOGGING)
        self._process: subprocess.Popen[bytes] = spawn(command, self._log, piped=True)
        self.lines: list[str] = []  # of the last program

    def run(self, api: str, bootstrap: str, topic: str, client_id: str, settings: dict[str, str]) -> Seen:
        pairs = [f"{key}={value}" for key, value in settings.items()]
        self._send(" ".join([WORK[api], bootstrap, topic, client_id, str(PATIENCE_S), *pairs]))
        constant = re.sub(r"(?<=.)(?=[A-Z])", "_", api).upper()
        responses, said = [], []
        for line in self.lines:
            if line.startswith("SAID "):
                word = line.split()[1]
                said.append(None if word == "NONE" else word)
            found = RECEIVED.search(line)
            if found and found[1] == constant:
                errors = names([int(code) for code in CODE.findall(found[2])])
                if api != "Metadata" or errors or f"name='{topic}'" in found[2]:
                    responses.append(errors)
        return Seen(responses, said)

    def _send(self, command: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        self.lines = []
        for line in iter(self._process.stdout.readline, b""):
            self.lines.append(line.decode(errors="replace").rstrip("\n"))
            if self.lines[-1] == "END":
                return
        raise RuntimeError(f"{command}: the process ended: {tail(self._log)}")

    def close(self) -> None:
        stop(self._process)
        self._folder.cleanup()
