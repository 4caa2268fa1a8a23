"""Ctrl-C while DuckDB runs a query: it ends the query, and says so with an exception that is not KeyboardInterrupt.

Which one depends on what was waited for: RuntimeError, duckdb.InterruptException, ArrowException or OSError. Signals come to the
main thread: a query of another one was ended by its program, as the page ends those whose browser has gone.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# DuckDB's words; while rows are fetched, they are in an error of Arrow
WORDS = re.compile(r"query interrupted|interrupt error", re.IGNORECASE)


@contextmanager
def ends_at_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for a query that Ctrl-C ended."""
    try:
        yield
    except Exception as error:
        if threading.current_thread() is threading.main_thread() and WORDS.search(str(error)):
            raise KeyboardInterrupt from None
        raise
