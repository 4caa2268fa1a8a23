"""A member of a consumer group: `python member.py LIBRARY TOPIC KEY=VALUE ...`, with the settings' names as Java has them.

It obeys lines of standard input: "pause MILLISECONDS" stops polling for so long. SIGTERM closes it. It prints how many
partitions it has whenever that changes.
"""

import contextlib
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

CONFLUENT, KAFKA_PYTHON = "librdkafka", "kafka-python"
WAIT = 0.2


def poll_confluent(topic: str, settings: dict[str, str]) -> tuple[Callable[[], int], Callable[[], None]]:
    """What polls once and says how many partitions there are, and what closes."""
    from confluent_kafka import Consumer  # noqa: PLC0415 - a process needs one of the two

    consumer = Consumer(dict(settings))
    consumer.subscribe([topic])

    def poll() -> int:
        consumer.poll(WAIT)
        return len(consumer.assignment())

    return poll, consumer.close


def poll_kafka_python(topic: str, settings: dict[str, str]) -> tuple[Callable[[], int], Callable[[], None]]:
    """As poll_confluent."""
    from kafka import KafkaConsumer  # noqa: PLC0415 - likewise

    words: dict[str, object] = {key.replace(".", "_"): value for key, value in settings.items()}
    words["bootstrap_servers"] = settings["bootstrap.servers"].split(",")
    for key, value in words.items():
        if isinstance(value, str) and value.isdigit():
            words[key] = int(value)
    consumer = KafkaConsumer(topic, **words)

    def poll() -> int:
        consumer.poll(int(WAIT * 1000))
        return len(consumer.assignment())

    return poll, consumer.close


def main(library: str, topic: str, *pairs: str) -> None:
    """Poll until SIGTERM."""
    settings = dict(pair.split("=", 1) for pair in pairs)
    ends = threading.Event()
    pauses: queue.SimpleQueue[float] = queue.SimpleQueue()

    def end(_number: int, _frame: FrameType | None) -> None:
        ends.set()

    def read() -> None:
        for line in sys.stdin:
            pauses.put(float(line.split()[1]) / 1000)

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=read, daemon=True).start()
    poll, close = (poll_confluent if library == CONFLUENT else poll_kafka_python)(topic, settings)
    shown = 0
    while not ends.is_set():
        count = poll()
        if count != shown:
            print(count, flush=True)
            shown = count
        with contextlib.suppress(queue.Empty):
            time.sleep(pauses.get_nowait())
    close()


if __name__ == "__main__":
    main(*sys.argv[1:])
