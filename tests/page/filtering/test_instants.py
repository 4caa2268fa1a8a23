"""Times as texts and as timestamps: in SQL as in CEL over the text of the decoded log."""

from random import Random
from typing import Any

import cel
import duckdb
import pytest

from kproxy.output.times import render_instant
from kproxy.page.filtering import instants
from kproxy.page.filtering.sql import condition_sql

AT = 1_763_717_797_123_456_000
TIMES = [
    AT,
    AT + 1,
    AT + 999,
    AT - 456_000,
    AT - 123_456_000,
    AT - 1,
    0,
    -5,
    AT + 86_400 * 10**9,
    4_000_000_000_000_000_000,
]
BEGINNINGS = [render_instant(AT)[:length] + end for length in range(28) for end in ("", "Z", "0", "x")]


@pytest.fixture(scope="module")
def database() -> Any:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE TABLE e AS SELECT unnest($times)::BIGINT AS request_ns", {"times": [*TIMES, None]})
        yield connection


def agree(database: Any, condition: str) -> None:
    found = condition_sql(condition)
    assert found is not None, condition
    rows = database.execute(f"SELECT {found[1]} FROM e").fetchall()
    program = cel.compile(condition)
    expected = [program.execute({"requestAt": render_instant(at)}) for at in TIMES]
    assert [row[0] for row in rows[:-1]] == expected, condition
    assert rows[-1] == (None,)


def test_times_before_and_behind_any_beginning_of_one(database: Any) -> None:
    source = Random(3)
    for text in [*BEGINNINGS, "2025-02-30", "9999", "é"]:
        agree(database, f"requestAt {source.choice(['<', '<='])} '{text}'")
        agree(database, f"'{text}' {source.choice(['<', '<='])} requestAt")


@pytest.mark.parametrize("method", sorted(instants.PARTS))
def test_parts_of_timestamps(database: Any, method: str) -> None:
    for value in (0, 1, 5, 10, 21, 324, 2025):
        agree(database, f"timestamp(requestAt).{method}() > {value}")


def test_timestamps_and_spans(database: Any) -> None:
    for span in ("1s", "0s", "500us", "12h", "3m", "7ms"):
        agree(database, f"timestamp(requestAt) - timestamp('2025-11-21T09:36:37Z') > duration('{span}')")
    agree(database, "timestamp(requestAt) >= timestamp('2025-11-21T09:36:37Z')")


def test_what_is_no_time_is_left_to_cel() -> None:
    for text in ("timestamp('x')", "timestamp('2025-11-21T09:36:37+01:00')", "timestamp(clientId)"):
        assert condition_sql(f"timestamp(requestAt) > {text}") is None
    assert condition_sql("timestamp(requestAt) - timestamp(requestAt) > duration('1.5004s')") is None
