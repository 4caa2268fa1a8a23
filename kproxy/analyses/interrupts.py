"""Ctrl-C while DuckDB runs a query: it ends the query, and says so with an exception that is not KeyboardInterrupt."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

WORDS = re.compile(
    r"query interrupted|interrupt error", re.IGNORECASE
)  # DuckDB's; while rows are fetched, in an error of Arrow


@contextmanager
def ends_at_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for a query that Ctrl-C ended."""
    try:
        yield
    except (
        Exception
    ) as error:  # RuntimeError, duckdb.InterruptException, ArrowException, OSError: it depends on what was waited for
        if WORDS.search(str(error)):
            raise KeyboardInterrupt from None
        raise
