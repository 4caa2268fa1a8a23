"""Tables of the real captures, written by `kproxy decode --format parquet` and read by DuckDB, which shares no code with us."""

import atexit
import gc
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kproxy.analyses.loading import Reading
from kproxy.analyses.scratch import ScratchDirectory
from kproxy.cli import main
from kproxy.output.tables import TABLES, Tables
from kproxy.protocol import message
from kproxy.session import Connection, Exchange, Frame
from tests.support.corpus import CAPTURES
from tests.support.messages import make

MANIFEST = [json.loads(line) for line in (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines()]
atexit.register(gc.unfreeze)  # what main froze would look like leaks to DuckDB when the process ends


def decode(*words: object) -> int:
    """Run `kproxy decode --quiet --format parquet` with more words; the exit status."""
    with pytest.raises(SystemExit) as ended:
        main(["decode", "--quiet", "--format", "parquet", *map(str, words)])
    return int(ended.value.code or 0)


def few_rows() -> Reading:
    """For a Database of few rows: each query is planned once, which for these takes longest."""
    reading = Reading()
    reading.is_part = True
    return reading


@cache
def tables_of(capture: str) -> Path:
    """A directory with all tables of a capture, bodies and records included."""
    scratch = ScratchDirectory()
    atexit.register(scratch.cleanup)
    assert decode("--records", "--bodies", "-o", f"{scratch.name}/tables", CAPTURES / capture) == 0
    return Path(scratch.name, "tables")


def query(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query over the tables in a directory, by DuckDB."""
    with duckdb.connect() as database:
        for name in TABLES:
            if (directory / name).is_dir():
                database.execute(f"create view {name} as from '{directory / name}/*.parquet'")
        return database.execute(sql).fetchall()


def exchange_of(api: str, version: int, request: dict[str, Any], response: dict[str, Any] | None) -> Exchange:
    """An exchange whose bodies have these fields, or Kafka's defaults."""
    frames: list[Frame | None] = []
    for side, fields in ((f"{api}Request", request), (f"{api}Response", response)):
        if fields is not None:
            data = message(side).encode(version, make(side, **fields))
            frames.append(Frame(data, 0, 0, message=message(side), body_version=version))
    exchange = Exchange(Connection(1, "10.0.0.1:1000", "10.0.0.2:9092"), 0, message(f"{api}Request").api_key, version)
    exchange.request, exchange.response = (*frames, None)[:2]
    return exchange


def rows_of(exchange: Exchange, table: str) -> list[dict[str, Any]]:
    """The rows of an exchange in a table."""
    rows: list[dict[str, Any]] = []
    tables = Tables(lambda one, batch: rows.extend(batch.to_pylist()) if one.name == table else None)
    tables.add(exchange, "made")
    tables.flush()
    return rows


def broker_log(capture: str) -> list[dict[str, Any]]:
    """The broker's own request log of a capture, a row a request."""
    path = CAPTURES / "broker-log" / f"{Path(capture).stem}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
