"""Templates of verdicts: each kind of field over rows counted by hand; hostile names stay on their line."""

from typing import Any

import pytest

from kproxy.analyses.report.templates import TemplateError, check_template, fields_of, fill, show

ROWS: list[dict[str, Any]] = [
    {"client_id": "a", "topic": "orders", "records": 1200, "bytes": 1536, "ms": 1234.5, "share": 0.125, "breaks": True},
    {"client_id": "b", "topic": "orders", "records": 34, "bytes": 0, "ms": 2.5, "share": 0.5, "breaks": False},
    {"client_id": "a", "topic": None, "records": None, "bytes": 0, "ms": None, "share": None, "breaks": False},
]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{client_id} to {topic}", "a to orders"),
        ("{rows} rows, {rows:client/clients}", "3 rows, 3 clients"),
        ("{count client_id:client/clients}, {count topic:topic/topics}", "2 clients, 1 topic"),
        ("{counts client_id}; {counts breaks}", "2 a, 1 b; 2 False, 1 True"),
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


def test_lists_and_others_are_texts() -> None:
    assert show(["a", "b"]) == "a, b"
    assert show(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert show(None) == "unknown"
    assert show(True) == "yes"
