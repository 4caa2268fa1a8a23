"""Sources: what a path is; what is none is refused in a sentence."""

from pathlib import Path

import pytest

from kproxy.analyses.sources import Kind, look_at, table_files
from kproxy.errors import UsageError

CAPTURES = Path(__file__).parents[2] / "captures"


def test_a_capture_and_a_log_are_sources_of_events(tmp_path: Path) -> None:
    assert look_at(CAPTURES / "05-admin.pcap").kind is Kind.EVENTS
    log = tmp_path / "kafka.jsonl"
    log.write_text('{"event":"exchange"}\n', encoding="utf-8")
    assert look_at(log).kind is Kind.EVENTS
    assert look_at(Path("-")).kind is Kind.EVENTS


def test_a_directory_with_parquet_files_is_one_of_tables(tmp_path: Path) -> None:
    part = tmp_path / "exchanges" / "day=2026-11-22" / "part-0.parquet"
    part.parent.mkdir(parents=True)
    part.touch()
    assert look_at(tmp_path).kind is Kind.TABLES
    assert table_files(tmp_path) == {"exchanges": [part]}


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        look_at(tmp_path / "gone.pcap")
    with pytest.raises(UsageError, match="is a directory without tables; name captures or logs"):
        look_at(tmp_path)
    with pytest.raises(UsageError, match="neither pcap nor pcapng"):
        look_at(Path(__file__))


@pytest.mark.parametrize(("log", "kind"), [("_delta_log", "Delta"), ("metadata", "Iceberg")])
def test_tables_of_delta_and_iceberg_are_refused(tmp_path: Path, log: str, kind: str) -> None:
    """Read as plain Parquet they would have rows that were removed."""
    (tmp_path / "offsets" / log).mkdir(parents=True)
    (tmp_path / "offsets" / "part-0.parquet").touch()
    with pytest.raises(UsageError, match=f"has tables of {kind}: kproxy-spark report reads them"):
        look_at(tmp_path)


def test_a_uri_is_told_from_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="kproxy-spark report reads object stores, too"):
        look_at(Path("s3a://bucket/tables"))
