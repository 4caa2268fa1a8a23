"""Four clients that people use, each told to produce and consume in its own words."""

import asyncio
import base64
import json
import subprocess
import time
import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import aiokafka.abc
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import config_option, events, properties_file
from tests.support.kafka.processes import eventually
from tests.support.sockets import end_offsets
from tests.truth.lab import go_client

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it reads its own schemas with
    import kafka.net.sasl.oauth
    from kafka import KafkaConsumer, KafkaProducer

PATIENCE = 60  # seconds until a client that gets nothing gives up


def consumed(cluster: Cluster, topic: str, **settings: Any) -> list[tuple[str, int, bytes | None, bytes | None]]:
    """All that librdkafka reads of a topic, to the end of each partition."""
    ends = end_offsets(cluster.open, topic)
    consumer = Consumer(
        {"bootstrap.servers": cluster.open, "group.id": "reader", "enable.partition.eof": True, **settings}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    found, ended = [], set()
    try:
        while len(ended) < len(ends):
            record = consumer.poll(PATIENCE)
            assert record is not None, f"nothing for {PATIENCE} s"
            if record.error() is not None:
                ended.add(record.partition())
            else:
                found.append((topic, record.partition(), record.key(), record.value()))
    finally:
        consumer.close()
    return found


class Client(Protocol):
    """Produces and consumes whole lists; every method works alone, from connecting to closing."""

    name: str

    def produce(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> int:
        """Produce the values "0", "1", ... with acks=all; returns how many were acknowledged."""
        ...

    def consume(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> list[bytes]:
        """The first *count* values of *topic*, read as a group of its own."""
        ...


def values(count: int) -> list[bytes]:
    """What VerifiableProducer writes, and so all write."""
    return [str(number).encode() for number in range(count)]


class Java:
    """VerifiableProducer and VerifiableConsumer, of the broker's release; settings are the clients' own."""

    name = "java"

    def produce(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> int:
        properties = {**entrance.security.java(), "delivery.timeout.ms": "60000", **_dotted(settings)}
        with properties_file(properties) as file:
            config = f"{config_option(entrance.release, '--producer.config')} {file}"
            printed = entrance.tool("VerifiableProducer", f"--topic {topic} --max-messages {count} --acks -1 {config}")
        summary = next(each for each in events(printed) if each["name"] == "tool_data")
        return int(summary["acked"])

    def consume(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> list[bytes]:
        group = settings.pop("group_id", f"java-{topic}")
        protocol = settings.pop("group_protocol", "classic")
        with properties_file({**entrance.security.java(), **_dotted(settings)}) as file:
            read = f"--topic {topic} --max-messages {count} --group-id {group} --group-protocol {protocol}"
            config = f"{config_option(entrance.release, '--consumer.config')} {file}"
            printed = entrance.tool("VerifiableConsumer", f"{read} --verbose --reset-policy earliest {config}")
        return [str(each["value"]).encode() for each in events(printed) if each["name"] == "record_data"]


class Librdkafka:
    """confluent-kafka."""

    name = "librdkafka"

    def produce(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> int:
        acknowledged: list[bytes | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acknowledged.append(message.value())

        properties = {"bootstrap.servers": entrance.bootstrap, "acks": "all", **entrance.security.librdkafka()}
        producer = Producer({**properties, "message.timeout.ms": PATIENCE * 1000, **_dotted(settings)})
        for value in values(count):
            producer.produce(topic, value, on_delivery=delivered)
            producer.poll(0)
        producer.flush(PATIENCE)
        return len(acknowledged)

    def consume(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> list[bytes]:
        properties = {
            "bootstrap.servers": entrance.bootstrap,
            "group.id": f"librdkafka-{topic}",
            "auto.offset.reset": "earliest",
            **entrance.security.librdkafka(),
            **_dotted(settings),
        }
        consumer = Consumer(properties)
        consumer.subscribe([topic])
        got: list[bytes] = []
        end = time.monotonic() + PATIENCE
        try:
            while len(got) < count and time.monotonic() < end:
                for message in consumer.consume(min(500, count - len(got)), timeout=1.0):
                    assert message.error() is None, message.error()
                    got.append(message.value() or b"")
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return got


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def produce(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> int:
        codec = settings.pop("compression_type", None)
        words = {"bootstrap_servers": entrance.bootstrap.split(","), "acks": "all", **self._words(entrance)}
        producer = KafkaProducer(**words, compression_type=None if codec == "none" else codec, **settings)
        try:
            sent = [producer.send(topic, value) for value in values(count)]
            producer.flush(PATIENCE)
            return sum(1 for each in sent if each.succeeded())
        finally:
            producer.close()

    def consume(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> list[bytes]:
        words = {"group_id": f"kafka-python-{topic}", "auto_offset_reset": "earliest", **self._words(entrance)}
        consumer = KafkaConsumer(topic, bootstrap_servers=entrance.bootstrap.split(","), **{**words, **settings})
        got: list[bytes] = []
        end = time.monotonic() + PATIENCE
        try:
            while len(got) < count and time.monotonic() < end:
                for records in consumer.poll(1000, max_records=count - len(got)).values():
                    got += [record.value for record in records]
            consumer.commit()
        finally:
            consumer.close()
        return got

    def _words(self, entrance: Entrance) -> dict[str, Any]:
        words = entrance.security.kafka_python()
        if entrance.security.mechanism == "OAUTHBEARER":
            words["sasl_oauth_token_provider"] = KafkaPythonTokens()
        return words


def unsecured_token(subject: str = "alice") -> str:
    """An unsecured JSON web token as KIP-255 has it."""

    def part(claims: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now, 'exp': now + 3600})}."


class KafkaPythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    """For kafka-python."""

    def token(self) -> str:
        return unsecured_token()


class Aiokafka:
    """aiokafka."""

    name = "aiokafka"

    def produce(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> int:
        return asyncio.run(self._produce(entrance, topic, count, settings))

    async def _produce(self, entrance: Entrance, topic: str, count: int, settings: dict[str, Any]) -> int:
        codec = settings.pop("compression_type", None)
        words = {"bootstrap_servers": entrance.bootstrap, "acks": "all", **self._words(entrance), **settings}
        async with AIOKafkaProducer(**words, compression_type=None if codec == "none" else codec) as producer:
            sent = [await producer.send(topic, value) for value in values(count)]
            return sum(1 for each in await asyncio.gather(*sent) if each is not None)

    def consume(self, entrance: Entrance, topic: str, count: int, **settings: Any) -> list[bytes]:
        return asyncio.run(self._consume(entrance, topic, count, settings))

    async def _consume(self, entrance: Entrance, topic: str, count: int, settings: dict[str, Any]) -> list[bytes]:
        words = {"group_id": f"aiokafka-{topic}", "auto_offset_reset": "earliest", **self._words(entrance), **settings}
        got: list[bytes] = []
        async with AIOKafkaConsumer(topic, bootstrap_servers=entrance.bootstrap, **words) as consumer:
            async with asyncio.timeout(PATIENCE):
                while len(got) < count:
                    found = await consumer.getmany(timeout_ms=1000, max_records=count - len(got))
                    got += [record.value for records in found.values() for record in records]
            await consumer.commit()
        return got

    def _words(self, entrance: Entrance) -> dict[str, Any]:
        words = entrance.security.aiokafka()
        if entrance.security.mechanism == "OAUTHBEARER":
            words["sasl_oauth_token_provider"] = AiokafkaTokens()
        return words


class AiokafkaTokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    """For aiokafka."""

    async def token(self) -> str:
        return unsecured_token()


class Go:
    """The program of tests/truth/go, with the library of that name. It only produces."""

    def __init__(self, name: str) -> None:
        self.name = name

    def produce(self, entrance: Entrance, topic: str, count: int, **_: Any) -> int:
        """Produce until the topic has *count* records; returns how many were sent, each of which was acknowledged."""
        words = {"library": self.name, "role": "produce", "bootstrap": entrance.bootstrap, "topic": topic}
        words |= {"rate": "100", **entrance.security.go()}
        command = [str(go_client()), *(f"{name}={value}" for name, value in words.items())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                eventually(lambda: end_offsets(entrance.cluster.open, topic)[0] >= count, what=f"{self.name} produces")
            finally:
                process.terminate()
                said = [json.loads(line) for line in process.communicate()[0].splitlines()]
        assert said[-1]["event"] == "ended" and said[-1]["failed"] == 0
        return int(said[-1]["sent"])


def _dotted(settings: dict[str, Any]) -> dict[str, str]:
    """compression_type="gzip" as compression.type=gzip."""
    return {key.replace("_", "."): str(value) for key, value in settings.items()}


CLIENTS: Sequence[Client] = (Java(), Librdkafka(), KafkaPython(), Aiokafka())
