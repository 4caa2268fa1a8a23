"""Reports for a terminal: widths, cuts, tables and fields; nothing that a terminal would obey."""

from typing import Any

import pyarrow as pa
import pytest

from kproxy.analyses.analysis import Analysis, Header
from kproxy.analyses.report.text import answer_lines, row_lines, summary_lines
from kproxy.analyses.report.verdicts import Answer, Report, Summary

HOSTILE = "a\x1b[31m\u202e\nb"


def answer(verdict: str, **columns: list[Any]) -> Answer:
    header = Header(
        id="an_id", title="A title", severity="warning", meaning="It means.", action="Do it.", reference="https://x"
    )
    rows = pa.table(columns or {"n": [1]})
    return Answer(Analysis(header=header, sql="", path=""), {"most": 3}, rows, "warning", verdict)


def made(*answers: Answer, requests: int = 1200, **more: Any) -> Report:
    summary = Summary(["trace.pcap"], 5, 4, 1, requests, 2, 3000, 0, 90_000_000, **{"not_kafka": {}, **more})
    return Report(summary, list(answers), [])


def test_the_summary_begins_with_what_was_read() -> None:
    lines = list(summary_lines(made(answer("3 of them")), "trace.pcap", width=200))
    assert lines[0] == (
        "trace.pcap: 1,200 requests, 4 connections, 1 client id, 3.0 KB, 2 answers with errors, "
        "1970-01-01T00:00:00Z to 00:01:30Z (90 s)"
    )
    assert lines[2] == "warning   an_id: 3 of them"
    assert lines[-2:] == [
        "Evidence: kproxy report --only an_id trace.pcap",
        "A page for a ticket: kproxy report --format html -o report.html trace.pcap",
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_is_about_ten_lines_of_the_width(width: int) -> None:
    lines = list(summary_lines(made(*[answer("word " * 100)] * 30), "trace.pcap", width=width))
    assert max(len(line) for line in lines if "kproxy report" not in line) <= width
    assert len(lines) <= 30
    assert "22 more verdicts: kproxy report --all trace.pcap" in lines
    assert len(list(summary_lines(made(*[answer("x")] * 30), "t", everything=True))) > 30


def test_what_is_not_kafka_is_said() -> None:
    (line,) = summary_lines(made(requests=0, not_kafka={"tls": 3}), "t", width=200)
    assert line == (
        "trace.pcap: no Kafka request was found in 5 connections (3 tls); for TLS give the session keys with --keylog"
    )


def test_rows_that_fit_are_a_table() -> None:
    rows = pa.table({"name": ["ab", "c"], "count": [1200, 3]})
    assert list(row_lines(rows, width=20)) == ["name  count", "ab     1200", "c         3"]
    assert list(row_lines(rows, width=20, most=1))[-1] == "... 1 more rows: --rows 2, or --format json"


def test_rows_that_do_not_fit_are_shown_field_by_field() -> None:
    rows = pa.table({"name": ["ab"], "topic": ["x" * 30], "none": [None]})
    assert list(row_lines(rows, width=30)) == ["row 1", "  name   ab", "  topic  " + "x" * 21, "         " + "x" * 9]


def test_commands_are_never_cut() -> None:
    ask = "captures/" + "x" * 300
    lines = list(summary_lines(made(answer("x")), ask, width=40))
    assert f"Evidence: kproxy report --only an_id {ask}" in lines


def test_a_table_that_does_not_fit_has_the_most_telling_columns() -> None:
    rows = pa.table({"id": ["x" * 20] * 2, "n": [1, 2], "none": [None, None], "why": ["because of this", "y" * 90]})
    assert list(row_lines(rows, width=40, telling={"n": "a number", "none": "nothing", "why": ""})) == [
        "n  why",
        "1  because of this",
        "2  " + "y" * 36 + "…",
        "more columns with --long: id",
        "",
        "n: a number",
    ]
    assert next(row_lines(rows, width=40, telling={"n": ""}, long=True)) == "row 1"
    assert next(row_lines(rows, width=40)) == "row 1", "kproxy sql: every column that was asked for"


def test_instants_are_times_and_spans_are_numbers() -> None:
    rows = pa.table(
        {"first_micros": [1795235452053831, 5], "at_ms": [1795235452053, None], "pause_ms": [1795235452053] * 2}
    )
    assert list(row_lines(rows, width=90))[1:] == [
        "2026-11-21 04:30:52.053  2026-11-21 04:30:52.053  1795235452053",
        "5                                                 1795235452053",
    ]


def test_names_from_the_traffic_are_harmless() -> None:
    shown = [
        *answer_lines(answer("v", name=[HOSTILE])),
        *row_lines(pa.table({"n": [HOSTILE], "m": ["y" * 99]}), width=50),
    ]
    assert all(line.isprintable() for line in shown)


def test_an_answer_says_what_it_means_and_what_to_do() -> None:
    text = "\n".join(answer_lines(answer("a verdict")))
    assert text == (
        "A title  (an_id, warning)\nIt means.\n\na verdict\n\nn\n1\n\nDo: Do it.\nSee: https://x\nParameters: most=3"
    )
    assert "no rows" in "\n".join(row_lines(pa.table({"n": pa.array([], pa.int64())})))
