"""Clients of confluent-kafka."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.truth.job import Job, count_error, ended, nap, paced, record, say, seen

PATIENCE = 20  # seconds for an operation


def produce(job: Job) -> None:
    def delivered(error: Any, _message: Any) -> None:
        if error is None:
            seen["acknowledged"] += 1
        else:
            count_error(error.name())

    producer = Producer(_rdkafka(job))
    transacts = job["role"] == "transact"
    if transacts:
        producer.init_transactions(60)
    place = {"partition": job["partition"]} if "partition" in job else {}
    shift = job.get("shift", 0)
    batch, within = job.get("batch", 10), 0
    try:
        for number in paced(job):
            if transacts and not within:
                producer.begin_transaction()
                say("began")
            key, value = record(job, number)
            if shift:
                place["timestamp"] = int((time.time() + shift) * 1000)
            _send(producer, job["topic"], value, key=key, on_delivery=delivered, **place)
            seen["sent"] += 1
            within += 1
            producer.poll(0)
            if job.get("flush") or job.get("renew"):
                producer.flush(30)
            if job.get("renew"):
                producer = Producer(_rdkafka(job))
            if transacts and within >= batch:
                time.sleep(job.get("hold", 0))
                if job.get("abort") and number // batch % 2:
                    producer.abort_transaction(60)
                    seen["aborted"] += 1
                else:
                    producer.commit_transaction(60)
                    seen["committed"] += 1
                within = 0
        if transacts and within:
            producer.commit_transaction(60)
            seen["committed"] += 1
    except KafkaException as failure:
        count_error(failure.args[0].name())
        return
    producer.flush(30)


def _send(producer: Producer, topic: str, value: bytes, **more: Any) -> None:
    while not ended():
        try:
            producer.produce(topic, value, **more)
        except BufferError:  # its queue is full: it waits for the broker, as a program does
            producer.poll(0.1)
            continue
        except KafkaException as refused:
            count_error(refused.args[0].name())
        return


def consume(job: Job) -> None:
    commit = job.get("commit", 0)
    settings = {"group.id": job.get("group", "none"), "auto.offset.reset": "earliest", **_rdkafka(job)}
    consumer = Consumer({**settings, **({"enable.auto.commit": False} if commit else {})})

    def on(event: str) -> Any:
        return lambda _consumer, partitions: say(
            event, partitions=sorted(f"{p.topic}-{p.partition}" for p in partitions)
        )

    if "assign" in job:
        consumer.assign([TopicPartition(job["topic"], each) for each in job["assign"]])
    else:
        says = {
            f"on_{short}": on(event)
            for short, event in (("assign", "assigned"), ("revoke", "revoked"), ("lost", "lost"))
        }
        consumer.subscribe(job["topic"].split(","), **says)
    again = time.monotonic() + job.get("daily", 1e9)
    while not ended():
        message = consumer.poll(0.2)
        if time.monotonic() > again:
            for place in consumer.assignment():
                consumer.seek(TopicPartition(place.topic, place.partition, 0))
            again = time.monotonic() + job["daily"]
            seen["seeks"] += 1
            continue
        if message is None:
            continue
        if message.error():
            count_error(message.error().name())
            continue
        seen["read"] += 1
        _do_between(consumer, message, job)
        if message.offset() == job.get("poison") and seen["error poison"] < job.get("retries", 1e9):
            count_error("poison")
            consumer.seek(TopicPartition(message.topic(), message.partition(), message.offset()))
            nap(0.2)
            continue
        if job.get("pause"):
            nap(job["pause"])
        if commit > 0 and seen["read"] % commit == 0:
            try:
                consumer.commit(asynchronous=False)
                seen["commits"] += 1
            except KafkaException as failure:
                count_error(failure.args[0].name())
    consumer.close()


def _do_between(consumer: Consumer, message: Any, job: Job) -> None:
    """Ask where the partition ends; pause all partitions, and poll on."""
    if seen["read"] % job.get("ends", 1e9) == 0:
        consumer.get_watermark_offsets(TopicPartition(message.topic(), message.partition()), PATIENCE)
    if seconds := seen["read"] % 50 == 0 and job.get("rest", 0):
        consumer.pause(consumer.assignment())
        until = time.monotonic() + seconds
        while not ended() and time.monotonic() < until:
            consumer.poll(0.2)
        consumer.resume(consumer.assignment())


def admin(job: Job) -> None:
    """Do each operation of ``do``: its name is a key of OPERATIONS, its other words are arguments."""
    client = AdminClient(_rdkafka(job))
    for name, *words in job["do"]:
        if ended():
            break
        OPERATIONS[name](client, words)
        seen[name] += 1


def _results(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(PATIENCE)


OPERATIONS: dict[str, Callable[[AdminClient, list[str]], object]] = {
    "wait": lambda _, words: nap(float(words[0])),
    "list": lambda admin, _: admin.list_topics(timeout=PATIENCE),
    "configs": lambda admin, words: _results(admin.describe_configs([ConfigResource("topic", word) for word in words])),
    "groups": lambda admin, _: admin.list_consumer_groups().result(PATIENCE),
    "create": lambda admin, words: _results(admin.create_topics([NewTopic(words[0], int(words[1]))])),
    "delete": lambda admin, words: _results(admin.delete_topics(words)),
    "offsets": lambda admin, words: _results(
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(words[0])])
    ),
    "replace": lambda admin, words: _results(admin.alter_configs([_settings(*words)])),
    "purge": lambda admin, words: _results(admin.delete_records([TopicPartition(words[0], 0, int(words[1]))])),
}


def _settings(topic: str, *settings: str) -> ConfigResource:
    return ConfigResource("topic", topic, set_config=dict(word.split("=") for word in settings))


def _rdkafka(job: Job) -> dict[str, Any]:
    settings = {key.replace("_", "."): value for key, value in job["settings"].items()}
    return {"bootstrap.servers": job["bootstrap"], "client.id": job["client_id"], **settings}


ROLES = {"produce": produce, "transact": produce, "consume": consume, "admin": admin}
