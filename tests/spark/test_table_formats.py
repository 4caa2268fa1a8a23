"""Tables of Delta and Iceberg: ingest with a Spark that has them, and read by programs that are not Spark (delta-rs, PyIceberg).

Their jars are of Spark 4.1, which is not the newest: an environment of its own has that Spark.
"""

import json
import os
import site
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kproxy.cli import main
from kproxy.output.tables import TABLES
from tests.support.corpus import CAPTURES
from tests.support.kafka.jars import COPY
from tests.support.spark import ROOT
from tests.support.split_captures import Rowset, differences, rowset
from tests.support.tables import decode

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]
PYSPARK, DELTA, ICEBERG = "4.1.4", "4.3.1", "1.11.0"
JARS = (("io.delta", "delta-spark_4.1_2.13", DELTA), ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", ICEBERG))
WANTED = "-DincludeGroupIds=io.delta,io.unitycatalog,org.apache.iceberg"  # all else comes with Spark
NAMES = ("01-java-produce-consume-group.pcap", "06-sasl-scram.pcap")
READ_DELTA = (
    "from deltalake import DeltaTable\ndef read(place, name): return DeltaTable(f'{place}/{name}').to_pyarrow_table()"
)
READ_ICEBERG = """
from pathlib import Path
from pyiceberg.table import StaticTable
def read(place, name):
    folder = Path(place) / "kafka" / name / "metadata"
    newest = max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0]))
    return StaticTable.from_metadata(str(newest)).scan().to_arrow()
"""
COPY_ROWS = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from kproxy.output.tables import TABLES, schema_of
for name in TABLES:
    rows = read(sys.argv[1], name)
    schema = pq.read_schema(f"{sys.argv[2]}/{name}/part-00000.parquet")
    (Path(sys.argv[3]) / name).mkdir(parents=True)
    pq.write_table(rows.select(schema.names).cast(schema), f"{sys.argv[3]}/{name}/rows.parquet")
    assert {"source", "cluster", "day"} <= set(rows.schema.names)
"""


@dataclass
class Environment:
    """A Python with the Spark of PYSPARK, and jars."""

    python: Path
    jars: str

    def run(self, settings: dict[str, str], *words: object) -> str:
        """Run Python with these words, and with a session that has these settings; what it told."""
        settings |= {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        settings |= {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.sql.adaptive.enabled": "false"}
        settings |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        given = " ".join(f"--conf {name}={value}" for name, value in settings.items())
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        environment |= {"PYSPARK_SUBMIT_ARGS": f"--jars {self.jars} {given} pyspark-shell", "PYTHONPATH": str(ROOT)}
        environment |= {"PYSPARK_PYTHON": str(self.python), "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [str(self.python), *map(str, words)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stderr[-4_000:]
        return done.stderr


@pytest.fixture(scope="module")
def environment(require: Callable[[str, object, str], None], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    require("spark", any(Path(folder, "mvn").exists() for folder in os.environ["PATH"].split(":")), "needs Maven")
    folder = tmp_path_factory.mktemp("formats")
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"pyspark=={PYSPARK}", "deltalake", "pyiceberg"], check=True)
    [packages] = (folder / "env" / "lib").glob("python*/site-packages")
    packages.joinpath("others.pth").write_text("\n".join(site.getsitepackages()))  # what kproxy needs, and pyarrow
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in JARS
    )
    (folder / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kproxy</groupId>'
        f"<artifactId>formats</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), COPY, f"-DoutputDirectory={folder}/jars", WANTED]
    subprocess.run(command, check=True, timeout=900, stdin=subprocess.DEVNULL)
    return Environment(python, ",".join(map(str, sorted((folder / "jars").glob("*.jar")))))


def settings_of(name: str, folder: Path) -> dict[str, str]:
    if name == "delta":
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        return {
            "spark.databricks.delta.snapshotPartitions": "2",  # its default is for large tables
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": catalog,
        }
    lake = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"{folder}/lake"}
    return {f"spark.sql.catalog.lake{suffix}": value for suffix, value in lake.items()}


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_tables_have_the_rows_of_parquet_however_often_they_are_written(
    environment: Environment, tmp_path: Path, name: str
) -> None:
    (tmp_path / "in").mkdir()
    for capture in NAMES:
        (tmp_path / "in" / capture).write_bytes((CAPTURES / capture).read_bytes())
    delta = ["-o", tmp_path / "lake", "--output-format", name]
    place = (
        delta if name == "delta" else ["-o", "lake.kafka", "--state", tmp_path / "state"]
    )  # the session's catalog says what it is
    program = ["-c", "from kproxy.cli.spark import main; main()", "ingest", "--master", "local[2]"]
    words = [*program, *place, "--split-from", "0", "--parts", "2", "--records", tmp_path / "in"]
    settings = settings_of(name, tmp_path)

    def check(step: str) -> None:
        expected: Rowset = {table: [] for table in TABLES}
        for capture in (tmp_path / "in").iterdir():
            assert decode("--records", "-o", tmp_path / f"{step}-{capture.name}", capture) == 0
            for table, rows in rowset(tmp_path / f"{step}-{capture.name}").items():
                expected[table] = sorted(expected[table] + rows)
        reader = (READ_DELTA if name == "delta" else READ_ICEBERG) + COPY_ROWS
        tables = tmp_path / f"{step}-{NAMES[0]}"
        environment.run(settings, "-c", reader, tmp_path / "lake", tables, tmp_path / step)
        assert differences(expected, rowset(tmp_path / step)) == {}

    assert "2 files read, 0 were there already" in environment.run(settings, *words)
    assert "2 files read, 0 were there already" in environment.run(settings, *words, "--again")
    check("again")
    (tmp_path / "in" / NAMES[0]).write_bytes((CAPTURES / "05-admin.pcap").read_bytes())
    (tmp_path / "gone").mkdir()
    (tmp_path / "in" / NAMES[1]).rename(
        tmp_path / "gone" / NAMES[1]
    )  # as a capture that was rotated away: its rows stay
    assert "1 file read, 0 were there already" in environment.run(settings, *words)
    (tmp_path / "gone" / NAMES[1]).rename(tmp_path / "in" / NAMES[1])
    assert "0 files read, 2 were there already" in environment.run(settings, *words)
    check("changed")
    entries = list((tmp_path / ("state" if name == "iceberg" else "lake")).glob("_kproxy/files/*.json"))
    assert [json.loads(path.read_text())["state"] for path in entries] == ["done", "done"]
    check_report(environment, settings, tmp_path, name)


def check_report(environment: Environment, settings: dict[str, str], tmp_path: Path, name: str) -> None:
    """kproxy-spark report answers from these tables as kproxy report does from the captures, and kproxy report refuses them."""
    places = [str(tmp_path / "lake")] if name == "delta" else ["lake.kafka", str(tmp_path / "lake" / "kafka")]
    chosen = ("--only", "latency", "--format", "json", "-o")
    kproxy("report", "-q", *chosen, str(tmp_path / "expected.json"), *map(str, sorted((tmp_path / "in").iterdir())))
    expected = json.loads((tmp_path / "expected.json").read_text())["analyses"]
    for place in places:
        page = tmp_path / f"{name}.json"
        program = ["-c", "from kproxy.cli.spark import main; main()", "report", "--master", "local[2]"]
        environment.run(settings, *program, *chosen, page, place)
        assert json.loads(page.read_text())["analyses"] == expected
    with pytest.raises(SystemExit) as ended:
        main(["report", "-q", places[-1]])
    assert ended.value.code == 2


def kproxy(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    assert not ended.value.code
