"""Two workers of Kafka Connect, captured: `python -m tests.support.kafka.connect FOLDER` writes FOLDER/connect.pcapng.

tests/analyses/groups/connect.pcapng.zst was made so, and packed with ``zstd -19``. worker-1 begins alone, and is given a
connector that reads a file of LINES lines into a topic and one that writes the topic to another file; then worker-2 comes, takes
over one of the two tasks, and is stopped by SIGTERM, after which worker-1 has both again.
"""

import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST, java
from tests.support.kafka.processes import eventually, spawn, stop, tail
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.ports import free_ports

GROUP, TOPIC, LINES = "connect-cluster", "lines", 50
CONNECTORS = {
    "file-source": {"connector.class": "FileStreamSource", "file": "in.txt", "topic": TOPIC},
    "file-sink": {"connector.class": "FileStreamSink", "file": "out.txt", "topics": TOPIC},
}
PATIENCE = 180
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """One worker; its connectors' files are in *folder*."""

    def __init__(self, folder: Path, number: int, bootstrap: str) -> None:
        self.port, self.log = free_ports(), folder / f"worker-{number}.log"
        settings = {
            "bootstrap.servers": bootstrap, "group.id": GROUP, "client.id": f"worker-{number}", "key.converter": _STRINGS,
            "value.converter": _STRINGS, "listeners": f"http://127.0.0.1:{self.port}", "plugin.discovery": "only_scan",
            "offset.storage.partitions": "1", "status.storage.partitions": "1",
            **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("offset", "config", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "config", "status")},
            "session.timeout.ms": "8000", "heartbeat.interval.ms": "1000", "scheduled.rebalance.max.delay.ms": "2000",
        }  # fmt: skip
        properties = folder / f"worker-{number}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.process = spawn(java(NEWEST, main, str(properties), connect=True), self.log, folder=folder)

    @property
    def name(self) -> str:
        """As Connect has it in the status of a task."""
        return f"127.0.0.1:{self.port}"

    def ask(self, path: str, body: object = None) -> Any:
        """A request to its REST interface, POST where there is a body; None where it does not answer so."""
        assert self.process.poll() is None, tail(self.log)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.name}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except OSError:
            return None

    def tasks_at(self) -> set[str]:
        """The workers that have the running tasks."""
        said = [self.ask(f"/connectors/{name}/status") or {"tasks": []} for name in CONNECTORS]
        return {task["worker_id"] for each in said for task in each["tasks"] if task["state"] == "RUNNING"}

    def end(self) -> None:
        """SIGTERM, and wait."""
        self.process.terminate()
        self.process.wait(PATIENCE)


def record(inside: Path, capture: Path) -> None:
    """Run it all in the folder *inside*."""
    (inside / "in.txt").write_text("".join(f"line {n}\n" for n in range(LINES)), encoding="utf-8")
    workers: list[Worker] = []
    brokers = Cluster(inside, NEWEST)
    proxy: Proxy | None = None
    try:
        brokers.start()
        brokers.topic(TOPIC)
        settings = {"capture": {"path": str(capture)}}
        proxy = Proxy(inside / "proxy", [cluster(brokers.bootstrap("PLAIN"))], analysis=settings).start().analyzing()
        for number in (1, 2):
            worker = Worker(inside, number, proxy.bootstrap(0))
            workers.append(worker)
            eventually(lambda worker=worker: worker.ask("/connectors") is not None, what="a worker", patience=PATIENCE)
            if number == 1:
                _create(worker, inside / "out.txt")
        first, second = workers
        eventually(
            lambda: first.tasks_at() == {first.name, second.name}, what="a task at each worker", patience=PATIENCE
        )
        second.end()
        eventually(lambda: first.tasks_at() == {first.name}, what="both tasks at one worker", patience=PATIENCE)
        first.end()
    finally:
        for worker in workers:
            stop(worker.process)
        if proxy is not None:
            proxy.stop(patience=60)
            proxy.close()
        brokers.close()


def _create(worker: Worker, written: Path) -> None:
    for name, config in CONNECTORS.items():
        made = {"name": name, "config": {"tasks.max": "1", **config}}
        eventually(lambda made=made: worker.ask("/connectors", made) is not None, what=f"{name}", patience=PATIENCE)

    def all_lines() -> bool:
        return written.exists() and len(written.read_text(encoding="utf-8").splitlines()) == LINES

    eventually(all_lines, what="the lines in the other file", patience=PATIENCE)


def main(folder: str) -> None:
    """Write FOLDER/connect.pcapng."""
    with tempfile.TemporaryDirectory() as inside:
        record(Path(inside), Path(folder, "connect.pcapng"))


if __name__ == "__main__":
    main(*sys.argv[1:])
