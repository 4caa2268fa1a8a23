"""Where a chunk of a snapshot begins to make sense."""

from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.records.reading import read_batches
from kproxy.protocol.records.unaligned import first_batch_at
from tests.support.record_batches import batch, golden_bytes, record

SNAPSHOT = golden_bytes("several-batches-magic2")  # starts at 0, 220, 379, 457, 518 (records.jsonl.gz)
STARTS = [0, 220, 379, 457, 518]


def test_any_cut_is_found_again_at_the_next_batch() -> None:
    for cut in range(len(SNAPSHOT)):
        batches = read_batches(SNAPSHOT[cut:], unaligned=True)
        expected = [start - cut for start in STARTS if start >= cut]
        assert [b.position for b in batches] == expected
        assert batches.skipped_start == (expected[0] if expected else len(SNAPSHOT) - cut)


def test_a_chunk_may_end_inside_a_batch() -> None:
    for end in range(STARTS[2], STARTS[3]):
        batches = read_batches(SNAPSHOT[100:end], unaligned=True)
        assert [b.position for b in batches] == [120]
        assert (batches.tail is None) == (end == STARTS[2])


def test_an_aligned_start_is_believed_whatever_its_crc() -> None:
    damaged = bytearray(batch(record(b"k", b"v"), 1))
    damaged[-1] ^= 1
    batches = read_batches(bytes(damaged), unaligned=True)
    assert batches.skipped_start == 0
    assert [b.crc_valid for b in batches] == [False]


def test_a_header_inside_a_record_with_a_wrong_crc_is_passed_over() -> None:
    false = bytearray(batch(record(b"k", b"v"), 1))
    false[-1] ^= 1
    true = batch(record(b"k", b"v"), 1)
    assert first_batch_at(b"\xff" + bytes(false) + true) == 1 + len(false)


def test_the_search_ends_although_every_byte_begins_a_claim() -> None:
    claim = batch(b"", 0)[:61]
    chunk = b"\xff" + b"".join(claim[:11] + b"\xff" + claim[12:] for _ in range(3_000)) + bytes(400)
    assert first_batch_at(chunk) == len(chunk)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_position(data: bytes) -> None:
    assert 0 <= first_batch_at(data) <= len(data)
