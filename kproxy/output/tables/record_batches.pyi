"""Rows of the table record_batches: headers of batches, straight from their bytes."""

from collections.abc import Mapping
from typing import Any

from kproxy.output.tables.bodies import Body
from kproxy.protocol.records import Batches

class RecordsField:
    """One records field: a partition of a Produce request or of a Fetch response."""

    def __init__(
        self,
        direction: str,
        topic: str | None,
        topic_id: str | None,
        partition: int,
        error_code: int | None,
        appended_offset: int | None,
        data: bytes,
        unaligned: bool = False,
    ) -> None: ...
    @property
    def direction(self) -> str:
        """produce or fetch."""

    @property
    def topic(self) -> str | None: ...
    @property
    def topic_id(self) -> str | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def error_code(self) -> int | None: ...
    @property
    def appended_offset(self) -> int | None:
        """Produce: the offset that the broker gave the first record; None for none or an error."""

    @property
    def data(self) -> bytes: ...
    @property
    def unaligned(self) -> bool:
        """Whether it may start inside a batch."""

    def batches(self) -> Batches:
        """Its batches."""

def records_fields(request: Body | None, response: Body | None, names: Mapping[str, str]) -> list[RecordsField] | None:
    """The records fields of an exchange; None for an API that has none."""

def batch_rows(field: RecordsField, batches: Batches, problems: Mapping[int, str]) -> list[tuple[Any, ...]]:
    """The columns of record_batches from direction on; *problems* of records, by the position of their batch."""
