"""The buffers below the Arrow columns, by Arrow's layout of a BinaryView."""

import struct

import pytest

from kproxy.protocol.records.batches import Batch
from kproxy.protocol.records.columns import Columns, rows_beginning
from tests.support.corpus import golden_bytes
from tests.support.frames import batch, message, record, sized, varint

MOST = 1_000


def added(data: bytes) -> Columns:
    columns = Columns()
    assert columns.add_plain(data, 0, MOST) == (len(data), None)
    return columns


def test_short_values_stand_in_the_view() -> None:
    for size in [0, 1, 3, 4, 7, 8, 9, 11, 12]:
        for behind in [0, 40]:
            value = bytes(range(1, size + 1))
            data = batch(record(None, value, headers=varint(1) + sized(b"") + sized(bytes(behind))), 1)
            assert bytes(added(data).values) == struct.pack("<i12s", size, value), (size, behind)


def test_longer_ones_are_their_beginning_and_a_place() -> None:
    value = bytes(range(1, 14))
    data = message(b"before") + batch(record(b"key", value), 1)
    view = bytes(added(data).values)[16:]
    size, start, number, place = struct.unpack("<i4sii", view)
    assert (size, start, number) == (13, value[:4], 0)
    assert data[place : place + size] == value


def test_every_decompressed_batch_is_a_buffer_of_its_own() -> None:
    columns = Columns()
    packed, plain = golden_bytes("magic2-lz4-large"), golden_bytes("magic2-none-large")
    opened = [Batch(data, 0).open() for data in (plain, packed, packed)]
    assert [columns.add(one) for one in opened] == [None, None, None]
    assert [len(content) for content in columns.contents] == [len(plain), *(o.unpacked_size for o in opened[1:])]
    assert columns.count == 72


def test_it_stops_at_what_is_compressed_or_broken() -> None:
    plain, packed = message(b"v"), golden_bytes("magic2-gzip-large")
    columns = Columns()
    assert columns.add_plain(plain + packed, 0, MOST) == (len(plain), None)
    assert columns.add_plain(batch(record(b"k", b"v") * 2, 2), 0, 1) == (0, None)
    broken = plain + batch(record(b"k", b"v") + b"\x03", 2)
    position, error = columns.add_plain(broken, 0, MOST)
    assert position == len(plain)
    assert error is not None and error.startswith("record 1: a record of -2 bytes")
    assert columns.count == 3  # two messages, and the record before the broken one


def test_a_position_outside_is_refused() -> None:
    with pytest.raises(IndexError):
        Columns().add_plain(b"", 1, MOST)


def test_rows_by_their_first_byte() -> None:
    values = [b"\0short", None, b"", b"{" + bytes(40), b"text", b"\xff", b"\0" * 12]
    data = batch(b"".join(record(None, value, number) for number, value in enumerate(values)), len(values))
    columns = added(data)
    expected = [number for number, value in enumerate(values) if value and value[0] in b"\0{\xff"]
    assert rows_beginning(columns.values, b"\0{\xff") == expected
    assert rows_beginning(columns.keys, b"\0{\xff") == rows_beginning(b"", b"\0") == []
