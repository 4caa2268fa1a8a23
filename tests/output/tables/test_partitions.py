"""Rows of partition_states and share_deliveries."""

from typing import Any

import pyarrow

from kproxy.output.tables import Table, Tables
from kproxy.output.tables.partitions import MOST_PARTITIONS
from kproxy.session import Exchange
from tests.support.tables import exchange_of, query, tables_of

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def rows_of(table: str, *exchanges: Exchange) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def write(written: Table, rows: pyarrow.RecordBatch) -> None:
        found.extend(rows.to_pylist() if written.name == table else [])

    tables = Tables(write)
    for exchange in exchanges:
        tables.add(exchange, "made.pcap")
    tables.flush()
    return found


def metadata(*partitions: Any, version: int = 12, throttled: int = 0) -> Exchange:
    topic = {"name": "orders", "partitions": list(partitions)}
    return exchange_of("Metadata", version, {"topics": None}, {"topics": [topic], "throttle_time_ms": throttled})


def at(number: int, leader: int, in_sync: list[int], error: int = 0) -> Any:
    fields = {"partition_index": number, "leader_id": leader, "replica_nodes": [1, 2], "isr_nodes": in_sync}
    return {**fields, "leader_epoch": 7, "error_code": error}


def test_a_state_has_a_row_when_it_differs_from_the_one_before() -> None:
    whole, one_less = (at(0, 1, [1, 2]), at(1, 2, [1, 2])), (at(0, 1, [1]), at(1, 2, [1, 2]))
    leader = {"leader_id": 2, "leader_epoch": 8}
    partition = {"partition_index": 0, "error_code": 6, "current_leader": leader}
    topic = {"topic": "orders", "partitions": [partition]}
    refused = exchange_of("Fetch", 12, {}, {"responses": [topic]})
    rows = rows_of("partition_states", metadata(*whole), metadata(*whole, throttled=1), metadata(*one_less), refused)
    said = [
        (row["exchange"], row["partition"], row["leader_id"], row["leader_epoch"], row["in_sync_replicas"])
        for row in rows
    ]
    assert said == [(1, 0, 1, 7, [1, 2]), (1, 1, 2, 7, [1, 2]), (3, 0, 1, 7, [1]), (4, 0, 2, 8, None)]
    assert [row["replicas"] for row in rows] == [[1, 2], [1, 2], [1, 2], None]


def test_early_versions_have_no_epoch_and_no_leader_is_null() -> None:
    (row,) = rows_of("partition_states", metadata(at(3, -1, [], error=5), version=1))
    assert (row["topic"], row["partition"], row["error_code"]) == ("orders", 3, 5)
    assert (row["leader_id"], row["leader_epoch"], row["offline_replicas"], row["in_sync_replicas"]) == (
        None,
        None,
        None,
        [],
    )


def test_a_connection_remembers_only_so_many_partitions() -> None:
    many = [at(number, 1, [1, 2]) for number in range(MOST_PARTITIONS + 10)]
    again = [*many, at(-1, 1, [1])]
    rows = rows_of("partition_states", metadata(*many), metadata(*again))
    assert len(many) < len(rows) <= len(many) + len(again)


def test_deliveries_are_what_members_counted_themselves() -> None:
    tables = tables_of("truth/share-releases.pcapng.gz")
    counted = "sum(last_offset - first_offset + 1)::int"
    read = query(
        tables, f"select group_id, {counted} from share_deliveries where event = 'acquired' group by all order by 1"
    )
    assert read == [("billing", 421), ("calm", 305)]  # share-releases.json has the numbers that they reported
    most = query(
        tables,
        f"select max(delivery_count), {counted} from share_deliveries where event in ('acquired', 'release') "
        "group by event order by event",
    )
    assert most == [(5, 726), (None, 151)]  # group.share.delivery.count.limit of the broker


def test_an_answer_for_several_records_is_one_row_for_each_run() -> None:
    few = {"first_offset": 10, "last_offset": 14, "acknowledge_types": [1, 1, 2, 2, 3]}
    many = {"first_offset": 20, "last_offset": 29, "acknowledge_types": [1]}
    of_it = {"partition_index": 4, "acknowledgement_batches": [few, many]}
    topic = {"topic_id": TOPIC_ID, "partitions": [of_it]}
    request = {"group_id": "billing", "member_id": "m", "topics": [topic]}
    refused = {"partition_index": 4, "error_code": 121}
    topic = {"topic_id": TOPIC_ID, "partitions": [refused]}
    rows = rows_of("share_deliveries", exchange_of("ShareAcknowledge", 1, request, {"responses": [topic]}))
    said = [(row["event"], row["first_offset"], row["last_offset"], row["error_code"]) for row in rows]
    assert said == [("accept", 10, 11, 121), ("release", 12, 13, 121), ("reject", 14, 14, 121), ("accept", 20, 29, 121)]
    assert {(row["group_id"], row["member_id"], row["topic_id"], row["partition"]) for row in rows} == {
        ("billing", "m", TOPIC_ID, 4)
    }
