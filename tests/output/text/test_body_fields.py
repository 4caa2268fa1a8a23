"""The fields that lines look at exist in Kafka's messages, and what msgspec reads is what Kafka's JSON says."""

import inspect

import msgspec
import pytest

from kproxy.output.text import body_fields
from kproxy.output.text.body_fields import Partition, ProduceRequest, Topic
from kproxy.protocol import facts
from kproxy.protocol.facts import Field
from tests.support.traffic import golden_pairs

STRUCTS = [kind for _, kind in inspect.getmembers(body_fields, inspect.isclass) if issubclass(kind, msgspec.Struct)]
OF_JSON = {"recordsSizeInBytes", "unalignedRecordsSizeInBytes"}  # how Kafka's JSON shows a records field


def names_of(fields: tuple[Field, ...]) -> set[str]:
    return {field.json_name for field in fields}.union(*(names_of(field.fields) for field in fields))


ALL_NAMES = OF_JSON.union(*(names_of(x.fields) for message in facts().messages() for x in facts().layouts(message)))


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_every_name_is_one_of_kafkas(kind: type[msgspec.Struct]) -> None:
    assert set(kind.__struct_fields__) <= ALL_NAMES


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_every_field_is_optional(kind: type[msgspec.Struct]) -> None:
    assert msgspec.json.decode(b'{"fieldOfTheFuture":[1]}', type=kind) == kind()


def test_partitions_are_read_under_all_their_names() -> None:
    for asked, _ in golden_pairs():
        if asked["apiKey"] == 0:
            read = msgspec.json.decode(msgspec.json.encode(asked["json"]), type=ProduceRequest)
            sizes = [len(records) // 2 for _, records in sorted(asked.get("records", {}).items())]
            found = [p.size for topic in read.topicData for p in topic.all_partitions() if p.size]
            assert sorted(found) == sorted(size for size in sizes if size)
    assert [Partition(index=1).number, Partition(partition=2).number, Partition(partitionIndex=0).number] == [1, 2, 0]
    assert Partition().number is None


def test_a_topic_is_known_by_name_else_by_id() -> None:
    assert Topic(name="a").label({}) == "a"
    assert Topic(topicId="B" * 22).label({"B" * 22: "orders"}) == "orders"
    assert Topic(topicId="B" * 22).label({}) == "B" * 22
    assert Topic(topicId="A" * 22).label({}) == '""'
