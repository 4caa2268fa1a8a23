"""A records field: its batches, what is behind them, and how many records there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.records.limits import Limits
from kproxy.protocol.records.reading import count_records, first_batch_at, open_batches, read_batches, tail_of
from tests.support.corpus import golden_bytes, golden_lines
from tests.support.frames import batch, message, record


def test_what_is_left_over_is_what_kafka_leaves() -> None:
    for line in golden_lines("records"):
        batches = read_batches(bytes.fromhex(line["hex"]))
        left = 0 if batches.tail is None else batches.tail.size
        assert (len(batches), left) == (len(line["batches"]), line["trailingBytes"]), line["kind"]
        assert (batches.error is None) == ("error" not in line), line["kind"]


def test_records_are_counted_as_kafka_finds_them() -> None:
    for line in golden_lines("records"):
        if line["valid"]:
            found = sum(len(b["records"]) for b in line["batches"])
            assert count_records(bytes.fromhex(line["hex"])) == found, line["kind"]


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (bytes(11), "partial", "11 bytes of a batch (at byte 0)"),
        (message(b"value")[:-1], "partial", "38 of the 39 bytes of a batch (at byte 0)"),
        (b"\xff" * 8 + b"\x00\x00\x10\x00", "overflow", "12 bytes of filler (at byte 0)"),
        (golden_bytes("malformed-magic-9"), "error", "a batch of magic 9 (at byte 0)"),
        (golden_bytes("malformed-size-negative"), "error", "a batch of -1 bytes, which is less than 14 (at byte 0)"),
        (golden_bytes("malformed-size-too-small"), "error", "a batch of 5 bytes, which is less than 14 (at byte 0)"),
        (
            bytes(11) + b"\x30" + bytes(4) + b"\x02" + bytes(60),
            "error",
            "a batch of magic 2 of 48 bytes, which is less than 49 (at byte 0)",
        ),
    ],
)
def test_a_tail_says_what_it_is(data: bytes, kind: str, reason: str) -> None:
    tail = read_batches(data).tail
    assert tail is not None
    assert (tail.kind, tail.reason, tail.position, tail.size) == (kind, reason, 0, len(data))


def test_filler_behind_down_converted_batches_is_known() -> None:
    tail = read_batches(golden_bytes("overflow-filler")).tail
    assert tail is not None
    assert (tail.kind, tail.position, tail.size) == ("overflow", 99, 40)


def test_a_field_that_ends_with_a_batch_has_no_tail() -> None:
    data = batch(record(b"k", b"v"), 1)
    assert read_batches(data).tail is None
    assert tail_of(data, len(data), len(data)) is None


def test_there_is_a_limit_to_batches() -> None:
    batches = read_batches(message(b"v") * 4, limits=Limits(batches=3))
    assert len(batches) == 3
    assert batches.error == f"more than 3 batches (at byte {3 * len(message(b'v'))})"


def test_batches_share_the_limit_of_the_field() -> None:
    data = golden_bytes("magic2-gzip-large")
    size = next(open_batches(read_batches(data), Limits())).unpacked_size
    opened = list(open_batches(read_batches(data * 3), Limits(total=2 * size)))
    assert [o.skipped for o in opened] == [None, None, "decompresses to more than 0 bytes"]


def test_a_wrapper_that_is_broken_counts_nothing() -> None:
    data = message(b"no gzip", attributes=1) + message(b"v")
    assert count_records(data) == 1


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
