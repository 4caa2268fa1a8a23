"""kproxy report: verdicts, rows, forms, exit codes, and what is said of wrong usage."""

import io
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from kproxy.analyses import duck
from kproxy.cli.options import schema_options
from kproxy.cli.report import Meter, tell
from kproxy.cli.report import report as report_here
from kproxy.cli.report_request import OPTIONS, ReportRequest, make_plan, report_options, request_of
from kproxy.cli.spark import report as report_on_spark
from kproxy.errors import UsageError
from tests.cli.conftest import Kproxy, Output
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
MANIFEST: dict[str, Any] = {
    row["file"]: row for row in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}
ANALYSIS = """\
/*
id: mine
title: Requests of each API
severity: {severity}
meaning: How often each API was called.
parameters:
  most: {{default: 3, meaning: How many rows.}}
verdict: "{{rows:API/APIs}}, {{api_name}} most: {{requests:,}}"
gate: warning
*/
SELECT api_name, count(*) AS requests FROM exchanges GROUP BY api_name ORDER BY requests DESC, api_name LIMIT :most
"""


Report = Callable[..., Output]


@pytest.fixture
def report(kproxy: Kproxy) -> Report:
    return partial(kproxy, "report")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "mine.sql").write_text(ANALYSIS.format(severity="critical"), encoding="utf-8")
    return tmp_path / "ours"


def test_the_summary_is_short_and_has_the_numbers_of_the_manifest(report: Report) -> None:
    code, out, err = report(ORDERS)
    requests = sum(MANIFEST[ORDERS.name]["requests_by_api_and_version"].values())
    assert (code, err) == (0, "")
    assert f"{requests} requests, 5 connections, 2 client ids" in out.replace("\n", " ")
    lines = out.splitlines()
    assert len(lines) <= 25
    assert max(len(line) for line in lines if "kproxy report" not in line) <= 100
    assert "kproxy report --only " in out


def test_the_environment_says_how_wide_it_is(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def longest() -> int:
        return max(len(line) for line in report("--only", "inventory", ORDERS)[1].splitlines())

    assert 70 < longest() <= 80  # as the fixture kproxy says
    for columns, least, most in (("150", 101, 150), ("wide", 90, 100)):
        monkeypatch.setenv("COLUMNS", columns)
        assert least <= longest() <= most


def test_only_shows_the_rows(report: Report, folder: Path) -> None:
    code, out, _ = report("--analyses", folder, "--only", "mine", "--param", "most=1", ORDERS)
    assert code == 4
    assert "1 API, ApiVersions most: 5" in out
    assert [line.split() for line in out.splitlines() if line.startswith("ApiVersions")] == [["ApiVersions", "5"]]


@pytest.mark.slow
def test_a_diff_says_what_it_compares(report: Report) -> None:
    other = CAPTURES / "03-classic-rebalance-range.pcap"
    _, out, _ = report("--only", "diff", ORDERS)
    assert f"Compared: the first half of the time of {ORDERS} with the second half." in out.replace("\n", " ")
    _, out, _ = report("--only", "diff", ORDERS, other)
    assert f"Compared: before is {ORDERS}, after is {other}." in out.replace("\n", " ")
    began = "2026-11-21T04:50Z"
    _, out, _ = report("--only", "diff", "--after", f"{began}/", "--format", "json", ORDERS)
    assert json.loads(out)["compared"] == f"Compared: before is /{began}, after is {began}/ of {ORDERS}."


@pytest.mark.slow
def test_the_summary_names_the_errors_of_the_brokers_log(report: Report) -> None:
    """Of the manifest: FindCoordinator with 15, JoinGroup with 79, InitProducerId with 14."""
    _, out, _ = report(ORDERS)
    named = "1 COORDINATOR_LOAD_IN_PROGRESS, 1 COORDINATOR_NOT_AVAILABLE, 1 MEMBER_ID_REQUIRED"
    assert f"3 answers with errors ({named})" in out.replace("\n", " ")


def test_json_has_everything(report: Report, folder: Path) -> None:
    _, out, _ = report("--analyses", folder, "--only", "mine", "--format", "json", ORDERS)
    page = json.loads(out)
    expected = MANIFEST[ORDERS.name]["requests_by_api_and_version"]
    assert page["summary"]["requests"] == sum(expected.values())
    assert page["analyses"]["mine"]["rows"][0] == {"api_name": "ApiVersions", "requests": 5}
    assert page["verdicts"][0]["id"] == "mine"


def test_markdown_is_tables(report: Report, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code, out, _ = report("--analyses", folder, "--only", "mine", "--format", "markdown", "-o", page, ORDERS)
    assert (code, out) == (4, "")
    text = page.read_text(encoding="utf-8")
    assert "| **critical** | 3 APIs, ApiVersions most\\: 5 (mine) |" in text
    assert "| api\\_name | requests |\n|---|---:|\n| ApiVersions | 5 |" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "begins"),
    sampled(
        [("r.html", "<!doctype html>"), ("r.JSON", "{"), ("r.md", "# "), ("r.txt", str(ORDERS.parent)[:20])],
        [("r.html", "<!doctype html>")],
    ),
)
def test_the_suffix_of_the_output_says_the_form(report: Report, name: str, begins: str, tmp_path: Path) -> None:
    page = tmp_path / name
    assert report("-o", page, ORDERS)[:2] == (0, "")
    assert page.read_text(encoding="utf-8").startswith(begins)
    assert report("--format", "json", "-o", page, ORDERS)[:2] == (0, "")
    assert page.read_text(encoding="utf-8").startswith("{")


@pytest.mark.slow
def test_the_exit_status_is_4_where_it_was_asked_for(report: Report, folder: Path) -> None:
    assert report("--analyses", folder, ORDERS)[0] == 0
    assert report("--analyses", folder, "--only", "mine", ORDERS)[0] == 4
    assert report("--analyses", folder, "--fail-on", "critical", ORDERS)[0] == 4
    (folder / "mine.sql").write_text(ANALYSIS.format(severity="notice"), encoding="utf-8")
    assert report("--analyses", folder, "--only", "mine", ORDERS)[0] == 0
    assert report("--analyses", folder, "--only", "mine", "--fail-on", "notice", ORDERS)[0] == 4


def test_the_list_names_parameters(report: Report, folder: Path) -> None:
    code, out, _ = report("--list", "--analyses", folder)
    assert code == 0
    assert "    most=3  How many rows.\n" in out
    assert any(line.startswith("latency ") for line in out.splitlines())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a capture, a decoded log or a directory of tables"),
        (("gone.pcap",), "gone.pcap: no such file"),
        (("/dev/null",), "/dev/null: byte 0: the file is empty"),
        (("--only", "latncy", ORDERS), "there is no analysis 'latncy'; did you mean latency"),
        (("--param", "x", ORDERS), "--param wants NAME=VALUE, not 'x'"),
        (("--param", "nonsense=1", ORDERS), "no parameter of the analyses that are run is called 'nonsense'"),
        (("--only", "latency", "--param", "min_requests=few", ORDERS), "min_requests is a whole number, not 'few'"),
        (("--analyses", "gone", ORDERS), "gone is not there; --analyses wants a folder"),
        (
            ("-o", "r.xyz", ORDERS),
            "-o r.xyz: no format has the suffix .xyz; use .txt, .json, .html, .htm, .md, or add --f",
        ),
        (("-o", ORDERS, ORDERS), "is also an input"),
        (("-", "-"), "standard input can be read only once"),
        (("--before", "/", ORDERS), "--before and --after go together"),
    ],
)
def test_wrong_usage_is_one_sentence(
    report: Report, words: tuple[object, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = report(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("kproxy: ") and sentence in err


def test_a_mistake_in_a_users_file_has_its_place(report: Report, folder: Path) -> None:
    path = folder / "mine.sql"
    path.write_text(ANALYSIS.format(severity="critical").replace("count(*)", "cuont(*)"), encoding="utf-8")
    code, out, err = report("--analyses", folder, "--only", "mine", ORDERS)
    assert (code, out) == (2, "")
    assert err.startswith(f"{path}:11:") and "cuont" in err


def test_damage_is_told_after_the_report(report: Report, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(ORDERS.read_bytes()[:-1000])
    code, out, err = report("--only", "latency", cut)
    assert code == 3
    assert "Fetch" in out
    assert err.startswith("kproxy: ") and "cut.pcap" in err


@pytest.mark.parametrize("few_rows", [0, 20_000])
def test_an_analysis_that_meets_a_number_too_large_costs_only_itself(
    report: Report, folder: Path, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "FEW_ROWS", few_rows)
    large = (
        ANALYSIS.format(severity="notice")
        .replace("count(*)", f"{2**63 - 1} * count(*)")
        .replace("id: mine", "id: large")
    )
    (folder / "large.sql").write_text(large, encoding="utf-8")
    code, out, err = report("--analyses", folder, "--only", "large", "--only", "latency", ORDERS)
    assert code == 3
    assert "Fetch" in out
    assert err.startswith("kproxy: large is left out: a value is out of range in large (")


def test_a_capture_without_kafka_says_so(report: Report, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(ORDERS.read_bytes()[:24])
    code, out, _ = report(empty)
    assert code == 0
    assert "no Kafka traffic, and no other TCP connection with data, was found" in out.replace("\n", " ")
    assert "Evidence" not in out


def test_without_an_optional_package_it_names_the_extra(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, _, err = report(ORDERS)
    assert (code, err) == (2, "kproxy: this needs duckdb: pip install 'kproxy-kafka[report]'\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Meter(wanted=True) as meter:
        meter.show("Spark is started")
    assert shown.getvalue() == "\r\x1b[2KSpark is started\r\x1b[2K"


def test_nothing_is_shown_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Meter(wanted=True) as meter:  # standard error is no terminal
        meter.show("x")
    assert capsys.readouterr().err == ""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Meter(wanted=False) as meter:
        meter.show("x")
    assert shown.getvalue() == ""


def test_what_damages_say_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    tell(["a\x1b[31m"], "kproxy-spark")
    assert capsys.readouterr().err == "kproxy-spark: a\\x1b[31m\n"


def test_both_commands_have_all_common_options() -> None:
    @click.command()
    @report_options
    def common(**options: object) -> None:
        request_of(options)

    names = {option.name: option.opts for option in common.params}
    of_schemas = {option.name for option in click.command(schema_options(lambda: None)).params}
    assert len(names) == len(OPTIONS) and names.keys() > of_schemas
    assert names.keys() - of_schemas == set(ReportRequest.__struct_fields__) - {"schemas"}
    for command in (report_here, report_on_spark):
        assert names.items() <= {option.name: option.opts for option in command.params}.items()


def test_a_plan_has_what_runs() -> None:
    plan = make_plan(ReportRequest(only=("latency",), parameters=("min_requests=7",)), ["a"], "kproxy report")
    assert [analysis.id for analysis in plan.analyses] == ["latency"]
    assert plan.values == {"min_requests": "7"}
    assert "exchanges" in plan.tables and "records" not in plan.tables
    assert "records" in make_plan(ReportRequest(records=True), ["a"], "kproxy report").tables
    assert "records" not in make_plan(ReportRequest(), ["a"], "kproxy report").tables


@pytest.mark.parametrize("release", ["4", "4.x", "4.0", "3.9.1"])
def test_a_target_is_a_release(release: str) -> None:
    plan = make_plan(ReportRequest(target=release), ["a"], "kproxy report")
    assert all("target" in analysis.parameters for analysis in plan.analyses)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ReportRequest(parameters=("=1",)), "--param wants NAME=VALUE"),
        (ReportRequest(parameters=("nonsense=1",)), "called 'nonsense'; kproxy x --list shows them"),
        (ReportRequest(target="5.77"), "--target 5.77 is no release that is known"),
        (ReportRequest(only=("diff",), before="a/b"), "--before and --after go together"),
    ],
)
def test_a_mistake_is_told(options: ReportRequest, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make_plan(options, ["a"], "kproxy x")


def test_a_diff_is_of_two_sources_at_most() -> None:
    assert make_plan(ReportRequest(only=("diff",)), ["a", "b"], "x").compared == "Compared: before is a, after is b."
    with pytest.raises(UsageError, match="diff compares two sources"):
        make_plan(ReportRequest(only=("diff",)), ["a", "b", "c"], "x")
