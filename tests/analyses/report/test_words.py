"""Sentences of reports: numbers and times for people."""

import pytest

from kproxy.analyses.report.verdicts import Summary
from kproxy.analyses.report.words import counted, lasting, overview, source_names


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0 s"),
        (3_670_000, "3.67 s"),
        (119_000_000, "119 s"),
        (720_000_000, "12 min"),
        (19_200_000_000, "5 h 20 min"),
    ],
)
def test_spans_of_time(micros: int, text: str) -> None:
    assert lasting(micros) == text


def test_counts_and_names() -> None:
    assert (counted(1, "reply", "replies"), counted(2, "reply", "replies"), counted(1200, "row")) == (
        "1 reply", "2 replies", "1,200 rows",
    )  # fmt: skip
    summary = Summary(["a\n", "b", "c", "d"], 2, 0, 0, 0, 0, 0, None, None, {})
    assert source_names(summary) == "a\\n, b, c and 1 more"
    assert overview(summary) == "no Kafka request was found in 2 connections"


def test_errors_are_named_the_most_frequent_first() -> None:
    names = {"MEMBER_ID_REQUIRED": 1200, "NOT_COORDINATOR": 3, "UNKNOWN_MEMBER_ID": 2, "FENCED_LEADER_EPOCH": 1}
    summary = Summary(["t"], 1, 1, 1, 10, 9, 0, None, None, {}, names)
    assert overview(summary).endswith(
        "9 answers with errors (1,200 MEMBER_ID_REQUIRED, 3 NOT_COORDINATOR, 2 UNKNOWN_MEMBER_ID, 1 more kind)"
    )
