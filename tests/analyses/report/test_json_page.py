"""JSON: every row, with times, bytes and numbers as JSON has them."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from kproxy.analyses.analysis import Analysis, Header
from kproxy.analyses.report.json_page import json_page, plain
from kproxy.analyses.report.verdicts import Answer, Report, Summary


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
    assert page["verdicts"] == [{"id": "an_id", "severity": "notice", "verdict": "said"}]
    assert page["analyses"]["an_id"]["rows"] == [{"key": "AAE=", "n": "12", "list": ["a", "b"]}]
    assert page["analyses"]["an_id"]["parameters"] == {"p": 1}
    assert page["damages"] == ["d"]
