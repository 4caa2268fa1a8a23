"""Verdicts: severity of rows, order, sentences; numbers of the summary are those of the manifest."""

import json
from typing import Any

import pyarrow as pa
import pytest

from kproxy.analyses.analysis import Analysis, Header
from kproxy.analyses.duck import Database
from kproxy.analyses.report.verdicts import make_report, verdict_of, worst
from kproxy.errors import ConfigError
from tests.support.corpus import CAPTURES

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
MANIFEST: dict[str, Any] = {
    row["file"]: row for row in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}


def analysis(name: str, sql: str, **more: Any) -> Analysis:
    header = {"id": name, "title": name, "severity": "info", "meaning": "m", "verdict": "{rows} rows", **more}
    return Analysis(header=Header(**header), sql=sql, path=f"{name}.sql")


def test_the_worst_row_gives_the_severity() -> None:
    rows = pa.table({"severity": ["info", "critical", None, "strange"]})
    assert worst(rows, "notice") == "critical"
    assert worst(rows.slice(0, 0), "notice") == "notice"
    assert worst(pa.table({"a": [1]}), "warning") == "warning"


def test_a_sentence_over_rows_or_over_none() -> None:
    one = analysis("a", "", verdict="{sum n} of {n}", otherwise="nothing")
    rows = pa.table({"n": [3, 4], "other": ["x", "y"]})
    assert verdict_of(one, rows) == "7 of 3"
    assert verdict_of(one, rows.slice(0, 0)) == "nothing"
    with pytest.raises(ConfigError, match=r"a\.sql:1:1: verdict: the rows have no column 'm'"):
        verdict_of(analysis("a", "", verdict="{m}"), rows)


def test_what_matters_most_comes_first() -> None:
    analyses = [
        analysis("told", "SELECT 1 AS n WHERE false", otherwise="all is well", severity="critical"),
        analysis("info", "SELECT 1 AS n"),
        analysis("silent", "SELECT 1 AS n WHERE false", severity="critical"),
        analysis("late", "SELECT 1 AS n", severity="warning", order=90),
        analysis("many", "SELECT explode(array(1, 2)) AS n", severity="warning"),
        analysis("few", "SELECT 1 AS n", severity="warning"),
        analysis("worst", "SELECT 'critical' AS severity"),
    ]
    with Database([ORDERS], wanted=[]) as database:
        made = make_report(database, analyses, {}, sources=["x"])
    assert [one.analysis.id for one in made.verdicts] == ["worst", "many", "few", "late", "info", "told"]
    assert made.verdicts[-1].verdict == "all is well"


@pytest.mark.parametrize("name", ["01-java-produce-consume-group.pcap", "04-transactions.pcap"])
def test_the_summary_counts_what_the_manifest_counts(name: str) -> None:
    with Database([CAPTURES / name], wanted=[]) as database:
        summary = make_report(database, [], {}).summary
    assert summary.requests == sum(MANIFEST[name]["requests_by_api_and_version"].values())
    assert summary.kafka_connections == MANIFEST[name]["transport"]["connections"]
    assert summary.clients == len(MANIFEST[name]["client_ids"])
