"""A progress bar on standard error, for a person who watches a long decode."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from kproxy.output.escaping import printable

EVERY = 0.1  # seconds between two looks at the clock's consequences
EVENTS = 256  # between two looks at the clock
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # then the position does not tell how much is left


class Positioned(Protocol):
    """What is read from."""

    @property
    def position(self) -> int:
        """Bytes read, after decompression."""


@contextmanager
def progress(file: Path, capture: Positioned, *, wanted: bool) -> Iterator[Callable[[], None] | None]:
    """Show how far *capture* has been read while the block runs; gives what to call for every event, or None."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    # Imported here: most runs show no bar and need not wait for it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(file.name, 40).replace("[", "\\["), total=_size(file))
        seen, last = 0, time.monotonic()

        def advance() -> None:
            nonlocal seen, last
            seen += 1
            if seen % EVENTS == 0 and time.monotonic() - last > EVERY:
                last = time.monotonic()
                bar.update(task, completed=capture.position)

        yield advance


def _size(file: Path) -> int | None:
    """Bytes of a plain file; None where nobody knows how many there will be."""
    if not file.is_file():
        return None
    with file.open("rb") as start:
        magic = start.read(4)
    return None if magic.startswith(COMPRESSED) else file.stat().st_size
