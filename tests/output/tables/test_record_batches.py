"""Rows of record_batches: real captures against what the brokers logged; bad fields by hand."""

from kproxy.output.tables.contracts import RECORD_BATCHES
from kproxy.output.tables.record_batches import RecordsField, batch_rows
from tests.support.record_batches import golden
from tests.support.tables import query, tables_of

NAMES = [column.name for column in RECORD_BATCHES.columns][3:]


def rows_of(data: bytes, appended: int | None = None) -> list[dict[str, object]]:
    field = RecordsField("produce", "orders", None, 3, 0, appended, data)
    return [dict(zip(NAMES, row, strict=True)) for row in batch_rows(field, field.batches(), {})]


def test_codecs_are_those_that_the_producers_used() -> None:
    rows = query(
        tables_of("02-librdkafka-codecs-kip848.pcap"),
        "select codec, sum(count)::bigint from record_batches where direction = 'produce' group by all order by all",
    )
    assert rows == [("gzip", 50), ("none", 50), ("snappy", 50), ("zstd", 50)]  # captures/README.md


def test_offsets_that_the_broker_gave_are_the_ones_that_consumers_read() -> None:
    tables = tables_of("01-java-produce-consume-group.pcap")
    produced, fetched = (
        query(tables, f"select partition, {offset}, count from record_batches where direction = '{side}' order by all")
        for offset, side in (("appended_offset", "produce"), ("base_offset", "fetch"))
    )
    assert produced == fetched
    assert sum(row[2] for row in produced) == 200


def test_transactions_end_in_control_batches() -> None:
    rows = query(
        tables_of("04-transactions.pcap"),
        "select count(distinct (partition, base_offset)) from record_batches where is_control and direction = 'fetch'",
    )
    assert rows[0][0] >= 5  # 3 commits and 2 aborts


def test_headers_are_what_kafka_says_of_its_own_batches() -> None:
    compared = 0
    for line in golden():
        rows = rows_of(bytes.fromhex(line["hex"]))
        for row, batch in zip(rows, line.get("batches", ()), strict=False):
            for column, name in (("magic", "magic"), ("base_offset", "baseOffset"), ("producer_id", "producerId")):
                if name in batch and row["magic"] == 2:
                    assert row[column] == batch[name]
                    compared += 1
    assert compared > 10


def test_what_is_no_batch_has_a_row_with_its_error() -> None:
    (row,) = rows_of(b"\0" * 40)
    assert row["error"] is not None
    assert (row["size"], row["count"], row["topic"]) == (40, None, "orders")


def test_a_batch_that_is_cut_off_is_normal() -> None:
    whole = bytes.fromhex(next(line["hex"] for line in golden() if rows_of(bytes.fromhex(line["hex"]))))
    assert len(rows_of(whole + whole[:30])) == len(rows_of(whole))


def test_offsets_go_no_further_than_int64() -> None:
    two = bytes.fromhex(next(line["hex"] for line in golden() if rows_of(bytes.fromhex(line["hex"])))) * 2
    rows = rows_of(two, appended=2**63 - 1)
    assert rows[0]["appended_offset"] == 2**63 - 1
    assert rows[-1]["appended_offset"] is None
