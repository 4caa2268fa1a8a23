"""Tables of the real captures, written by `kproxy decode --format parquet` and read by DuckDB, which shares no code with us."""

import atexit
import gc
import gzip
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kproxy.analyses.loading import Reading
from kproxy.cli import main
from kproxy.output.tables import TABLES
from tests.support.corpus import CAPTURES

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
    folder = Path(tempfile.mkdtemp(prefix="kproxy-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    assert decode("--records", "--bodies", "-o", folder / "tables", CAPTURES / capture) == 0
    return folder / "tables"


def query(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query over the tables in a directory, by DuckDB."""
    with duckdb.connect() as database:
        for name in TABLES:
            if (directory / name).is_dir():
                database.execute(f"create view {name} as from '{directory / name}/*.parquet'")
        return database.execute(sql).fetchall()


def broker_log(capture: str) -> list[dict[str, Any]]:
    """The broker's own request log of a capture, a row a request."""
    path = CAPTURES / "broker-log" / f"{Path(capture).stem}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
