"""A progress bar on standard error, for a person who watches a long decode."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kproxy.output.escaping import printable
from kproxy.pipeline.inputs import Files

UPDATE_S = 0.1  # between two updates of the bar
EVENTS = 256  # between two reads of the clock


class Positioned(Protocol):
    """A source with a position."""

    @property
    def position(self) -> int:
        """Bytes read, after decompression."""


@contextmanager
def progress(files: Files, capture: Positioned, *, wanted: bool) -> Iterator[Callable[[], None] | None]:
    """Show a bar while the block runs. Yields the function to call after every event; None if no bar is shown."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only for a bar
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - as above

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(files.name, 40).replace("[", "\\["), total=files.plain_size)
        seen, last = 0, time.monotonic()

        def advance() -> None:
            nonlocal seen, last
            seen += 1
            if seen % EVENTS == 0 and time.monotonic() - last > UPDATE_S:
                last = time.monotonic()
                bar.update(task, completed=capture.position)

        yield advance
