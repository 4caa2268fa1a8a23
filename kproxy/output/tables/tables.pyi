"""Tables: events in, rows of all tables out."""

from collections.abc import Callable
from typing import Any

from kproxy.output.bodies import Bodies
from kproxy.output.tables.contracts import Table
from kproxy.session import Event

class Tables:
    """Makes the rows of every table from the events of captures.

    Args:
        give: takes the rows of a table (a pyarrow.RecordBatch), some thousands at a time.
        bodies: add both bodies as JSON to exchanges.
        records: fill the table records too.
    """

    def __init__(self, give: Callable[[Table, Any], None], *, bodies: bool = False, records: bool = False) -> None: ...
    @property
    def tables(self) -> list[Table]:
        """Those that are filled."""

    def take(self, event: Event, capture: str, *, shown: bool = True, bodies: Bodies | None = None) -> None:
        """Take an event of a capture; one that is not *shown* counts for its connection only."""

    def ended(self, number: int, by: str) -> None:
        """Learn that one side (client or broker) closed or reset the connection of that number."""

    def closed(self, number: int, reason: str) -> None:
        """Learn that nothing more comes of the connection of that number."""

    def flush(self) -> None:
        """Give on all that is held: the end of the last capture."""
