"""LiveRows: the rows of exchanges are those that a capture's tables have, and what is told of connections that are open."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from kproxy.output.tables import TABLES
from kproxy.output.tables.columns import ROWS
from kproxy.page.live.rows import LiveRows, schemas
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.output import Observer
from kproxy.pipeline.run import Run
from kproxy.pipeline.table_output import TableOutput
from kproxy.session import Event, Exchange
from tests.page.feeding import ORDERS


class Kept(Observer):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event, *_: Any, **__: Any) -> None:
        self.events.append(event)


def read(capture: Path) -> tuple[list[Event], dict[str, list[dict[str, Any]]]]:
    """The events of a capture, and the rows that they are in its tables."""
    rows: dict[str, list[dict[str, Any]]] = {}
    kept, tables = Kept(), TableOutput(lambda table, batch: rows.setdefault(table.name, []).extend(batch.to_pylist()))
    with Run(outputs=[kept, tables]) as run, open_input(capture) as source:
        for _ in run.read(source):
            pass
    return kept.events, rows


def test_rows_that_are_written_as_they_become_many_are_all_there() -> None:
    """Beyond ROWS rows the tables write some by themselves."""
    events, _ = read(ORDERS)
    exchange = next(event for event in events if isinstance(event, Exchange) and event.api_name == "ApiVersions")
    rows = LiveRows()
    for number in range(1, ROWS + 100):
        rows.add(number, exchange)
    part = rows.take(1)
    numbers = pa.Table.from_batches(part.batches["exchanges"]).column("number").to_pylist()
    assert (len(part.batches["exchanges"]), numbers) == (2, list(range(1, ROWS + 100)))


def test_rows_are_those_of_the_capture() -> None:
    events, expected = read(ORDERS)
    rows, number = LiveRows(), 0
    for event in events:
        if isinstance(event, Exchange):
            number += 1
            rows.add(number, event)
        else:
            rows.note(event)
    assert rows.count == number == len(expected["exchanges"])
    part = rows.take(1)
    assert (part.first, part.last, rows.count) == (1, number, 0)
    found = {name: pa.Table.from_batches(batches, schemas()[name]) for name, batches in part.batches.items()}
    assert found["exchanges"].column("number").to_pylist() == list(range(1, number + 1))
    for name in ("exchanges", "record_batches", "offsets", "group_events", "errors"):
        assert found[name].select([column.name for column in TABLES[name].columns]).to_pylist() == expected[name]
    (open_now,) = rows.open_connections()
    assert {row["closed"] for row in open_now.to_pylist()} == {"end of capture"}
    counted = {row["connection_id"]: row["requests"] for row in expected["connections"]}
    assert {row["connection_id"]: row["requests"] for row in open_now.to_pylist()} == counted
    for connection in {event.connection.number for event in events}:
        rows.ended(connection, None, 0, "finished")
    assert rows.open_connections() == []
    closed = rows.take(number + 1)
    assert (closed.first, closed.last) == (number + 1, number)
    assert sum(batch.num_rows for batch in closed.batches["connections"]) == len(counted)
    assert sum(batch.num_rows for batch in closed.batches["topic_activity"]) == len(expected["topic_activity"])
