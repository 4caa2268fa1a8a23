"""Verdicts: severity of rows, order, sentences; numbers of the summary are those of the manifest."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kproxy.analyses.analysis import Analysis, Header
from kproxy.analyses.duck import Database
from kproxy.analyses.report.templates import TemplateError, check_template, fields_of, fill, show, shown_by
from kproxy.analyses.report.verdicts import make_report, verdict_of, worst
from kproxy.errors import ConfigError
from tests.support.command import decode
from tests.support.corpus import CAPTURES
from tests.support.tables import tables_of

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
LOSSY = CAPTURES / "11-lossy-network.pcap"
MANIFEST: dict[str, Any] = {
    row["file"]: row for row in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}
ROWS: list[dict[str, Any]] = [
    {"client_id": "a", "topic": "orders", "records": 1200, "bytes": 1536, "ms": 1234.5, "share": 0.125, "breaks": True},
    {"client_id": "b", "topic": "orders", "records": 34, "bytes": 0, "ms": 2.5, "share": 0.5, "breaks": False},
    {"client_id": "a", "topic": None, "records": None, "bytes": 0, "ms": None, "share": None, "breaks": False},
]


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
        analysis("many", "SELECT unnest([1, 2]) AS n", severity="warning"),
        analysis("few", "SELECT 1 AS n", severity="warning"),
        analysis("worst", "SELECT 'critical' AS severity"),
    ]
    with Database([ORDERS], wanted=[]) as database:
        made = make_report(database, analyses, {}, sources=["x"])
    assert [one.analysis.id for one in made.verdicts] == ["worst", "many", "few", "late", "info", "told"]
    assert made.verdicts[-1].verdict == "all is well"


@pytest.mark.parametrize(
    "name", ["01-java-produce-consume-group.pcap", "04-transactions.pcap", "11-lossy-network.pcap"]
)
def test_the_summary_counts_what_the_manifest_counts(name: str) -> None:
    with Database([CAPTURES / name], wanted=[]) as database:
        summary = make_report(database, [], {}).summary
    assert summary.requests == sum(MANIFEST[name]["requests_by_api_and_version"].values())
    assert summary.kafka_connections == MANIFEST[name]["transport"]["connections"]
    assert summary.clients == len(MANIFEST[name]["client_ids"])
    assert summary.segments_again == MANIFEST[name]["transport"].get("retransmitted", 0)


def test_tables_and_logs_do_not_say_what_was_sent_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert decode("-q", "--format", "jsonl", "-o", log, LOSSY) == 0
    for source in (tables_of(LOSSY.name), log):
        with Database([LOSSY, source], wanted=[]) as database:
            assert make_report(database, [], {}).summary.segments_again is None


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{client_id} to {topic}", "a to orders"),
        ("{rows} rows, {rows:client/clients}", "3 rows, 3 clients"),
        ("{count client_id:client/clients}, {count topic:topic/topics}", "2 clients, 1 topic"),
        (
            "{most records}, {most bytes where breaks=false}, {most share}, {most ms where breaks=x}",
            "Most, One of 2 with most, First, First",
        ),
        ("{counts client_id}; {counts breaks}", "2 a, 1 b; 2 False, 1 True"),
        ("{counts breaks by records}", "True (1,200), False (34)"),
        ("{sum records:,} {max records} {min records}", "1,234 1,200 34"),
        ("{rows where breaks=true:client breaks/clients break} of {rows}", "1 client breaks of 3"),
        ("{topic where breaks=false}", "orders"),
        ("{bytes:bytes} {ms:ms} {share:%}", "1.5 KB 1,234 ms 12.5 %"),
        ("{records:.1f}", "1200.0"),
        ("100 {{%}}", "100 {%}"),
        ("{client_id where breaks=maybe}", "unknown"),
        ("{rows where topic=null}", "1"),
        ("{rows} rows[, {rows where breaks=true} break][, {bytes where breaks=false} bytes]", "3 rows, 1 break"),
        (
            "[{topic where breaks=maybe} has|[{rows where breaks=x:?}none|all {rows} of {sum records}]]!",
            "all 3 of 1,234!",
        ),
        ("[{rows:?}some|none]", "some"),
        ("a|b], {client_id:1}", "a|b], a"),
    ],
)
def test_a_template_is_filled(template: str, text: str) -> None:
    check_template(template)
    assert fill(template, ROWS) == text


def test_a_time_is_shown_as_everywhere_in_a_report() -> None:
    at = datetime(2026, 11, 22, 1, 2, 3, 4567, tzinfo=UTC)
    assert fill("it went at {went_at}", [{"went_at": at}]) == "it went at 2026-11-22T01:02:03Z"


def test_of_many_kinds_the_rest_is_counted() -> None:
    kinds = [{"kind": letter} for letter in "abcdefghij"]
    assert fill("{counts kind}", kinds[:9]).endswith(", 1 h, 1 i")
    assert fill("{counts kind}", kinds).endswith(", 1 g, 1 h, 2 more kinds")


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_client_without_an_id_is_called_so(nothing: str | None) -> None:
    rows = [{"client_id": nothing}, {"client_id": "a"}]
    assert fill("{client_id}, one of {count client_id}", rows) == "(no client id), one of 2"


@pytest.mark.parametrize("name", ["a\x1b[31m", "a\nb", "a\u202eb", "x" * 500])
def test_names_from_the_traffic_stay_harmless(name: str) -> None:
    text = fill("{client_id}", [{"client_id": name}])
    assert text.isprintable()
    assert len(text) < 100


@pytest.mark.parametrize(
    "template", ["{", "{a b c}", "{client_id.__class__}", "{rows[0]}", "{median ms}", "[{rows}", "[{rows}|a|b]"]
)
def test_a_template_that_cannot_be_filled_is_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        check_template(template)


def test_a_column_that_the_rows_do_not_have_is_told() -> None:
    with pytest.raises(TemplateError, match="the rows have no column 'nope'"):
        fill("{nope}", ROWS)
    with pytest.raises(TemplateError, match="is not one of a number"):
        fill("{records:xyz}", ROWS)


def test_the_columns_of_a_template_are_known() -> None:
    assert fields_of("{rows where a=1} {count b} {c:ms}[, {d}|[{e}]]") == {"a", "b", "c", "d", "e"}
    assert shown_by("{rows where a=1} [{b:?}c|{d:ms}]") == {"a", "d"}


def test_lists_and_others_are_texts() -> None:
    assert show(["a", "b"]) == "a, b"
    assert show(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert show(None) == "unknown"
    assert show(True) == "yes"
