"""Records fields: Kafka's own batches, the corpus of damaged ones, control records and chunks of snapshots."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.embedded import Viewers
from kproxy.protocol.embedded.payload import to_json
from kproxy.protocol.embedded.records_field import MOST_BATCHES, open_records
from tests.support.corpus import golden_lines, payloads

LINES = golden_lines("records")
SAME = (
    "baseOffset",
    "lastOffset",
    "sizeInBytes",
    "magic",
    "crcValid",
    "compression",
    "timestampType",
    "count",
    "maxTimestamp",
)
SAME += (
    "partitionLeaderEpoch",
    "isTransactional",
    "isControl",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "deleteHorizonMs",
)


def opened(line: dict[str, Any], **options: Any) -> dict[str, Any]:
    result = json.loads(to_json(open_records(bytes.fromhex(line["hex"]), "orders", 3, **options)))
    assert isinstance(result, dict)
    return result


def test_batch_headers_are_what_kafka_says() -> None:
    for line in LINES:
        shown = opened(line)
        assert len(shown["batches"]) == len(line["batches"])
        for ours, theirs in zip(shown["batches"], line["batches"], strict=True):
            wrapper = theirs["magic"] < 2 and theirs["compression"] != "none"
            names = [
                name for name in SAME if name in ours and name in theirs and not (wrapper and name == "baseOffset")
            ]
            assert len(names) >= 6
            if theirs["crcValid"]:
                assert [ours[name] for name in names] == [theirs[name] for name in names], line["kind"]


def test_records_are_counted_in_whole_batches() -> None:
    counted = 0
    for line in LINES:
        if line["valid"]:
            assert opened(line)["count"] == sum(len(batch["records"]) for batch in line["batches"]), line["kind"]
            counted += 1
    assert counted == 251


def test_control_records_are_opened_in_any_topic() -> None:
    """Hostile input 17 is among the corpus: a control batch may hold more than one marker."""
    kinds = set()
    for line in LINES:
        if line["valid"] and any(batch.get("isControl") for batch in line["batches"]):
            theirs = [r["control"] for batch in line["batches"] if batch.get("isControl") for r in batch["records"]]
            ours = [record["control"] for record in opened(line)["records"]]
            assert [(c["version"], c["typeId"], c["type"]) for c in ours] == [
                (c["version"], c["typeId"], c["type"]) for c in theirs
            ]
            assert [c["value"] for c in ours] == [c.get("value") for c in theirs]
            kinds |= {c["typeId"] for c in theirs}
    assert kinds >= {0, 1, 2, 3, 4, 5, 6}


def test_records_are_shown_on_demand() -> None:
    for line in LINES:
        if line["valid"]:
            theirs = [r for batch in line["batches"] if not batch.get("isControl") for r in batch["records"]]
            rows = [r for r in opened(line, viewers=Viewers()).get("records", []) if "control" not in r]
            assert [(r["offset"], r["timestamp"]) for r in rows] == [(r["offset"], r["timestamp"]) for r in theirs]
            for ours, record in zip(rows, theirs, strict=True):
                assert (ours["value"] or {}).get("size", -1) == (
                    -1 if record["valueHex"] is None else len(record["valueHex"]) // 2
                )
                assert [h["key"] for h in ours["headers"]] == [h["key"] for h in record["headers"]]


@pytest.mark.parametrize("kind", ["truncated", "malformed", "bad"])
def test_damage_is_told_and_what_is_whole_is_shown(kind: str) -> None:
    """Hostile input 15: wrong checksums, cut batches."""
    for line in LINES:
        if line["kind"].startswith(kind):
            shown = opened(line, viewers=Viewers())
            assert shown.get("trailingBytes", 0) == len(line["hex"]) // 2 - line["wholeBytes"]
            assert ("error" in shown) == ("error" in line)
            for ours, theirs in zip(shown["batches"], line["batches"], strict=True):
                assert ours["crcValid"] == theirs["crcValid"]


def test_headers_are_not_shown_without_end() -> None:
    """Hostile input 4: a megabyte of smallest messages."""
    message = bytes(8) + (14).to_bytes(4, "big") + bytes(6) + b"\xff" * 8
    shown = open_records(message * (MOST_BATCHES + 5), "orders", 0)
    assert (shown["count"], len(shown["batches"]), shown["batchesLeftOut"]) == (MOST_BATCHES + 5, MOST_BATCHES, 5)


def test_a_chunk_of_a_snapshot_may_begin_inside_a_batch() -> None:
    whole = next(line for line in payloads("internal-topic-batch") if line["topic"] == "__cluster_metadata")
    data = bytes.fromhex(whole["hex"])
    chunk = data[70:] + data + data[:50]
    shown = open_records(chunk, "__cluster_metadata", 0, unaligned=True)
    assert (shown["skippedStart"], shown["count"], shown["trailingBytes"]) == (len(data) - 70, len(whole["json"]), 50)
    assert json.loads(to_json(shown["records"][0]))["value"] == whole["json"][0]["value"]


@given(
    data=st.binary(max_size=150),
    topic=st.sampled_from(["orders", "__consumer_offsets", "__cluster_metadata", None]),
    cut=st.integers(0, 300),
)
def test_any_bytes_give_a_result(data: bytes, topic: str | None, cut: int) -> None:
    batch = bytes.fromhex(payloads("internal-topic-batch")[0]["hex"])
    for field in (data, batch[:cut] + data, batch[:61] + data):
        for unaligned in (False, True):
            json.loads(to_json(open_records(field, topic, 0, unaligned=unaligned, viewers=Viewers())))
