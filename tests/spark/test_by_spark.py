"""Outputs and inputs that no disk is: a view of Hadoop (viewfs://), whose files only Spark's JVM reaches."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES
from kproxy.spark.ingest import Output, ingest
from kproxy.spark.targets import Report
from kproxy.spark.whole import Options
from tests.support.spark import view_of
from tests.support.split_captures import decoded, differences, rowset
from tests.support.traffic import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
CAPTURE = CAPTURES / "01-java-produce-consume-group.pcap"
ALL_ROWS = Options(records=True)


@pytest.fixture
def view(spark: "SparkSession", tmp_path: Path) -> str:
    (tmp_path / "seen" / "in").mkdir(parents=True)
    return view_of(spark, tmp_path / "seen")


def run(spark: "SparkSession", view: str, **options: object) -> Report:
    inputs, output = [f"{view}/in"], Output(f"{view}/out")
    return ingest(spark.sparkContext, inputs, output, options=ALL_ROWS, **options)  # type: ignore[arg-type]


def test_in_and_out_go_through_hadoop_once(spark: "SparkSession", view: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "seen" / "in", tmp_path / "seen" / "out"
    (folder / "a b,{1}.pcap").write_bytes(CAPTURE.read_bytes())
    (folder / "cut.pcap").write_bytes(CAPTURE.read_bytes()[:60_000])
    (folder / "empty.pcap").touch()
    expected = decoded(folder / "a b,{1}.pcap", tmp_path, "--records")
    report = run(spark, view)
    assert report.read == 3
    quarantine = [json.loads(path.read_text()) for path in (out / "_kproxy" / "quarantine").glob("*.json")]
    assert sorted(each["path"] for each in quarantine) == [f"{view}/in/cut.pcap", f"{view}/in/empty.pcap"]
    found = rowset(out)
    assert all(set(expected[table]) <= set(found[table]) for table in TABLES)
    assert report.rows["exchanges"] == len(found["exchanges"]) > len(expected["exchanges"]) == 23
    assert all(list((out / table).glob("cluster=*/day=*/*.parquet")) for table in TABLES)
    assert run(spark, view) == Report(skipped=3)
    assert run(spark, view, again=True).read == 3
    assert differences(found, rowset(out)) == {}


def test_a_capture_is_divided(spark: "SparkSession", view: str, tmp_path: Path) -> None:
    """Once with a copy in a staging folder, once as on a cluster without one: through Spark's shuffle."""
    (tmp_path / "seen" / "in" / CAPTURE.name).write_bytes(CAPTURE.read_bytes())
    (tmp_path / "staging").mkdir()
    for name, inputs in (("staged", f"{view}/in"), ("shuffled", str(tmp_path / "seen" / "in"))):
        output = Output(f"{view}/{name}", staging=str(tmp_path / "staging"))
        ingest(spark.sparkContext, [inputs], output, options=ALL_ROWS, split_from=0, parts=7)
        assert not list((tmp_path / "staging").iterdir())
        (tmp_path / name).mkdir()
        expected = decoded(CAPTURE, tmp_path / name, "--records")
        assert differences(expected, rowset(tmp_path / "seen" / name)) == {}


def test_what_is_not_there_is_said(spark: "SparkSession", view: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"/in/\*\.log: no such file"):
        ingest(spark.sparkContext, [f"{view}/in/*.log"], str(tmp_path))
    (tmp_path / "a.pcap").touch()
    for name in ("delta", "iceberg"):
        with pytest.raises(UsageError, match=f"this Spark session has no {name}"):
            ingest(spark.sparkContext, [str(tmp_path / "a.pcap")], Output(str(tmp_path / "out"), name))
