"""Rows of a capture as Arrow batches; what its README and manifest count."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kproxy.cli import main
from kproxy.output.tables import Table
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.table_output import TableOutput
from tests.support.corpus import CAPTURES
from tests.support.tables import decode, query

CAPTURE = Path("captures/01-java-produce-consume-group.pcap")  # 23 requests, 5 connections, 200 records twice


def rows_of(*, records: bool, error: BaseException | None = None) -> Counter[str]:
    rows: Counter[str] = Counter()

    def write(table: Table, batch: Any) -> None:
        rows[table.name] += batch.num_rows

    output = TableOutput(write, records=records)
    run = Run(Options(), [output])
    with open_input(CAPTURE) as source:
        for _ in run.read(source):
            pass
    output.close(error)
    return rows


def test_rows_of_each_table_and_none_that_are_held_after_an_error() -> None:
    rows = rows_of(records=True)
    assert (rows["connections"], rows["exchanges"], rows["records"]) == (5, 23, 400)
    assert not rows_of(records=False)["records"]
    assert not rows_of(records=False, error=OSError())


FIRST = CAPTURES / "01-java-produce-consume-group.pcap"
SASL = CAPTURES / "06-sasl-scram.pcap"


def refused(words: tuple[object, ...], capture: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["decode", *map(str, words)])
    assert ended.value.code == 2
    out, err = capture.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_tables_of_two_captures_go_into_one_directory(tmp_path: Path) -> None:
    assert decode("--separate", "-o", tmp_path / "t", FIRST, SASL) == 0
    rows = query(tmp_path / "t", "select capture, count(*) from connections group by all order by all")
    assert rows == [(FIRST.name, 5), (SASL.name, 5)]
    assert decode("-o", tmp_path / "one", FIRST, SASL) == 0
    earlier = query(tmp_path / "t", "select capture from connections order by first_seen_at limit 1")
    assert query(tmp_path / "one", "select distinct capture from connections") == earlier
    assert not (tmp_path / "t" / "records").exists()


def test_where_chooses_exchanges_and_connections_still_count_all(tmp_path: Path) -> None:
    assert decode("--where", 'apiName == "Fetch"', "-o", tmp_path, FIRST) == 0
    assert query(tmp_path, "select distinct api_name from exchanges") == [("Fetch",)]
    assert query(tmp_path, "select distinct direction from record_batches") == [("fetch",)]
    assert query(tmp_path, "select sum(requests)::bigint from connections") == [(23,)]


def test_bodies_are_jsons_and_credentials_are_in_no_file(tmp_path: Path) -> None:
    assert decode("--bodies", "--records", "-o", tmp_path, SASL) == 0
    rows = query(tmp_path, "select request_json from exchanges where api_name = 'SaslAuthenticate'")
    assert {body for (body,) in rows} == {'{"authBytes":"(withheld)"}'}
    text = repr([query(tmp_path, f"select {table}::text from {table}") for table in ("connections", "exchanges")])
    assert "alice" in text
    for secret in ("n,,n=", "bixhbGljZQ", "alice-throwaway", "c=biws"):
        assert secret not in text


def test_a_damaged_capture_gives_tables_up_to_the_damage(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(FIRST.read_bytes()[:49_990])
    assert decode("-o", tmp_path / "t", cut) == 3
    ((rows,),) = query(tmp_path / "t", "select count(*) from exchanges")
    assert 0 < rows <= 23


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "parquet", FIRST), "--format parquet wants a directory: -o DIR"),
        (("--format", "parquet", "-o", FIRST, FIRST), "is a file; --format parquet wants a directory"),
        (("--format", "parquet", "-o", CAPTURES, FIRST), "has other things in it"),
        (("--format", "parquet", "-o", "/nope/t", FIRST), "its folder does not exist"),
        (("--format", "parquet", "-v", "-o", "t", FIRST), "-v is for --format text"),
        (("--format", "jsonl", "--bodies", FIRST), "--bodies is for --format parquet"),
    ],
)
def test_wrong_usage_is_one_sentence(words: tuple[object, ...], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert said in refused(words, capfd)


def test_without_pyarrow_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    err = refused(("--format", "parquet", "-o", tmp_path / "t", FIRST), capfd)
    assert err == "kproxy: --format parquet needs pyarrow: pip install 'kproxy-kafka[parquet]'\n"
    assert not (tmp_path / "t").exists()


def test_a_wrong_file_leaves_no_directory(tmp_path: Path) -> None:
    assert decode("-o", tmp_path / "t", CAPTURES / "README.md") == 2
    assert not (tmp_path / "t").exists()
