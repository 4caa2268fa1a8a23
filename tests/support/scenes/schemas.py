"""Scenes of records and their schemas."""

from typing import Any

from tests.support.scenes.rows import Rows
from tests.support.scenes.scene import scene

GOOD: dict[str, Any] = {
    "value": b"\0\0\0\0\7x",
    "value_schema_id": "7",
    "value_subject": "orders-value",
    "value_fits": True,
}
BAD = {**GOOD, "value_fits": False, "value_problem": "2 bytes after the value"}
UNKNOWN = {"value": b"\0\0\0\0\x09x", "value_schema_id": "9", "value_problem": "no schema with this id is known"}
PLAIN: dict[str, Any] = {"value": b"plain"}


def written(tables: Rows, values: list[dict[str, Any]], client_id: str = "shop", first: int = 0) -> None:
    """A record a second, each in a request of its own."""
    producer = tables.client(client_id, "10.0.0.3")
    for at, columns in enumerate(values):
        exchange = producer.produce(at, "orders", appended_offset=first + at)
        producer.record(exchange, "orders", None, **columns)


def read(tables: Rows, columns: dict[str, Any], *times: int, offset: int, behind: int | None = None) -> Any:
    """A consumer that receives one record at these times, and perhaps commits an offset behind it."""
    consumer = tables.client("billing", "10.0.0.7")
    for at in times:
        exchange = consumer.fetch(at, "orders", offset, end=50, count=1)
        consumer.record(exchange, "orders", None, direction="fetch", partition_offset=offset, **columns)
    if behind is not None:
        consumer.commit(times[-1] + 1, "billing", "orders", behind)
    return consumer


@scene(
    "poison_records", client_id="shop", writer="shop", topic="orders", partition=0, partition_offset=12, part="value",
    schema_id="7", subject="orders-value", problem="2 bytes after the value", consumers=1, consumer="billing", records=2,
    severity="critical",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """It is received again and again. Its schema is not known in the healthy scene, which is no fault of the record."""
    written(tables, [GOOD] * 12 + [BAD if bad else UNKNOWN] * 2)
    read(tables, BAD if bad else UNKNOWN, 15, 16, 17, offset=12)


@scene("poison_records", consumers=0, consumer=None, severity="notice", writer="shop", partition_offset=12)
def _(tables: Rows, bad: bool) -> None:
    """The consumer skips it. In the healthy scene it can be read."""
    written(tables, [GOOD] * 12 + [BAD if bad else GOOD] * 2)
    read(tables, BAD if bad else GOOD, 15, 16, offset=12, behind=13)


@scene(
    "poison_records", writer="script", schema_id=None, consumers=1, partition_offset=30, severity="critical",
    problem="it names no schema, unlike the other records of the topic",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """A script writes text without a schema, and the consumer only sends heartbeats then. Many do so in the healthy scene."""
    written(tables, [GOOD] * 20 + ([] if bad else [PLAIN] * 5))
    written(tables, [PLAIN], "script", first=30)
    consumer = read(tables, PLAIN, 22, offset=30)
    consumer.group(40, "heartbeat", "billing")


@scene("poison_records", consumers=0, consumer=None, severity="notice", partition_offset=12)
def _(tables: Rows, bad: bool) -> None:
    """The consumer commits each half minute: whether it handled the record is not known. In the healthy scene it can be read."""
    written(tables, [GOOD] * 12 + [BAD if bad else GOOD])
    consumer = read(tables, BAD if bad else GOOD, 45, offset=12)
    for at in (10, 40):
        consumer.commit(at, "billing", "orders", at // 5)
    consumer.fetch(60, "orders", 13, end=50)


@scene("poison_records", consumers=1, consumer="billing", severity="critical", partition_offset=12)
def _(tables: Rows, bad: bool) -> None:
    """It had nothing to commit for a night; then it stands before the record. In the healthy scene it can be read."""
    written(tables, [GOOD] * 12 + [BAD if bad else GOOD])
    consumer = read(tables, BAD if bad else GOOD, 28_000, offset=12)
    for at, offset in ((10, 11), (27_999, 12)):
        consumer.commit(at, "billing", "orders", offset)
    consumer.group(28_100, "heartbeat", "billing")


@scene("poison_records", writer=None, client_id="billing", consumers=0, severity="notice", partition_offset=12)
def _(tables: Rows, bad: bool) -> None:
    """It was written before the capture, and the capture ends: whether the consumer goes on is not known."""
    read(tables, {**BAD, "value_subject": "orders-value" if bad else "payments-value"}, 3, offset=12)
