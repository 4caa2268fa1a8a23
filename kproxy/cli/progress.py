"""A progress bar on standard error, for a person who watches a long decode."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from kproxy.output.escaping import printable

UPDATE_S = 0.1  # between two updates of the bar
EVENTS = 256  # between two reads of the clock
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # gzip, zstd: the size after decompression is not known


class Positioned(Protocol):
    """A source with a position."""

    @property
    def position(self) -> int:
        """Bytes read, after decompression."""


@contextmanager
def progress(file: Path, capture: Positioned, *, wanted: bool) -> Iterator[Callable[[], None] | None]:
    """Show a bar while the block runs. Yields the function to call after every event; None if no bar is shown."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only for a bar
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - as above

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(file.name, 40).replace("[", "\\["), total=plain_size(file))
        seen, last = 0, time.monotonic()

        def advance() -> None:
            nonlocal seen, last
            seen += 1
            if seen % EVENTS == 0 and time.monotonic() - last > UPDATE_S:
                last = time.monotonic()
                bar.update(task, completed=capture.position)

        yield advance


def plain_size(file: Path) -> int | None:
    """Return the size of a plain file; None for a pipe or a compressed file, whose size is not known."""
    if not file.is_file():
        return None
    with file.open("rb") as start:
        magic = start.read(4)
    return None if magic.startswith(COMPRESSED) else file.stat().st_size
