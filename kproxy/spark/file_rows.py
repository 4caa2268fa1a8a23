"""Decode one file into rows of all tables, in one task, as ``kproxy decode --format parquet`` does.

``share`` divides a file among tasks without a shuffle: each task reads all of it, so that numbers, names of topics and roles
are those of an undivided run, but makes only the rows of its share of the connections. Making rows is what costs most.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kproxy.errors import CaptureError
from kproxy.output.bodies import Bodies
from kproxy.output.tables import Table
from kproxy.pipeline.output import End
from kproxy.pipeline.run import Options as RunOptions
from kproxy.pipeline.run import Run
from kproxy.pipeline.table_output import TableOutput, Write
from kproxy.session import Event
from kproxy.spark.files import open_file

if TYPE_CHECKING:
    import pyarrow


class Options(Struct, frozen=True):
    """Which rows to make; as the options of ``kproxy decode --format parquet``."""

    bodies: bool = False
    records: bool = False
    where: str | None = None
    keylog: str | None = None  # a path that every executor can open

    def run_options(self) -> RunOptions:
        """The options for kproxy.pipeline.run. A connection that fails is counted, and does not end the task."""
        keylog = None if self.keylog is None else Path(self.keylog)
        return RunOptions(where=self.where, keylog=keylog, records=self.records, contain=(Exception,))


class Share(Struct, frozen=True):
    """The connections of one task: part *number* (from 0) of *of* parts."""

    number: int = 0
    of: int = 1


class Rows(TableOutput):
    """Makes the rows of the connections in its share.

    Args:
        write: called with a table and an Arrow batch of its rows.
        options: which rows to make.
        share: which connections.
    """

    def __init__(self, write: Write, options: Options, share: Share = Share()) -> None:  # noqa: B008 - frozen
        super().__init__(write, bodies=options.bodies, records=options.records)
        self.at = 0  # ns: of the event whose rows are being made
        self._share = share

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        if self._owns(event.connection.number):
            self.at = event.at
            super().write(event, bodies, shown=shown, line=line)

    def end(self, end: End) -> None:
        """See Output."""
        if self._owns(end.connection):
            super().end(end)

    def _owns(self, number: int) -> bool:
        return number % self._share.of == self._share.number


def read_rows(
    path: str,
    name: str,
    options: Options,
    share: Share = Share(),  # noqa: B008 - frozen
    on_damage: Callable[[str], None] = lambda damage: None,
) -> Iterator[tuple[Table, "pyarrow.RecordBatch"]]:
    """Yield the rows of all tables of a file, some thousands of one table at a time.

    Args:
        path: of a capture or a decoded log.
        name: the name of the capture in the tables.
        options: which rows to make.
        share: which connections.
        on_damage: called with a sentence for each damage; rows before the damage are yielded.
    """
    ready: list[tuple[Table, pyarrow.RecordBatch]] = []
    try:
        source = open_file(path)
    except CaptureError as error:
        on_damage(str(error))
        return
    with source, Run(options.run_options()) as run:
        output = Rows(lambda table, rows: ready.append((table, rows)), options, share)
        run.add_output(output)
        for _ in run.read(source, name=name):
            if ready:
                yield from ready
                ready.clear()
        output.tables.flush()
        for damage in run.damages:
            on_damage(damage)
        for fault, count in run.faults.items():
            on_damage(f"{path}: {count} connections could not be decoded ({fault}), which is a bug of kproxy")
    yield from ready
