"""What makes a file be read again, and how files are counted."""

from kproxy.spark.catalog import DONE, Entry
from kproxy.spark.targets import Report, mark_of, tables_of
from kproxy.spark.whole import Options


def test_other_options_or_another_cluster_make_other_rows() -> None:
    marks = [mark_of(Options(), None), mark_of(Options(records=True), None), mark_of(Options(), "prod")]
    assert len(set(marks)) == 3
    assert marks[0] == mark_of(Options(), None)


def test_records_have_a_table_if_they_are_asked_for() -> None:
    assert "records" not in [table.name for table in tables_of(Options())]
    assert "records" in [table.name for table in tables_of(Options(records=True))]


def test_a_report_adds_up() -> None:
    report = Report()
    for number in (1, 2):
        entry = Entry(f"/{number}", 1, 1, "i", "o", DONE, rows={"errors": number}, problems=["cut"] * (number - 1))
        report.add(entry)
    assert (report.read, report.rows, report.problems) == (2, {"errors": 3}, ["cut"])
