"""Clients of kafka-python."""

import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.truth.job import Job, count_error, ended, nap, paced, record, seen


def produce(job: Job) -> None:
    producer = KafkaProducer(**_kafka_python(job))
    for number in paced(job):
        key, value = record(job, number)
        future = producer.send(
            job["topic"], value, key=key, timestamp_ms=int((time.time() + job.get("shift", 0)) * 1000)
        )
        future.add_callback(lambda _: seen.update(["acknowledged"]))
        future.add_errback(lambda error: count_error(type(error).__name__))
        seen["sent"] += 1
    producer.flush(30)
    producer.close()


def consume(job: Job) -> None:
    words = {"group_id": job.get("group"), "auto_offset_reset": "earliest", **_kafka_python(job)}
    commit = job.get("commit", 0)
    topics = () if "assign" in job else job["topic"].split(",")
    consumer = KafkaConsumer(*topics, **words, **({"enable_auto_commit": False} if commit else {}))
    if "assign" in job:
        consumer.assign([TopicPartition(job["topic"], each) for each in job["assign"]])
    committed = 0
    while not ended():
        for place, batch in consumer.poll(200, max_records=max(commit, 0) or 500).items():
            for _record in batch:
                seen["read"] += 1
                if seen["read"] % job.get("ends", 1e9) == 0:
                    consumer.end_offsets([place])
            if job.get("pause"):
                nap(job["pause"] * len(batch))
            if commit > 0 and seen["read"] - committed >= commit:
                consumer.commit()
                seen["commits"] += 1
                committed = seen["read"]
    consumer.close()


def _kafka_python(job: Job) -> dict[str, Any]:
    settings = {key: tuple(value) if key == "api_version" else value for key, value in job["settings"].items()}
    return {"bootstrap_servers": job["bootstrap"].split(","), "client_id": job["client_id"], **settings}


ROLES = {"produce": produce, "consume": consume}
