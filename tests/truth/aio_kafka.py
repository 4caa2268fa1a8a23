"""Clients of aiokafka."""

import asyncio
import ssl
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import OffsetOutOfRangeError

from tests.truth.job import Job, count_error, ended, record, seen


def produce(job: Job) -> None:
    asyncio.run(_produce(job))


async def _produce(job: Job) -> None:
    async with AIOKafkaProducer(**_aiokafka(job)) as producer:
        began = time.monotonic()
        number, rate, count = 0, job.get("rate", 5), job.get("count", 0)
        while not ended() and (not count or number < count):
            key, value = record(job, number)
            sent = await producer.send(job["topic"], value, key=key)
            sent.add_done_callback(lambda done: seen.update(["acknowledged" if done.exception() is None else "failed"]))
            number += 1
            seen["sent"] += 1
            if rate:
                await asyncio.sleep(max(0, began + number / rate - time.monotonic()))


def consume(job: Job) -> None:
    asyncio.run(_consume(job))


async def _consume(job: Job) -> None:
    words = {"group_id": job.get("group"), "auto_offset_reset": "earliest", **_aiokafka(job)}
    async with AIOKafkaConsumer(*job["topic"].split(","), **words) as consumer:
        while not ended():
            try:
                batches = await consumer.getmany(timeout_ms=200)
            except OffsetOutOfRangeError as error:
                count_error(type(error).__name__)
                await asyncio.sleep(0.3)
                continue
            for batch in batches.values():
                seen["read"] += len(batch)
                if job.get("pause"):
                    await asyncio.sleep(job["pause"] * len(batch))


def _aiokafka(job: Job) -> dict[str, Any]:
    settings = dict(job["settings"])
    if ca := settings.pop("ssl_cafile", None):
        settings["ssl_context"] = ssl.create_default_context(cafile=ca)
        settings["ssl_context"].check_hostname = False
    return {"bootstrap_servers": job["bootstrap"], "client_id": job["client_id"], **settings}


ROLES = {"produce": produce, "consume": consume}
