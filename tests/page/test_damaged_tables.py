"""Tables of which a part of a file is damaged: what needs that part is refused with the file's name, the rest is answered."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kproxy.page.server import page_app
from kproxy.page.tables import Tabled, damages_of
from tests.page.asking import TOKEN, Browser
from tests.support.exchange_tables import write_tables


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
        browser = Browser(page_app(store, TOKEN))
        browser.get(f"/?token={TOKEN}")
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
