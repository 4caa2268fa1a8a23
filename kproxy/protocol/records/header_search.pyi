"""Headers of given names in the records of an opened batch."""

from kproxy.protocol.records.batches import OpenBatch

def find_headers(opened: OpenBatch, names: tuple[bytes, ...], most: int) -> list[dict[bytes, bytes]]: ...
