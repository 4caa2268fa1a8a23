"""Directories of tables in the page: the rows of the captures they were made of, with numbers over all files."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from kproxy.errors import UsageError
from kproxy.page.columns import COLUMNS, SHOWN
from kproxy.page.store import Store
from kproxy.page.tables import KeptColumns, Tabled, damages_of
from kproxy.page.work import Work
from tests.page.asking import CAPTURE, let_in, opened
from tests.support.exchange_tables import write_tables

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


MANY = 3_000
EVERY_COLUMN = list(COLUMNS.values())
FAR = Random(5).sample(range(1, MANY + 1), 60)


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tabled]:
    folder = tmp_path_factory.mktemp("kept") / "tables"
    write_tables(folder, MANY)
    with Tabled([folder, folder]) as found:  # two files: numbers go on in the second
        yield found


def test_rows_are_those_of_the_files(twice: Tabled) -> None:
    kept, twice.kept = twice.kept, None
    assert kept is not None
    numbers = [*FAR, 2 * MANY, MANY + 1, MANY]
    expected = twice.look_up(numbers, EVERY_COLUMN)
    assert len({tuple(map(str, row)) for row in expected}) > len(numbers) / 2
    twice.kept = kept
    assert twice.look_up(numbers, EVERY_COLUMN) == expected
    kept.wait()
    assert kept.rows(numbers, EVERY_COLUMN) is not None
    assert twice.look_up(numbers, EVERY_COLUMN) == expected
    assert twice.look_up(numbers[:3], []) == [[]] * 3
    assert twice.look_up([2 * MANY + 1], [COLUMNS["apiName"]]) == [[None]], "there is none"


def test_rows_that_are_near_each_other_are_from_memory_too(twice: Tabled) -> None:
    kept = KeptColumns(twice)
    assert kept.rows(range(10, 70), EVERY_COLUMN) is None
    kept.wait()
    assert kept.rows(range(10, 70), EVERY_COLUMN) is not None
    kept.close()


def test_it_may_be_closed_before_anything_is_read(twice: Tabled) -> None:
    kept = KeptColumns(twice)
    assert kept.rows(range(10, 70), EVERY_COLUMN) is None
    kept.close()
    assert kept.rows(range(10, 70), EVERY_COLUMN) is None


def test_what_is_too_large_is_not_kept(twice: Tabled) -> None:
    kept = KeptColumns(twice, most=100_000)
    shown = [COLUMNS[name] for name in SHOWN]
    assert kept.rows(FAR, shown) is None
    kept.wait()
    assert kept.rows(FAR, shown) is None
    assert kept.rows(FAR, [COLUMNS["number"]]) == [(number,) for number in FAR], "48 kB"
    kept.close()
    assert kept.rows(FAR, [COLUMNS["acks"]]) is None, "nothing is read any more"


def test_it_may_be_closed_while_rows_arrive(twice: Tabled, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptColumns(twice)

    def interrupt(_kind: pa.DataType) -> bool:  # at the first piece, when the rest is not computed yet
        assert kept._cursor is not None
        kept._cursor.interrupt()
        return False

    monkeypatch.setattr("kproxy.page.tables.PIECE", 1)
    monkeypatch.setattr("pyarrow.types.is_string", interrupt)
    large = replace(COLUMNS["number"], sql="e.number || repeat('a', 2000)")
    assert kept.rows(FAR, [large]) is None
    kept.wait()  # a thread that ends by an exception fails the test
    assert kept.rows(FAR, [large]) is None
    kept.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("whole") / "tables"
    write_tables(written, 100)
    return written


def damaged(whole: Path, into: Path, column: str) -> Path:
    """The file of exchanges of a copy, with other bytes for the pages of one column."""
    shutil.copytree(whole, into)
    (path,) = (into / "exchanges").glob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    chunk = next(group.column(at) for at in range(group.num_columns) if group.column(at).path_in_schema == column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("column", "refused"),
    [
        (
            "client_id",
            ["exchanges?columns=clientId", "exchanges?filter=clientId=='client-5'", "analyses/anonymous_clients"],
        ),
        ("request_at", ["exchanges?sort=requestAt", "activity?by=api", "heatmap", "analyses/anonymous_clients"]),
    ],
)
def test_what_needs_a_damaged_column_is_refused_and_the_rest_goes_on(
    whole: Path, tmp_path: Path, column: str, refused: list[str]
) -> None:
    path = damaged(whole, tmp_path / "tables", column)
    with Tabled([tmp_path / "tables"]) as store:
        browser = let_in(store)
        for asked in refused:
            answer = browser.get(f"/page/api/{asked}")
            said = answer.json().get("error", "")
            assert (answer.status_code, said.startswith(f"{path} is damaged: ")) == (400, True), (asked, said)
            assert "\n" not in said and ".sql" not in said
        found = browser.get("/page/api/exchanges?columns=number,apiName&limit=2").json()
        assert (found["total"], [row[0] for row in found["rows"]]) == (100, [1, 2])
        source = browser.get("/page/api/source")
        assert source.status_code == 200 and str(path) in source.json()["damages"][0]


def test_files_that_are_whole_are_not_called_damaged(whole: Path, tmp_path: Path) -> None:
    path = damaged(whole, tmp_path / "tables", "latency_ms")
    files = sorted((tmp_path / "tables").rglob("*.parquet"))
    assert len(files) > 1
    assert [said.partition(" is damaged: ")[0] for said in damages_of(files)] == [str(path)]
    assert damages_of(sorted(whole.rglob("*.parquet"))) == []
