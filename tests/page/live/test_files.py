"""LiveFiles: rows are found by their numbers in few files; the oldest leave; what is replaced stays readable for a while."""

import os
from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa
import pytest

from kproxy.page.live import files as live_files
from kproxy.page.live.files import LINGER_S, ROWS, File, LiveFiles, Part

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


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
    files.add(ended, "connections", part(2, 2).batches["exchanges"])
    seen.append(numbers(files.query("connections")))
    assert seen == [[1, 2, 3]] * 3
