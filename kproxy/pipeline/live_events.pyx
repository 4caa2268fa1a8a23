# cython: language_level=3, auto_pickle=False
"""Events on their way to the outputs of a run, compiled as every exchange passes here; LiveEvents: those of one live source."""

from typing import TYPE_CHECKING

from libc.stdint cimport int64_t

from kproxy.output.exchange_line cimport read_bodies
from kproxy.session.exchanges cimport Exchange

from kproxy.pipeline.output import End, Output, Source
from kproxy.protocol import ApiKey
from kproxy.session import Connection, Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from kproxy.output.bodies import Opener
    from kproxy.pipeline.run import Run

cdef int JOIN_GROUP = ApiKey.JOIN_GROUP


cpdef int write_event(list outputs: list[Output], opener: Opener | None, event: Event) except -1:  # type: (...) -> None
    """Write an event to all outputs, with its bodies, decoded once for all, if there is an *opener* for what is inside them."""
    bodies = None
    if opener is not None and isinstance(event, Exchange):
        if (<Exchange>event).api_key == JOIN_GROUP:
            opener.learn(event)
        bodies = read_bodies(<Exchange>event, opener)
    for output in outputs:
        output.write(event, bodies)
    return 0


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
        cdef list outputs
        outputs, opener = run.direct
        has_condition = run.condition is not None
        for event in events:
            if has_condition:
                run.write(event)
            else:
                write_event(outputs, opener, event)
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
