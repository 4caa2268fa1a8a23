"""Schemas from the journal of Apicurio Registry 3, whose records name no ids: they are the ids that the registry gives."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from kproxy.output.tables.records import record_columns
from kproxy.output.tables.rows import RecordsField
from kproxy.protocol.embedded.records_field import open_records
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.schemas.journal import JOURNAL_TOPIC
from kproxy.schemas.store import Schemas
from kproxy.schemas.viewer import make_viewers
from tests.schemas.test_registry import RELEASES, running
from tests.support.kafka.brokers import Cluster

MONEY = json.dumps({"type": "record", "name": "Money", "fields": [{"name": "units", "type": "long"}]})
BILL = json.dumps({"type": "record", "name": "Bill", "fields": [{"name": "total", "type": "Money"}]})


def row(kind: str, **fields: Any) -> Record:
    key = {"uuid": "u", "messageType": kind, "partitionKey": "__GLOBAL_PARTITION__"}
    value = json.dumps(fields).encode() if fields else None
    return Record(key=json.dumps(key).encode(), value=value, headers=[("mt", kind.encode())])


def artifact(name: str, content: str, **fields: Any) -> Record:
    known = {"artifactId": name, "artifactType": "AVRO", "content": content, "references": [], "dryRun": False}
    return row("CreateArtifact11Message", **{**known, **fields})


NEEDED = [{"artifactId": "money", "version": "1", "name": "Money"}]
JOURNAL = [
    row("Bootstrap"),
    artifact("money", MONEY),
    row("CreateGroup1Message", groupId="g"),
    artifact("returns", MONEY),
    artifact("bills", BILL, references=NEEDED),
]


def learnt(records: list[Record], viewers_of: str, epoch: int = 0, base: int = 0) -> dict[Any, Any]:
    """The schemas that were seen, by id; of rows or of JSON."""
    batch = RecordBatch(records, base_offset=base, partition_leader_epoch=epoch)
    for at, record in enumerate(records):
        record.offset = base + at
    data, schemas = write_batches([batch]), Schemas()
    viewers = make_viewers(schemas)
    if viewers_of == "json":
        open_records(data, JOURNAL_TOPIC, 0, viewers=viewers)
    else:
        field = RecordsField("produce" if epoch < 0 else "fetch", JOURNAL_TOPIC, None, 0, 0, None, data)
        record_columns("c", "b:9092", 1, field, field.batches(), viewers)
    return schemas.seen.ids


@pytest.mark.parametrize("viewers_of", ["json", "rows"])
def test_ids_are_counted_from_the_first_record_on(viewers_of: str) -> None:
    seen = learnt(JOURNAL, viewers_of)
    assert {key: one.text for key, one in seen.items()} == {1: MONEY, 3: BILL}
    assert seen[1].subjects == ("money", "returns")
    assert not learnt(JOURNAL, viewers_of, epoch=-1)  # a Produce request says no offsets
    assert not learnt(JOURNAL, viewers_of, base=7)
    assert not learnt([row("ImportContent7Message", contentId=9), *JOURNAL], viewers_of)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether contents or artifacts are many: after so many nothing more gets an id."""
    monkeypatch.setattr("kproxy.schemas.journal.MOST_CONTENTS", 3)
    for name in ("Money", "Money%d"):
        records = [artifact(f"a{each}", MONEY.replace("Money", name.replace("%d", str(each)))) for each in range(9)]
        seen = learnt(records, "json").values()
        names = {subject for schema in seen for subject in schema.subjects or (schema.subject,)}
        assert names == {"a0", "a1", "a2"}


@pytest.mark.slow
def test_the_ids_are_those_of_the_registry(three: Cluster, tmp_path: Path) -> None:
    words = ["-Dapicurio.storage.kind=kafkasql", f"-Dapicurio.kafkasql.bootstrap.servers={three.open}"]
    with running(RELEASES[1], tmp_path / "log", *words) as url, SchemaRegistryClient({"url": url}) as registry:
        expected = {registry.register_schema(name, Schema(MONEY, "AVRO")): MONEY for name in ("money", "returns")}
        references = [SchemaReference("Money", "money", 1)]
        expected[registry.register_schema("bills", Schema(BILL, "AVRO", references))] = BILL
        for refused in ("{", BILL):  # no schema; a reference is missing
            with pytest.raises(SchemaRegistryError):
                registry.register_schema("refused", Schema(refused, "AVRO"))
        wider = MONEY.replace('"long"', '["null", "long"]')
        expected[registry.register_schema("money", Schema(wider, "AVRO"))] = wider
    records = []
    consumer = Consumer({"bootstrap.servers": three.open, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(JOURNAL_TOPIC, 0, 0)])
    _, end = consumer.get_watermark_offsets(TopicPartition(JOURNAL_TOPIC, 0))
    while len(records) < end:
        for message in consumer.consume(100, 1.0):
            assert message.offset() == len(records)
            records.append(Record(key=message.key(), value=message.value()))
    consumer.close()
    assert {key: one.text for key, one in learnt(records, "json").items()} == expected
