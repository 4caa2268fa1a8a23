"""LiveFiles: rows are found by their numbers in few files; the oldest leave; what is replaced stays readable for a while."""

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa
import pytest

from kproxy.output.tables import TABLES
from kproxy.output.tables.columns import ROWS as ROWS_AT_ONCE
from kproxy.page.blocks import SpillFiles
from kproxy.page.live import files as live_files
from kproxy.page.live.files import LINGER_S, ROWS, File, LiveFiles, LiveRows, Part, schemas
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.output import Observer
from kproxy.pipeline.run import Run
from kproxy.pipeline.table_output import TableOutput
from kproxy.session import Event, Exchange
from tests.page.asking import ORDERS
from tests.support.loops import Clock

SCHEMA = pa.schema([("number", pa.int64()), ("connection_id", pa.string())])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def files(clock: Clock) -> Iterator[LiveFiles]:
    made = LiveFiles({"exchanges": SCHEMA, "connections": SCHEMA}, clock)
    yield made
    made.close()


def part(first: int, count: int, at: int = 0) -> Part:
    numbers = list(range(first, first + count))
    batch = pa.RecordBatch.from_arrays([pa.array(numbers), pa.array([f"n{n}" for n in numbers])], schema=SCHEMA)
    return Part(first, first + count - 1, at, at + 1, {}, {"exchanges": [batch]})


def numbers(query: str) -> list[int]:
    return [row[0] for row in duckdb.sql(f"SELECT number FROM {query} ORDER BY number").fetchall()]


@pytest.mark.parametrize("count", [1, 7, 500])
def test_rows_are_in_few_files_whatever_their_pace(files: LiveFiles, count: int) -> None:
    assert numbers(files.query("exchanges")) == []
    pieces = 120
    for piece in range(pieces):
        files.add(part(1 + piece * count, count, piece))
    total = pieces * count
    assert numbers(files.query("exchanges")) == list(range(1, total + 1))
    assert len(files.parts) <= 2 + total // ROWS + total.bit_length()
    assert (files.parts[0].first_ns, files.parts[-1].last_ns) == (0, pieces)


def test_a_range_needs_only_its_files(files: LiveFiles) -> None:
    for at in range(4):
        files.add(part(1 + at * ROWS, ROWS))
    assert [len(one.batches) for one in files.parts] == [0, 0, 0, 0], "final: their rows are in the files alone"
    assert files.query("exchanges", ROWS, ROWS + 1).count("/proc/self/fd/") == 2
    assert set(numbers(files.query("exchanges", ROWS, ROWS + 1))) >= {ROWS, ROWS + 1}


def test_the_oldest_leave_and_their_files_close_when_no_query_can_need_them(files: LiveFiles, clock: Clock) -> None:
    for at in range(3):
        files.add(part(1 + at * ROWS, ROWS))
    before, fd = files.query("exchanges"), files.parts[0].files["exchanges"].fd
    assert files.remove_oldest() == ROWS + 1
    assert numbers(files.query("exchanges")) == list(range(ROWS + 1, 3 * ROWS + 1))
    assert numbers(before) == list(range(1, 3 * ROWS + 1)), "a query that has begun"
    whole = files.size
    clock.now += LINGER_S
    files.close_replaced()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert (files.lingering, files.size < whole) == (0, True)


def test_a_table_that_is_replaced_as_a_whole(files: LiveFiles) -> None:
    batch = part(1, 3).batches["exchanges"]
    files.replace("connections", batch)
    assert numbers(files.query("connections")) == [1, 2, 3]
    files.replace("connections", [])
    assert numbers(files.query("connections")) == []


def test_a_connection_that_ends_is_never_in_two_files(files: LiveFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks while files are written sees each connection once: among the open ones, or among those that have ended."""
    files.replace("connections", part(1, 3).batches["exchanges"])
    seen: list[list[int]] = []
    write = live_files._written

    def written(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> File:
        seen.append(numbers(files.query("connections")))
        return write(batches, schema)

    monkeypatch.setattr(live_files, "_written", written)
    ended = Part(1, 0, None, None, {}, {"connections": part(1, 1).batches["exchanges"]})
    files.add(ended)
    with files.held(pytest.fail, 1 << 30) as parts:
        seen.append(sorted(number for one in parts for number in numbers(one("connections"))))
    files.replace("connections", part(2, 2).batches["exchanges"])
    seen.append(numbers(files.query("connections")))
    assert seen == [[1, 2, 3]] * 4


def test_what_is_spilled_is_found_as_before_and_has_no_name(files: LiveFiles, clock: Clock, tmp_path: Path) -> None:
    into = SpillFiles(tmp_path)
    for at in range(12):
        files.add(part(1 + at * ROWS, ROWS, at))
    before, size = files.query("exchanges"), files.size
    assert files.spill_oldest(into) == files.parts[1].first == 4 * ROWS + 1
    assert files.spill_oldest(into) == 8 * ROWS + 1
    assert numbers(files.query("exchanges")) == numbers(before) == list(range(1, 12 * ROWS + 1))
    assert numbers(files.query("exchanges", 5 * ROWS, 5 * ROWS)) == list(range(4 * ROWS + 1, 8 * ROWS + 1))
    assert [(one.first_ns, one.last_ns) for one in files.parts[:2]] == [(0, 4), (4, 8)]
    assert list(tmp_path.iterdir()) == []
    clock.now += LINGER_S
    files.close_replaced()
    assert files.size < size / 2 and files.spilled > size / 2
    fd = files.parts[0].files["exchanges"].fd
    assert files.remove_oldest() == 4 * ROWS + 1
    assert os.fstat(fd).st_mode & 0o777 == 0o600
    clock.now += LINGER_S
    files.close_replaced()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_one_part_alone_can_be_spilled(files: LiveFiles, clock: Clock, tmp_path: Path) -> None:
    for at in range(2):
        files.add(part(1 + at * ROWS, ROWS))
    assert files.spill_oldest(SpillFiles(tmp_path)) == ROWS + 1
    clock.now += LINGER_S
    files.close_replaced()
    assert numbers(files.query("exchanges")) == list(range(1, 2 * ROWS + 1))


def test_a_full_disk_changes_nothing(files: LiveFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(4):
        files.add(part(1 + at * ROWS, ROWS))
    before = files.parts
    with pytest.raises(OSError, match="No space left on device"):
        files.spill_oldest(FullDisk(Path("/dev")))
    assert files.parts == before and files.spilled == 0
    assert numbers(files.query("exchanges")) == list(range(1, 4 * ROWS + 1))


class FullDisk(SpillFiles):
    """Files that take no byte, as the kernel has one."""

    def open(self) -> IO[bytes]:
        return Path("/dev/full").open("r+b")


def test_what_is_held_stays_readable_until_too_much_has_left(files: LiveFiles, clock: Clock) -> None:
    for at in range(4):
        files.add(part(1 + at * ROWS, ROWS))
    why: list[str] = []
    with files.held(why.append, 1 << 30) as parts:
        files.remove_oldest()
        clock.now += LINGER_S
        files.close_replaced()
        assert [len(numbers(one("exchanges"))) for one in parts] == [ROWS] * 4 + [0]
    files.close_replaced()
    assert (files.lingering, why) == (0, [])
    with files.held(why.append, 1):
        files.remove_oldest()
        clock.now += LINGER_S
        files.close_replaced()
        assert len(why) == 1 and "select less" in why[0]
        assert files.lingering == 0, "closed: it was given up"


def test_what_several_threads_hold_is_let_go_of(files: LiveFiles, clock: Clock) -> None:
    """And kept as long: a hold that is lost by another's end is that of a query whose files are closed."""

    def hold_often() -> None:
        for _ in range(3_000):
            with files.held(lambda _: None, 1 << 30):
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            for held in [threads.submit(hold_often) for _ in range(3)]:
                held.result()
    finally:
        sys.setswitchinterval(interval)
    files.add(part(1, ROWS))
    files.add(part(1 + ROWS, ROWS))
    files.remove_oldest()
    clock.now += LINGER_S
    files.close_replaced()
    assert files.lingering == 0


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
    """Beyond ROWS_AT_ONCE rows the tables write some by themselves."""
    events, _ = read(ORDERS)
    exchange = next(event for event in events if isinstance(event, Exchange) and event.api_name == "ApiVersions")
    rows = LiveRows()
    for number in range(1, ROWS_AT_ONCE + 100):
        rows.add(number, exchange)
    part = rows.take(1)
    numbers = pa.Table.from_batches(part.batches["exchanges"]).column("number").to_pylist()
    assert (len(part.batches["exchanges"]), numbers) == (2, list(range(1, ROWS_AT_ONCE + 100)))


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
