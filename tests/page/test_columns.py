"""Columns of the page are those of the decoded log, under its names."""

from kproxy.output.where import CHEAP, OF_LINE
from kproxy.page.columns import ADDED, COLUMNS, CONTRACT, SHOWN


def test_what_is_said_to_be_in_the_decoded_log_is_there() -> None:
    assert {name for name, column in COLUMNS.items() if column.in_log} <= {*CHEAP, *OF_LINE}
    assert set(CHEAP) - set(COLUMNS) == {"event", "trailing"}


def test_each_is_made_of_a_column_that_exists() -> None:
    for column in COLUMNS.values():
        assert column.sql.removeprefix("e.") in {*CONTRACT, *ADDED}
        assert column.meaning
    assert "number" in SHOWN
