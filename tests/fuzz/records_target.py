"""What must hold for any bytes given as a records field; used by the tests of hostile records and by the hammer."""

from kproxy.protocol.records import count_records, read_batches
from kproxy.protocol.records.arrow import to_arrow
from kproxy.protocol.records.batches import headers_json
from kproxy.protocol.records.control import read_control_record
from kproxy.protocol.records.editing import read_records, write_batches


def check_records(data: bytes) -> bool:
    """Whether every batch of *data* was read to its end. Anything raised fails the caller.

    The ways out must agree: Arrow has the rows that there are objects, and what nobody changed is written as it came.
    """
    batches = read_batches(data)
    read_batches(data, unaligned=True)
    opened = read_records(data)
    table = to_arrow(data)
    table.validate(full=True)
    records = [record for batch in opened for record in batch.records]
    assert table["offset"].to_pylist() == [record.offset for record in records]
    assert table["key"].to_pylist() == [record.key for record in records]
    assert table["value"].to_pylist() == [record.value for record in records]
    assert [len(h) for h in table["headers"].to_pylist()] == [len(record.headers) for record in records]
    headers, count = headers_json(data, 0, len(batches) + 1)
    assert headers.count(b'"baseOffset"') == len(batches)
    assert count in (None, count_records(data))
    assert count is not None or batches.tail or any(batch.magic < 2 or batch.is_control for batch in batches)
    end = len(data) if batches.tail is None else batches.tail.position
    assert write_batches(opened) == data[:end]
    for batch in opened:
        for record in batch.records if batch.is_control else ():
            read_control_record(record.key, record.value)
    return batches.error is None and all(batch.error is None and batch.skipped is None for batch in opened)
