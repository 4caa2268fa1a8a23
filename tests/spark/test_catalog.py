"""The output directory: rows of a file come and go together, whatever happens in between."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kproxy.output.tables import TABLES, schema_of
from kproxy.spark.catalog import Catalog, number_connections, safe
from kproxy.spark.files import InputFile
from kproxy.spark.parts import PartFile

FILE = InputFile("/captures/a.pcap", 100, 5)
CHANGED = InputFile("/captures/a.pcap", 120, 6)


def staged(catalog: Catalog, table: str, day: str, rows: int, name: str) -> PartFile:
    path = Path(catalog.staging("job")).parent / name
    path.write_text(f"{rows} rows")
    return PartFile(table, day, str(path), rows)


def places(catalog: Catalog) -> dict[str, str]:
    found = [path for table in TABLES for path in (Path(catalog.folder.root) / table).rglob("*.parquet")]
    return {path.relative_to(catalog.folder.root).as_posix(): path.read_text() for path in found}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "out"))


def test_a_file_is_there_once_it_is_committed(catalog: Catalog) -> None:
    assert not catalog.has(FILE, "o")
    parts = [staged(catalog, "errors", "2026-01-01", 3, "x"), staged(catalog, "errors", "2026-01-01", 4, "y")]
    entry = catalog.commit(FILE, "o", "prod", parts, [])
    assert entry.rows == {"errors": 7}
    assert places(catalog) == {
        f"errors/cluster=prod/day=2026-01-01/{FILE.key}-00000.parquet": "3 rows",
        f"errors/cluster=prod/day=2026-01-01/{FILE.key}-00001.parquet": "4 rows",
    }
    assert catalog.has(FILE, "o")
    assert not catalog.has(FILE, "other options")
    assert not catalog.has(CHANGED, "o")


def test_a_changed_file_replaces_its_rows(catalog: Catalog) -> None:
    catalog.commit(FILE, "o", "prod", [staged(catalog, "errors", "2026-01-01", 3, "x")], [])
    catalog.commit(CHANGED, "o", "prod", [staged(catalog, "errors", "2026-01-02", 5, "y")], [])
    assert list(places(catalog).values()) == ["5 rows"]
    assert not (Path(catalog.folder.root) / "errors/cluster=prod/day=2026-01-01").exists()


def test_a_job_that_is_killed_while_it_commits_leaves_no_rows(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [staged(catalog, "errors", day, 3, day) for day in ("2026-01-01", "2026-01-02")]
    moved: list[Path] = []
    replace = Path.replace

    def killed_at_the_second(self: Path, target: Path) -> Path:
        if "errors" in str(target):
            moved.append(target)
            if len(moved) == 2:
                raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        catalog.commit(FILE, "o", "prod", parts, [])
    monkeypatch.undo()
    assert len(places(catalog)) == 1
    assert not catalog.has(FILE, "o")
    assert catalog.recover() == [FILE.path]
    assert places(catalog) == {}
    assert catalog.recover() == []
    assert not (Path(catalog.folder.root) / "_kproxy" / "staging").exists()


def test_problems_are_in_the_quarantine_until_the_file_is_whole(catalog: Catalog) -> None:
    catalog.commit(FILE, "o", "prod", [], ["cut at byte 7"])
    [quarantined] = (Path(catalog.folder.root) / "_kproxy" / "quarantine").iterdir()
    assert quarantined.read_text() == '{"path": "/captures/a.pcap", "reasons": ["cut at byte 7"], "rows": 0}\n'
    assert catalog.has(FILE, "o")  # it will not become better by itself
    catalog.commit(CHANGED, "o", "prod", [], [])
    assert not quarantined.exists()


def test_a_cluster_cannot_name_another_folder() -> None:
    assert safe("../../etc") == "..%2F..%2Fetc"
    assert safe("prod eu/1") == "prod%20eu%2F1"
    assert safe("") == "unknown"
    assert len(safe("x" * 5_000)) == 100


def test_connections_are_numbered_by_their_first_packets(tmp_path: Path) -> None:
    schema = schema_of(TABLES["connections"])
    always = [field for field in schema if not field.nullable]
    row = {field.name: 0 if pa.types.is_integer(field.type) else "" for field in always} | {"client_ids": []}
    path = tmp_path / "c.parquet"
    numbered = [{**row, "connection": first} for first in (70, 5, 31)]
    pq.write_table(pa.Table.from_pylist(numbered, schema), path)
    number_connections(path, [5, 6, 31, 70])
    assert pq.ParquetFile(path).read(["connection"]).column(0).to_pylist() == [4, 1, 3]
    assert pq.ParquetFile(path).schema_arrow.equals(schema)
