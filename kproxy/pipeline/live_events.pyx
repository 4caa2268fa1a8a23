# cython: language_level=3, auto_pickle=False
"""LiveEvents: the events of one live source on their way to the outputs of a run, compiled as every exchange passes here."""

from typing import TYPE_CHECKING

from libc.stdint cimport int64_t

from kproxy.pipeline.output import End, Source
from kproxy.session import Connection, Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from kproxy.pipeline.run import Run


cdef class LiveEvents:
    """Writes events to a run; the Listener of the source's Connections."""

    cdef readonly int64_t taken
    cdef object _run
    cdef object _source
    cdef object _on_fault

    def __init__(self, run: Run, source: Source, on_fault: Callable[[int, BaseException], None]) -> None:
        self._run = run
        self._source = source
        self._on_fault = on_fault

    def receive_events(self, list events not None: list[Event]) -> None:
        """See Listener."""
        run = self._run
        run.switch_source(self._source)
        plain = run.plain_outputs
        for event in events:
            if plain is None:
                run.write(event)
            else:
                for output in <list>plain:
                    output.write(event, None)
            self.taken += 1

    def begin_connection(self, connection: Connection, at: int) -> None:
        """Tell the outputs that a connection has begun."""
        self._run.switch_source(self._source)
        self._run.begin(connection, at)

    def end_connection(self, end: End, fault: BaseException | None) -> None:
        """See Listener."""
        if fault is not None:
            self._on_fault(end.connection, fault)
        self._run.switch_source(self._source)
        self._run.end(end)
