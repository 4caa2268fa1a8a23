"""The directory of Parquet files: what it will be written over, what an aborted run leaves, how much is held."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, parquet, schema_of
from kproxy.output.tables.parquet import MARKER, PART, ParquetDirectory, arrow_type, check_directory

RECORDS = TABLES["records"]
CONNECTIONS = TABLES["connections"]


def records(count: int, value: bytes = b"v") -> pa.RecordBatch:
    rows = {
        "connection_id": "c",
        "exchange": 1,
        "direction": "produce",
        "partition": 0,
        "partition_offset": 0,
        "headers": [],
    }
    return pa.RecordBatch.from_pylist([{**rows, "value": value}] * count, schema=schema_of(RECORDS))


def entries(path: Path) -> list[str]:
    return sorted(entry.relative_to(path).as_posix() for entry in path.rglob("*") if entry.is_file())


def test_nothing_is_there_under_its_name_until_all_is(tmp_path: Path) -> None:
    path = tmp_path / "tables"
    with ParquetDirectory(path, [RECORDS, CONNECTIONS]) as directory:
        directory.write(RECORDS, records(3))
        assert entries(path) == [f"connections/{PART}.tmp", f"records/{PART}.tmp"]
    assert entries(path) == [MARKER, f"connections/{PART}", f"records/{PART}"]
    assert pq.read_table(path / "records").num_rows == 3
    assert pq.read_table(path / "connections").num_rows == 0
    said = json.loads((path / MARKER).read_text(encoding="utf-8"))
    assert said["tables"]["records"] == {"contract": 2, "rows": 3}


def test_an_aborted_run_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tables"
    with pytest.raises(KeyboardInterrupt), ParquetDirectory(path, [RECORDS]) as directory:
        directory.write(RECORDS, records(3))
        raise KeyboardInterrupt
    assert not path.exists()


def test_an_aborted_run_leaves_the_tables_that_were_there(tmp_path: Path) -> None:
    with ParquetDirectory(tmp_path, [RECORDS]) as directory:
        directory.write(RECORDS, records(3))
    before = entries(tmp_path)
    with pytest.raises(ZeroDivisionError), ParquetDirectory(tmp_path, [RECORDS, CONNECTIONS]):
        raise ZeroDivisionError
    assert entries(tmp_path) == before
    assert pq.read_table(tmp_path / "records").num_rows == 3


def test_another_run_replaces_all_tables(tmp_path: Path) -> None:
    with ParquetDirectory(tmp_path, [RECORDS]):
        pass
    (tmp_path / "records" / "part-00001.parquet").write_bytes(b"of a run with more parts")
    with ParquetDirectory(tmp_path, [CONNECTIONS]):
        pass
    assert entries(tmp_path) == [MARKER, f"connections/{PART}"]
    assert not (tmp_path / "records").exists()


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / f"{PART}.tmp").write_bytes(b"half")
    with ParquetDirectory(tmp_path, [RECORDS]):
        pass
    assert entries(tmp_path) == [MARKER, f"records/{PART}"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("thesis.doc", "has other things in it (thesis.doc); -o wants a new or empty directory"),
        ("records/thesis.doc", "has other things in it (records)"),
        ("photos/part-00000.parquet", "has other things in it (photos)"),
    ],
)
def test_a_directory_with_other_things_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(UsageError) as refused:
        ParquetDirectory(tmp_path, [RECORDS])
    assert said in str(refused.value)
    assert entries(tmp_path) == [name]


def test_a_file_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match=r"is a file; --format parquet wants a directory"):
        check_directory(tmp_path / "file")
    with pytest.raises(UsageError, match="its folder does not exist"):
        check_directory(tmp_path / "no" / "tables")
    check_directory(tmp_path / "new")


def test_row_groups_are_bounded_in_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 100)
    with ParquetDirectory(tmp_path, [RECORDS]) as directory:
        for _ in range(25):
            directory.write(RECORDS, records(10))
        directory.write(RECORDS, records(250))
    metadata = pq.read_metadata(tmp_path / "records" / PART)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert max(sizes) <= 100
    assert sum(sizes) == 500


def test_row_groups_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 10_000)
    with ParquetDirectory(tmp_path, [RECORDS]) as directory:
        for _ in range(4):
            directory.write(RECORDS, records(2, b"x" * 5_000))
    assert pq.read_metadata(tmp_path / "records" / PART).num_row_groups == 4


def test_files_are_compressed_with_zstd(tmp_path: Path) -> None:
    with ParquetDirectory(tmp_path, [RECORDS]) as directory:
        directory.write(RECORDS, records(1))
    assert pq.read_metadata(tmp_path / "records" / PART).row_group(0).column(8).compression == "ZSTD"


def test_dictionaries_are_made_of_what_repeats_alone(tmp_path: Path) -> None:
    with ParquetDirectory(tmp_path / "tables", [RECORDS]) as directory:
        directory.write(RECORDS, records(10))
    group = pq.ParquetFile(tmp_path / "tables" / "records" / PART).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    plain = {column.path_in_schema for column in columns if not column.has_dictionary_page}
    booleans = {"key_fits", "value_fits"}  # which Parquet never has in dictionaries
    assert plain - booleans == {"exchange", "partition_offset", "timestamp", "value"}


def test_headers_have_keys_that_are_never_null() -> None:
    """The other types are compared with those in files (test_contracts.py)."""
    struct = arrow_type("list<struct<key: binary, value: binary>>").value_type
    assert [(field.name, field.nullable) for field in struct] == [("key", False), ("value", True)]
