"""Each finding gives the same rows on Spark as on DuckDB, and fires in its scenes: all at once, each in a cluster of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES
from kproxy.spark.report import SparkTables
from tests.spark.test_report import rows
from tests.support.scenes import SCENES
from tests.support.scenes.together import play_all
from tests.support.spark_tables import cached_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]  # test_report.py compares them on captures
FINDINGS = library.load()
LEAST_ROWS = {finding: sum(scene.rows for scene in SCENES if scene.finding == finding) for finding, *_ in SCENES}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play_all().write(tmp_path_factory.mktemp("scenes") / "tables")


@pytest.fixture(scope="module")
def on_spark(spark: "SparkSession", tables: Path) -> Iterator[SparkTables]:
    with cached_tables(spark, tables) as opened:
        yield opened


@pytest.fixture(scope="module")
def on_duckdb(tables: Path) -> Iterator[Database]:
    with Database([tables], wanted=TABLES) as database:
        yield database


@pytest.mark.parametrize("name", LEAST_ROWS)
def test_a_finding_fires_alike_on_both(on_spark: SparkTables, on_duckdb: Database, name: str) -> None:
    found = rows(on_spark.run(FINDINGS[name]))
    assert found == rows(on_duckdb.run(FINDINGS[name]))
    assert len(found) >= LEAST_ROWS[name]
