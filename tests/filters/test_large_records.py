"""Records that are changed in a thread."""

import pytest

from kproxy.filters.large_records import LARGE, RATIO, take_long
from kproxy.protocol.records import Codec, Record, write_batches
from kproxy.protocol.records.editing import RecordBatch


def field(codec: Codec, size: int) -> bytes:
    return write_batches([RecordBatch([Record(value=b"words that are alike " * (size // 21))], codec=codec)])


@pytest.mark.parametrize("codec", Codec)
def test_by_their_size_and_by_what_they_may_be_unpacked(codec: Codec) -> None:
    small, large = field(codec, 1_000), field(Codec.NONE, LARGE + 1_000)
    assert not take_long([small, small])
    assert take_long([small, large])
    many = [small] * (LARGE // RATIO // len(small) + 1)
    assert take_long(many) == (codec is not Codec.NONE)


def test_what_is_no_batch() -> None:
    assert not take_long([])
    assert not take_long([bytes(LARGE)])
    assert take_long([bytes(LARGE), b"\0"])
