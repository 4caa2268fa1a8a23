from collections.abc import Iterable

from kproxy.protocol.records.batches import OpenBatch

class Record:
    offset: int
    timestamp: int
    create_timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    attributes: int
    sequence: int

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        *,
        offset: int = 0,
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        attributes: int = 0,
        sequence: int = -1,
    ) -> None: ...

def read_objects(opened: OpenBatch) -> tuple[list[Record], str | None]: ...
def encode_records(records: list[Record], base_offset: int, base_timestamp: int, append: bool) -> bytes: ...
def encode_message(record: Record, offset: int, timestamp: int, magic: int, attributes: int) -> bytes: ...
