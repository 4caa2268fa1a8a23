"""Real clients with settings that are known: what runs them, all at once, and what they measured themselves."""

import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer

from tests.interop.clients import KafkaConsumer, KafkaProducer
from tests.support.kafka.jars import java
from tests.support.kafka.processes import tail

SECONDS = 15  # of a consumer after its first record: seven heartbeats and commits every two seconds
PATIENCE = 90  # seconds until it has that
TEXT = b"a record of many that are alike, and compress"


class Client(NamedTuple):
    """One client: its library, whether it produces, and its settings, by the library's names."""

    library: str  # java, librdkafka, kafka-python
    produces: bool
    settings: Mapping[str, str | int]
    records: int = 200
    pause_ms: int = 10  # after each record


def run(
    clients: Mapping[str, Client], bootstrap: str, topic: str, release: str, folder: Path
) -> dict[str, dict[str, float]]:
    """Run all clients, by client id. Returns what those of Java measured themselves."""
    runners: dict[tuple[str, bool], Callable[[Client, dict[str, str | int], str], None]] = {
        ("librdkafka", True): _librdkafka_produces, ("librdkafka", False): _librdkafka_consumes,
        ("kafka-python", True): _kafka_python_produces, ("kafka-python", False): _kafka_python_consumes,
    }  # fmt: skip
    jobs = []
    with ThreadPoolExecutor(len(clients) + 1) as pool:
        ran = []
        for client_id, client in clients.items():
            names = {"client.id": client_id, "bootstrap.servers": bootstrap}
            if client.library == "java":
                words = (
                    f"produce {topic} {client.records} {client.pause_ms}"
                    if client.produces
                    else f"consume {topic} {SECONDS}"
                )
                jobs.append(
                    " ".join([words, *(f"{key}={value}" for key, value in {**names, **client.settings}.items())])
                )
            else:
                ran.append(
                    pool.submit(runners[client.library, client.produces], client, {**names, **client.settings}, topic)
                )
        measured = _java(jobs, release, folder) if jobs else {}
        for each in ran:
            each.result()
    return measured


def _java(jobs: list[str], release: str, folder: Path) -> dict[str, dict[str, float]]:
    log = folder / "configured.log"
    with log.open("wb") as errors:
        done = subprocess.run(
            java(release, str(Path(__file__).with_name("Configured.java"))),
            input="".join(f"{job}\n" for job in jobs).encode(), stdout=subprocess.PIPE, stderr=errors, timeout=180, check=False,
        )  # fmt: skip
    assert done.returncode == 0, tail(log)
    lines = [line.split(" ") for line in done.stdout.decode().splitlines()]
    assert len(lines) == len(jobs), tail(log)
    return {name: {key: float(value) for key, value in (each.split("=") for each in pairs)} for name, *pairs in lines}


def _librdkafka_produces(client: Client, settings: dict[str, str | int], topic: str) -> None:
    producer = Producer(settings)
    producer.produce(topic, TEXT, partition=0)
    producer.flush(60)  # what it waits for at its beginning is over
    for _ in range(client.records):
        producer.produce(topic, TEXT, partition=0)
        producer.poll(client.pause_ms / 1000)
    assert producer.flush(60) == 0


def _librdkafka_consumes(client: Client, settings: dict[str, str | int], topic: str) -> None:
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    _poll(lambda: consumer.poll(0.1) is not None)
    consumer.close()


def _kafka_python_produces(client: Client, settings: dict[str, str | int], topic: str) -> None:
    producer = KafkaProducer(**_underlined(settings))
    for _ in range(client.records):
        producer.send(topic, TEXT, partition=0)
        threading.Event().wait(client.pause_ms / 1000)
    producer.flush(60)
    producer.close()


def _kafka_python_consumes(client: Client, settings: dict[str, str | int], topic: str) -> None:
    consumer = KafkaConsumer(topic, **_underlined(settings))
    _poll(lambda: bool(consumer.poll(100)))
    consumer.close()


def _poll(poll: Callable[[], bool]) -> None:
    """Poll for SECONDS after the first time that there is something."""
    begun, end = False, time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if poll() and not begun:
            begun, end = True, time.monotonic() + SECONDS


def _underlined(settings: dict[str, str | int]) -> dict[str, str | int]:
    return {key.replace(".", "_"): value for key, value in settings.items()}
