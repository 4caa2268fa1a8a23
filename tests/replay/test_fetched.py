"""What was read in all, however brokers divide it."""

import copy
from typing import Any

from kproxy.protocol.records import Record, RecordBatch, write_batches
from kproxy.protocol.structs import struct_types
from kproxy.replay.fetched import Fetched
from kproxy.replay.left_out import LeftOut

HERE = (1, 4)


def answer(records: bytes = b"", error: int = 0, partition: int = 0) -> Any:
    types = struct_types("FetchResponse")
    data = types["PartitionData"](partition_index=partition, error_code=error, records=records)
    return types["FetchResponse"](responses=[types["FetchableTopicResponse"](topic="t", partitions=[data])])


def batches() -> list[bytes]:
    """Two record batches, of offsets 0 to 3 and 4 to 7."""
    records = [Record(offset=offset, timestamp=1, value=bytes([offset])) for offset in range(8)]
    return [write_batches([RecordBatch(records[start : start + 4])]) for start in (0, 4)]


def fetched() -> Fetched:
    return Fetched(str, str)


def test_divided_otherwise() -> None:
    one, two = batches()
    both = fetched()
    compared = both.add(HERE, answer(one + two), answer(one))
    assert compared.differences == [] and not compared.left_out
    assert both.add(HERE, copy.deepcopy(answer()), answer(two)).differences == []
    assert list(both.differences()) == []


def test_a_partition_that_only_one_answer_has() -> None:
    [one, _] = batches()
    both = fetched()
    nothing = struct_types("FetchResponse")["FetchResponse"]()
    assert both.add(HERE, answer(one), nothing).left_out == {LeftOut.DIVISION: 1}
    [(connection, difference)] = both.differences()
    assert connection == HERE and difference.where == "responses[t].partitions[0].records"
    assert difference.new.startswith("0 records, ")


def test_other_records() -> None:
    one, two = batches()
    both = fetched()
    both.add(HERE, answer(one + two), answer(two))
    [(_, difference)] = both.differences()
    assert difference.new.endswith("from offset 0 on")


def test_errors() -> None:
    compared = fetched().add(HERE, answer(), answer(error=1))
    [difference] = compared.differences
    assert (difference.recorded, difference.new) == ("NONE", "OFFSET_OUT_OF_RANGE")
    old, new = answer(), answer()
    new.error_code = 70
    assert [one.new for one in fetched().add(HERE, old, new).differences] == ["FETCH_SESSION_ID_NOT_FOUND"]


def test_what_is_remembered_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr("kproxy.replay.fetched.MOST_RECORDS", 3)
    [one, _] = batches()
    both = fetched()
    both.add(HERE, answer(one), answer(one))
    assert both.is_full
