"""Markdown: nothing from the traffic is markup, a link or a mention."""

import pyarrow as pa
import pytest

from kproxy.analyses.analysis import Analysis, Header
from kproxy.analyses.report.markdown import escaped, markdown_page
from kproxy.analyses.report.verdicts import Answer, Report, Summary

HOSTILE = [
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


@pytest.mark.parametrize("name", HOSTILE)
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
