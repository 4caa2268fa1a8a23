"""A client in a process of its own: ``python -m tests.truth.client JOB``, see job.py. It writes events, a JSON object a line."""

import importlib
import json
import signal
import sys

from tests.truth.job import count_error, end, say, seen

MODULES = {
    "librdkafka": "librdkafka",
    "kafka-python": "kafka_python",
    "aiokafka": "aio_kafka",
    "home-made": "home_made",
}


def main(text: str) -> None:
    signal.signal(signal.SIGTERM, end)
    job = json.loads(text)
    say("began")
    try:
        importlib.import_module(f"tests.truth.{MODULES[job['library']]}").ROLES[job["role"]](job)
    except Exception as error:  # the workload says what it makes of it
        count_error(f"{type(error).__name__}: {error}"[:200])
    say("ended", **seen)


if __name__ == "__main__":
    main(sys.argv[1])
