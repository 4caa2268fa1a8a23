"""kproxy-spark: options, sentences, exit codes, and a report that is that of kproxy report; jobs are tested in tests/spark."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kproxy.cli import main as kproxy
from kproxy.cli.spark import main
from kproxy.cli.spark import main as kproxy_spark
from kproxy.page.tables import Tabled
from tests.support.corpus import CAPTURES
from tests.support.spark import view_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD = CAPTURES / "01-java-produce-consume-group.pcap"


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ingest", "--follow", "-o", "x", "in"], "kproxy-spark: --follow needs --checkpoint DIR"),
        (["ingest", "--once", "-o", "x", "in"], "--once is for --follow"),
        (["ingest", "--output-format", "iceberg", "-o", "x", "in"], "iceberg needs --state DIR"),
        (["ingest", "--state", "s", "-o", "x", "in"], "--state is for delta and iceberg"),
        (["ingest", "--output-format", "orc", "-o", "x", "in"], "'orc' is not one of 'parquet', 'delta', 'iceberg'"),
        (["ingest", "-o", __file__, "in"], "test_spark.py is a file; -o wants a folder"),
        (["ingest", "--staging", "gone", "-o", "x", "in"], "'--staging': Directory 'gone' does not exist"),
        (["report", "--staging", __file__, "t"], "test_spark.py' is a file; see kproxy-spark report --help"),
        (["ingest", "in"], "missing option '-o' / '--output'"),
        (["report", "--only", "mapp", "x"], "there is no analysis 'mapp'; did you mean map"),
        (["ingest", "-o", "x", "--api", "Fetchh", "in"], "--api: there is no API 'Fetchh'; did you mean Fetch"),
        (["report", "-o", "r.xyz", "t"], "-o r.xyz: no format has the suffix .xyz; use .txt, "),
        (["report", "--param", "x", "t"], "--param wants NAME=VALUE"),
        (["report", "--param", "min_reqests=3", "t"], "is called 'min_reqests'; did you mean min_requests"),
        (["report", "--only", "latency", "--param", "min_requests=few", "t"], "min_requests is a whole number"),
        (["report", "--target", "99", "t"], "--target 99 is no release that is known"),
        (["report", "--only", "diff", "--before", "/", "t"], "--before and --after go together"),
        (["report", "--from", "2026-11-1", "t"], "--from: '2026-11-1' is no day; write 2026-11-21"),
        (["report", "--from", "2026-11-02", "--to", "2026-11-01", "t"], "--from is a later day than --to"),
        (["report"], "name tables, captures or decoded logs"),
        (["report", "/dev/null"], "/dev/null: byte 0: the file is empty"),
        (["report", "--master", "local[1]", "no-folder"], "no-folder: no such file"),
        (["report", "--master", "local[1]", "no-file.pcap"], "no-file.pcap: no such file"),
    ],
)
def test_wrong_usage_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert sentence.removeprefix("kproxy-spark: ") in capsys.readouterr().err


def test_a_staging_folder_may_be_written_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
    assert run("report", "--staging", "/", GOOD) == 2
    assert "'--staging': Directory '/' is not writable" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--help"], "ingest"),
        *(
            (["report", "-q", "--only", "map", *more, str(GOOD)], "orders")
            for more in ([], ["--master", "spark://gone:1"])
        ),
    ],
)
def test_neither_help_nor_a_small_report_needs_spark(words: list[str], said: str) -> None:
    code = (
        f"import sys; from kproxy.cli.spark import main\ntry: main({words})\nfinally: print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
    assert said in done.stdout


@pytest.mark.parametrize("day_too", [False, True])
def test_a_file_that_is_gone_from_tables_is_named_unless_all_of_its_day_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], day_too: bool
) -> None:
    assert run("ingest", "-o", tmp_path / "out", GOOD) == 0
    [part] = (tmp_path / "out" / "offsets").rglob("*.parquet")
    if day_too:
        shutil.rmtree(part.parent)
    else:
        part.rename(part.with_name("other.parquet"))
    for command in (kproxy, kproxy_spark):
        capsys.readouterr()
        assert ended(command, "report", "-q", "--only", "map", tmp_path / "out") == (0 if day_too else 3)
        said = f"{part}: gone, and so are its rows; kproxy-spark ingest --again writes them"
        assert (said in capsys.readouterr().err) is not day_too
    with closing(Tabled([tmp_path / "out"])) as page:
        assert page.damages == ([] if day_too else [said])


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_captures_to_tables_to_answers(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bad := tmp_path / "bad.pcap").write_bytes(b"nothing")
    assert run("ingest", "-o", tmp_path / "out", GOOD, bad) == 3
    told = capsys.readouterr().err
    assert f"kproxy-spark: {bad}: byte 0: neither pcap nor pcapng" in told
    assert "1 file read, 1 could not be read, 0 were there already: 5 connections, 23 exchanges" in told
    assert run("ingest", "-o", tmp_path / "out", GOOD, bad) == 3
    assert "0 files read, 1 could not be read, 1 were there already: no rows" in capsys.readouterr().err
    assert run("ingest", "-o", tmp_path / "out", GOOD) == 3  # what another ingest was given is still there
    assert f"kproxy-spark: {bad}: byte 0: neither" in capsys.readouterr().err
    assert run("report", "--only", "map", "-o", tmp_path / "map.txt", tmp_path / "out") == 0
    assert "orders" in (tmp_path / "map.txt").read_text()
    page = tmp_path / "map.html"
    assert run("report", "--only", "map", "--format", "html", "-o", page, tmp_path / "out") == 0
    assert "<svg" in page.read_text() and "Who writes and who reads" in page.read_text()
    follow = ["--follow", "--once", "--checkpoint", tmp_path / "check"]
    assert run("ingest", *follow, "-o", tmp_path / "followed", bad) == 3
    assert run("ingest", *follow, "-o", tmp_path / "followed", bad) == 3  # read in the run before
    marker = tmp_path / "out" / "_kproxy.json"
    marker.write_text(re.sub(r'("connections": {\s*"contract": )\d+', r"\1 99", marker.read_text()))
    capsys.readouterr()
    assert run("ingest", "-o", tmp_path / "out", GOOD) == run("report", tmp_path / "out") == 2
    assert capsys.readouterr().err.count("/out was written by another kproxy: its connections has version 99") == 2


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_outputs_that_are_no_folder_of_parquet(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A URI, with a copy of the capture in a staging folder; formats that this session does not have."""
    for name in ("seen", "staging"):
        (tmp_path / name).mkdir()
    view = view_of(spark, tmp_path / "seen")
    words = ["ingest", "-o", f"{view}/out", "--staging", tmp_path / "staging", "--split-from", "0", "--parts", "2"]
    assert run(*words, GOOD) == 0
    assert "1 file read, 0 were there already: 5 connections, 23 exchanges" in capsys.readouterr().err
    assert not list((tmp_path / "staging").iterdir())
    assert run(*words, GOOD) == 0
    assert "0 files read, 1 were there already" in capsys.readouterr().err
    for name in ("delta", "iceberg"):
        words = ["ingest", "-o", "tables", "--output-format", name, "--state", tmp_path / "state"]
        assert run(*words, GOOD) == 2
        assert f"this Spark session has no {name}" in capsys.readouterr().err
    assert (
        run("ingest", "-o", "spark_catalog.kafka", "--state", tmp_path / "state", GOOD) == 2
    )  # not configured: a directory
    assert "Spark has no catalog spark_catalog; --state is for delta and iceberg" in capsys.readouterr().err
    for catalog, sentence in (
        ("org.apache.iceberg.spark.SparkCatalog", "iceberg needs --state DIR, since -o names tables of a catalog"),
        ("org.others.Catalog", "lake is a catalog of org.others.Catalog; ingest writes catalogs of Iceberg"),
    ):
        spark.conf.set("spark.sql.catalog.lake", catalog)
        assert run("ingest", "-o", "lake.kafka", GOOD) == 2
        assert sentence in capsys.readouterr().err
    spark.conf.unset("spark.sql.catalog.lake")
    assert not list((tmp_path / "state").rglob("*.json"))


OLD = CAPTURES / "08-old-broker-0.9-format0.pcap"


def ended(main: Any, *words: object) -> int:
    with pytest.raises(SystemExit) as exit_:
        main([*map(str, words)])
    return int(exit_.value.code or 0)


def same(capsys: pytest.CaptureFixture[str], status: int, *words: object) -> dict[str, Any]:
    """The JSON that both give, with this exit status."""
    pages = []
    for command in (kproxy, kproxy_spark):
        capsys.readouterr()
        assert ended(command, "report", "-q", "--format", "json", *words) == status
        pages.append(json.loads(capsys.readouterr().out))
    assert pages[0] == pages[1]
    return pages[0]


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_both_give_the_same_page_and_exit_status(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client that Kafka 4 breaks: status 4; a damaged capture: status 3 and the sentence."""
    found = same(capsys, 4, "--target", "4.0", OLD)
    assert found["analyses"]["readiness"]["parameters"]["target"] == "4.0"
    (cut := tmp_path / "cut.pcap").write_bytes(OLD.read_bytes()[:-3])
    assert len(same(capsys, 3, "--only", "inventory", cut)["damages"]) == 1


def test_the_list_is_that_of_kproxy_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(kproxy, "report", "--list") == 0
    expected = capsys.readouterr().out
    assert ended(kproxy_spark, "report", "--list") == 0
    assert capsys.readouterr().out == expected
