"""An application beside a sidecar: `python -m tests.deploy.application BOOTSTRAP TOPIC`.

It produces with an idempotent producer until SIGTERM; then, as an application that ends in order does, REST records more, and
waits for all. It prints "running" after the first acknowledgement, and as JSON how many records were acknowledged and failed.
"""

import json
import signal
import sys
import threading

from confluent_kafka import KafkaError, Message, Producer

REST, PACE_S, PATIENCE_S = 200, 0.002, 60


def main(bootstrap: str, topic: str) -> None:
    """See above."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
    acknowledged, failed = 0, 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged, failed
        acknowledged += error is None
        failed += error is not None
        if acknowledged == 1:
            print("running", flush=True)

    rest = REST
    while rest:
        rest -= over.is_set()
        producer.produce(topic, b"x" * 100, on_delivery=delivered)
        producer.poll(PACE_S)
    left = producer.flush(PATIENCE_S)
    print(json.dumps({"acknowledged": acknowledged, "failed": failed + left}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
