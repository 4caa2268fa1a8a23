"""Directories of tables in the page: the rows of the captures they were made of, with numbers over all files."""

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kproxy.errors import UsageError
from kproxy.page.columns import COLUMNS
from kproxy.page.store import Store
from kproxy.page.tables import Tabled
from kproxy.page.work import Work
from tests.page.asking import opened
from tests.support.exchange_tables import write_tables
from tests.support.traffic import CAPTURES

CAPTURE = CAPTURES / "03-classic-rebalance-range.pcap"
NAMES = list(COLUMNS)


def decoded_tables(path: Path, *more: str) -> Path:
    command = [
        sys.executable,
        "-m",
        "kproxy",
        "decode",
        "-q",
        "--format",
        "parquet",
        *more,
        "-o",
        str(path),
        str(CAPTURE),
    ]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return decoded_tables(tmp_path_factory.mktemp("tables") / "rebalance", "--bodies")


def every(store: Store, sort: str = "number") -> list[list[object]]:
    total = store.page(Work(), limit=1).total
    return [row for offset in range(0, total, 500) for row in store.page(Work(), "", sort, offset, 500, NAMES).rows]


def to_micros(row: list[object]) -> list[object]:
    """Tables have times in microseconds."""
    return [
        str(int(str(value)) // 1000 * 1000) if value is not None and name in ("requestAt", "responseAt") else value
        for name, value in zip(NAMES, row, strict=True)
    ]


def test_rows_are_those_of_the_capture(tables: Path) -> None:
    with Tabled([tables]) as of_tables, opened(CAPTURE) as of_capture:
        assert every(of_tables) == [to_micros(row) for row in every(of_capture)]
        assert of_tables.times() == tuple(int(str(at)) // 1000 * 1000 for at in of_capture.times())


def test_numbers_go_on_over_files_and_directories(tables: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(tables, again)
    (file,) = (again / "exchanges").iterdir()
    rows = pq.read_table(file)
    file.unlink()
    for at, count in ((0, 10), (10, 1), (11, len(rows))):
        pq.write_table(rows.slice(at, count), again / "exchanges" / f"part-{at:05}.parquet")
    with Tabled([tables]) as one, Tabled([tables, again]) as both:
        single, found = every(one), every(both)
        assert [row[0] for row in found] == list(range(1, 2 * len(single) + 1))
        assert [row[1:] for row in found] == [row[1:] for row in single] * 2
        middle = both.page(Work(), offset=len(single) + 8, limit=6, columns=NAMES)
        assert middle.rows == found[len(single) + 8 : len(single) + 14]
        assert every(both, "-latencyMs") == sorted(
            found,
            key=lambda row: (
                row[NAMES.index("latencyMs")] is None,
                -float(str(row[NAMES.index("latencyMs")] or 0)),
                row[0],
            ),
        )


def test_columns_that_an_older_kproxy_did_not_write_are_null(tables: Path, tmp_path: Path) -> None:
    shutil.copytree(tables, tmp_path / "old")
    (file,) = (tmp_path / "old" / "exchanges").iterdir()
    pq.write_table(pq.read_table(file).drop_columns(["throttle_time_ms", "error_codes"]), file)
    with Tabled([tmp_path / "old"]) as store:
        page = store.page(Work(), columns=["throttleTimeMs", "errorCodes", "apiName"])
        assert {(row[0], row[1]) for row in page.rows} == {(None, None)}
        assert all(row[2] for row in page.rows)


def test_bodies_where_they_are(tables: Path, tmp_path: Path) -> None:
    without = decoded_tables(tmp_path / "without")
    with Tabled([tables]) as store, Tabled([without]) as bare:
        item = store.item(1)
        assert item is not None and item.line.startswith(b'{"request":{') and item.request is None
        assert bare.item(1) is not None and bare.item(1).line == b""  # type: ignore[union-attr]
        assert store.item(0) is None and store.item(store.last + 1) is None


def test_no_rows(tmp_path: Path) -> None:
    write_tables(tmp_path / "none", 0, connections=3)
    with Tabled([tmp_path / "none"]) as store:
        assert store.page(Work(), columns=NAMES).rows == []
        assert (store.page(Work(), "", "-latencyMs").total, store.times()) == (0, (None, None))


def test_a_damaged_table_is_said(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", 10)
    (file,) = (tmp_path / "tables" / "exchanges").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(UsageError, match=r"^tables: a table cannot be read: [^\n]*part-[^\n]*$"):
        Tabled([tmp_path / "tables"])
