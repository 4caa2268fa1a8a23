"""Ctrl-C while DuckDB runs a query: it ends the query, and says so with an exception that is not KeyboardInterrupt.

Which one depends on what was waited for: RuntimeError, duckdb.InterruptException, ArrowException or OSError. Signals come to the
main thread: a query of another one was ended by its program, as the page ends those whose browser has gone. A second Ctrl-C
while a query ends is ignored, as DuckDB 2.0 does not come back from it.
"""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# DuckDB's words; while rows are fetched, they are in an error of Arrow
WORDS = re.compile(r"query interrupted|interrupt error", re.IGNORECASE)


@contextmanager
def ends_at_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for a query that Ctrl-C ended."""
    is_main = threading.current_thread() is threading.main_thread()
    is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _interrupt_once)
    try:
        yield
    except Exception as error:
        if is_main and WORDS.search(str(error)):
            raise KeyboardInterrupt from None
        raise
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
