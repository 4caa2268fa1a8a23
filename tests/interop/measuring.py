"""Java producers that push what they measure (Measuring.java), and what kproxy shows of a client."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, java
from tests.support.kafka.processes import spawn, stop, tail

COUNT = 500


def shown(entrance: Entrance, client_id: str) -> dict[str, float]:
    """Sample name -> the sum of what is shown of a client without labels of its own."""
    assert entrance.proxy is not None
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(entrance.proxy.get("/metrics")[1]):
        for sample in family.samples:
            if sample.name.startswith("kafka_client_") and sample.labels["client_id"] == client_id:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


class Measuring:
    """Java producers that say how often they have sent (Measuring.java)."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "measuring.log"
        self._process = spawn(java(NEWEST, str(Path(__file__).with_name("Measuring.java"))), self._log, piped=True)

    def produce(self, entrance: Entrance, topic: str, client_id: str, count: int) -> float:
        """Produce so many records; returns what the producer has counted. It goes on to push what it measures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{entrance.bootstrap} {topic} {client_id} {count}\n".encode())
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, tail(self._log)
        return float(answer)

    def finish(self) -> None:
        """Close the producers, which push for the last time, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self.close()

    def close(self) -> None:
        stop(self._process)
