from kproxy.protocol.records.batches import OpenBatch

class Column:
    def __len__(self) -> int: ...

class Columns:
    count: int
    header_count: int
    null_keys: int
    null_values: int
    null_header_values: int
    contents: list[bytes | bytearray]
    offsets: Column
    timestamps: Column
    keys: Column
    key_validity: Column
    values: Column
    value_validity: Column
    header_ends: Column
    header_keys: Column
    header_values: Column
    header_validity: Column

    def __init__(self) -> None: ...
    def expect(self, more: int, size: int) -> None: ...
    def add(self, opened: OpenBatch) -> str | None: ...
    def add_plain(self, data: bytes, position: int, most: int) -> tuple[int, str | None]: ...
