"""Rows of a capture as Arrow batches; what its README and manifest count."""

from collections import Counter
from pathlib import Path
from typing import Any

from kproxy.output.tables import Table
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.table_output import TableOutput

CAPTURE = Path("captures/01-java-produce-consume-group.pcap")  # 23 requests, 5 connections, 200 records twice


def rows_of(*, records: bool, error: BaseException | None = None) -> Counter[str]:
    rows: Counter[str] = Counter()

    def write(table: Table, batch: Any) -> None:
        rows[table.name] += batch.num_rows

    output = TableOutput(write, records=records)
    run = Run(Options(), [output])
    with open_input(CAPTURE) as source:
        for _ in run.read(source):
            pass
    output.close(error)
    return rows


def test_rows_of_each_table() -> None:
    rows = rows_of(records=True)
    assert (rows["connections"], rows["exchanges"], rows["records"]) == (5, 23, 400)
    assert not rows_of(records=False)["records"]


def test_after_an_error_what_is_held_is_not_written() -> None:
    assert not rows_of(records=False, error=OSError())
