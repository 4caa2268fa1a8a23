"""Make Ctrl-C during a DuckDB query a KeyboardInterrupt: DuckDB ends the query, but raises other exceptions.

Which exception depends on the call: RuntimeError, duckdb.InterruptException, ArrowException or OSError. Only the main thread gets
signals; in other threads such an exception means that the program ended the query, as the page does when its browser has gone. A
second Ctrl-C while a query ends is ignored: DuckDB 2.0 would hang.
"""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# The text of DuckDB's error; while rows are fetched, it is in an error of Arrow
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
