"""Reports as text, Markdown and JSON: what they say, how they fit, and that names from the traffic stay text."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from kproxy.analyses.analysis import Analysis, Basis, Header, is_number
from kproxy.analyses.report.pages import escaped, json_page, markdown_page, plain
from kproxy.analyses.report.templates import fill
from kproxy.analyses.report.text import answer_lines, row_lines, summary_lines
from kproxy.analyses.report.verdicts import Answer, Report, Summary
from kproxy.analyses.report.words import cell, counted, overview, source_names, when

HOSTILE = "a\x1b[31m\u202e\nb"


def made_answer(verdict: str, **columns: list[Any]) -> Answer:
    basis = Basis(rests_on="its answers", certainty="said", wrong_if="others answered")
    header = Header(
        id="an_id",
        title="A title",
        severity="warning",
        meaning="It means.",
        action="Do it.",
        reference="https://x",
        basis=basis,
    )
    rows = pa.table(columns or {"n": [1]})
    return Answer(Analysis(header=header, sql="", path=""), {"most": 3}, rows, "warning", verdict)


def made(*answers: Answer, requests: int = 1200, **more: Any) -> Report:
    summary = Summary(["trace.pcap"], 5, 4, 1, requests, 2, 3000, 0, 90_000_000, **{"not_kafka": {}, **more})
    return Report(summary, list(answers), [])


def test_the_summary_begins_with_what_was_read() -> None:
    lines = list(summary_lines(made(made_answer("3 of them")), "trace.pcap", width=200))
    assert lines[0] == (
        "trace.pcap: 1,200 requests, 4 connections, 1 client id, 3.0 KB, 2 answers with errors, "
        "1970-01-01T00:00:00Z to 00:01:30Z (90 s)"
    )
    assert lines[2] == "warning   an_id: 3 of them"
    assert lines[-2:] == [
        "Evidence: kproxy report --only an_id trace.pcap",
        "A page for a ticket: kproxy report -o report.html trace.pcap",
    ]


def test_what_does_no_harm_has_no_evidence_and_what_was_not_found_no_advice() -> None:
    harmless = replace(made_answer("x"), severity="info")
    assert list(summary_lines(made(harmless), "t"))[-2] == "More: kproxy report --only an_id t"
    assert "Do: Do it." in answer_lines(harmless)
    assert "Do: Do it." not in answer_lines(replace(harmless, rows=harmless.rows.slice(0, 0)))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_is_about_ten_lines_of_the_width(width: int) -> None:
    long = replace(made_answer("word " * 100), severity="info")
    lines = list(summary_lines(made(*[long] * 30), "trace.pcap", width=width))
    assert max(len(line) for line in lines if "kproxy report" not in line) <= width
    assert len(lines) <= 30
    assert "22 more verdicts: kproxy report --all trace.pcap" in lines
    assert len(list(summary_lines(made(*[made_answer("x")] * 30), "t", everything=True))) > 30
    advice = list(summary_lines(made(made_answer("word " * 100 + "advice")), "t", width=width))
    assert any(line.endswith("advice") for line in advice)


def test_what_is_not_kafka_is_said() -> None:
    (line,) = summary_lines(made(requests=0, not_kafka={"tls": 3}), "t", width=200)
    assert line == (
        "trace.pcap: no Kafka request was found in 5 connections (3 tls); for TLS give the session keys with --keylog"
    )


def test_rows_that_fit_are_a_table() -> None:
    rows = pa.table({"name": ["ab", "c"], "count": [1200, 3]})
    assert list(row_lines(rows, width=20)) == ["name  count", "ab     1200", "c         3"]
    assert list(row_lines(rows, width=20, most=1))[-1] == "... 1 more rows: --rows 2, or --format json"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([2.96, 12.0, None, 4.821], [" 2.960", "12.000", "", " 4.821"]),
        ([3.0, 12.0], [" 3", "12"]),
        ([0.123456, 2.5], ["0.123456", "     2.5"]),
        ([1e-07, 2.5], ["1e-07", "  2.5"]),
    ],
)
def test_numbers_line_up(values: list[float | None], texts: list[str]) -> None:
    rows = pa.table({"n": values})
    assert list(row_lines(rows, width=20))[1:] == texts


def test_rows_that_do_not_fit_are_shown_field_by_field() -> None:
    rows = pa.table({"name": ["ab"], "topic": ["x" * 30], "none": [None]})
    assert list(row_lines(rows, width=30)) == ["row 1", "  name   ab", "  topic  " + "x" * 21, "         " + "x" * 9]


def test_commands_are_never_cut() -> None:
    ask = "captures/" + "x" * 300
    lines = list(summary_lines(made(made_answer("x")), ask, width=40))
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


def test_a_table_has_what_the_headline_names_before_all_else() -> None:
    rows = pa.table({"id": ["x" * 30] * 2, "why": ["y" * 30] * 2, "pause_ms": [12, 3], "who": ["z" * 30] * 2})
    telling = {"id": "", "why": "", "who": "", "pause_ms": "milliseconds without a consumer"}
    (head, *_, legend) = row_lines(rows, width=60, telling=telling, named={"pause_ms", "who"})
    assert head.split() == ["who", "pause_ms"]
    assert legend == "pause_ms: milliseconds without a consumer"
    assert next(row_lines(rows, width=60, telling=telling)).split() == ["id", "why"]


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
        *answer_lines(made_answer("v", name=[HOSTILE])),
        *row_lines(pa.table({"n": [HOSTILE], "m": ["y" * 99]}), width=50),
    ]
    assert all(line.isprintable() for line in shown)


def test_an_answer_says_what_it_means_and_what_to_do() -> None:
    text = "\n".join(answer_lines(made_answer("a verdict")))
    assert text == (
        "A title  (an_id, warning)\nIt means.\n\na verdict\n\nn\n1\n\nDo: Do it.\n"
        "Rests on: its answers; certain, as a client or a broker says so itself. It is wrong if others\n  answered.\n"
        "See: https://x\nParameters: most=3"
    )
    assert "no rows" in "\n".join(row_lines(pa.table({"n": pa.array([], pa.int64())})))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (1234567, "1234567"),
        (0.1, "0.1"),
        (b"\x01\xff", "0x01ff"),
        (datetime(2026, 11, 22, 1, 2, 3, 4567, tzinfo=UTC), "2026-11-22 01:02:03.004"),
        (date(2026, 1, 2), "2026-01-02"),
        ({"a": 1, "b": None}, "a 1, b "),
        (["x", 2], "x, 2"),
        ("a\x1b[0m\u202e", "a\\x1b[0m\\u202e"),
    ],
)
def test_a_value_as_text(value: object, text: str) -> None:
    assert cell(value) == text


def test_numbers_stand_right() -> None:
    assert [is_number(value) for value in (1, 1.5, True, "1", None)] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (3.67, "3.67 s"),
        (119, "119 s"),
        (720, "12 min"),
        (19_200, "5 h 20 min"),
        (300_000, "3 days"),
        (1_795_937_443, "56 years"),
    ],
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert fill("{a:s}", [{"a": seconds}]) == text


def test_a_time_over_midnight_has_both_dates() -> None:
    of_one_day, of_two = (
        Summary(["t"], 1, 1, 1, 1, 0, 0, 86_000_000_000, end, {}) for end in (86_399_000_000, 90_000_000_000)
    )
    assert when(of_one_day) == ", 1970-01-01T23:53:20Z to 23:59:59Z (7 min)"
    assert when(of_two) == ", 1970-01-01T23:53:20Z to 1970-01-02T01:00:00Z (67 min)"


def test_counts_and_names() -> None:
    assert (counted(1, "reply", "replies"), counted(2, "reply", "replies"), counted(1200, "row")) == (
        "1 reply", "2 replies", "1,200 rows",
    )  # fmt: skip
    summary = Summary(["a\n", "b", "c", "d"], 2, 0, 0, 0, 0, 0, None, None, {})
    assert source_names(summary) == "a\\n, b, c and 1 more"
    assert overview(summary) == "no Kafka request was found in 2 connections"


def test_errors_are_named_the_most_frequent_first() -> None:
    names = {
        "MEMBER_ID_REQUIRED": 1200,
        "NOT_COORDINATOR": 3,
        "UNKNOWN_MEMBER_ID": 2,
        "FENCED_LEADER_EPOCH": 1,
        "NO_REASON": 1,
    }
    summary = Summary(["t"], 1, 1, 1, 10, 9, 0, None, None, {}, names)
    assert overview(summary).endswith(
        "9 answers with errors (1,200 MEMBER_ID_REQUIRED, 3 NOT_COORDINATOR, 2 UNKNOWN_MEMBER_ID, 2 more kinds)"
    )


MARKUP = [
    "a|b",
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "![i](http://x)",
    "`code`",
    "@team",
    "a\nb",
    "**b**",
    "&lt;",
]


@pytest.mark.parametrize("name", MARKUP)
def test_a_hostile_name_stays_text(name: str) -> None:
    header = Header(id="a", title="T", severity="info", meaning="m", reference="https://kafka.apache.org/x")
    rows = pa.table({"name": [name]})
    summary = Summary(["s"], 1, 1, 1, 1, 0, 1, 0, 0, {})
    page = markdown_page(
        Report(summary, [Answer(Analysis(header=header, sql="", path=""), {}, rows, "info", name)], [])
    )
    row = page.splitlines()[page.splitlines().index("|---|") + 1]
    inner = row.removeprefix("| ").removesuffix(" |")
    assert not [at for at, char in enumerate(inner) if char in "|<>[]`*&" and inner[at - 1] != "\\"]
    assert "@team" not in page
    assert "\n<https://kafka.apache.org/x>\n" in page


def test_escaping_keeps_words() -> None:
    assert escaped("orders 12") == "orders 12"
    assert escaped("a_b") == "a\\_b"


def test_more_rows_are_counted() -> None:
    header = Header(id="a", title="T", severity="info", meaning="m")
    answer = Answer(Analysis(header=header, sql="", path=""), {}, pa.table({"n": [1, 2, 3]}), "info", "v")
    page = markdown_page(Report(Summary(["s"], 1, 1, 1, 1, 0, 1, 0, 0, {}), [answer], ["cut: short"]), most=1)
    assert "... and 2 more rows." in page
    assert "Damaged: cut\\: short" in page


def test_values_are_what_json_has() -> None:
    moment = datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=UTC)
    assert plain([moment, date(2026, 1, 2), float("nan"), {"a": float("inf")}]) == [
        "2026-11-22T01:02:03.000004Z", "2026-01-02", None, {"a": None},
    ]  # fmt: skip


def test_a_page_has_summary_verdicts_and_rows() -> None:
    header = Header(id="an_id", title="T", severity="info", meaning="m")
    rows = pa.table({"key": [b"\x00\x01"], "n": [Decimal("12")], "list": [["a", "b"]]})
    answer = Answer(Analysis(header=header, sql="", path=""), {"p": 1}, rows, "notice", "said")
    page = json.loads(json_page(Report(Summary(["s"], 1, 1, 1, 1, 0, 1, 0, None, {}), [answer], ["d"])))
    assert page["summary"]["first_seen_at"] == "1970-01-01T00:00:00.000000Z"
    assert page["summary"]["last_seen_at"] is None
    assert page["verdicts"] == [{"id": "an_id", "title": "T", "severity": "notice", "verdict": "said"}]
    assert page["analyses"]["an_id"]["rows"] == [{"key": "AAE=", "n": "12", "list": ["a", "b"]}]
    assert page["analyses"]["an_id"]["parameters"] == {"p": 1}
    assert page["damages"] == ["d"]
