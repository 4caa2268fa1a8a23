"""Each scene in which a finding fires gives the same rows on Spark as on DuckDB, and there are some."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.spark.report import SparkTables
from tests.spark.test_report import rows
from tests.support.scenes import SCENES, Rows, Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]  # test_report.py compares them on captures
FINDINGS = library.load()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.finding)
def test_a_finding_fires_alike_on_both(spark: "SparkSession", tmp_path: Path, scene: Scene) -> None:
    tables = Rows()
    scene.play(tables, True)
    folder = tables.write(tmp_path / "tables")
    finding = FINDINGS[scene.finding]
    opened = SparkTables(spark, [str(folder)])
    found = rows(opened.run(finding))
    opened.close()
    with Database([folder]) as database:
        assert found == rows(database.run(finding))
    assert len(found) == scene.rows
