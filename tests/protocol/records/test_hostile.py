"""Hostile inputs, by their numbers in the list that kproxy is built against: an answer with a reason, never more.

1 snappy preambles; 5 bombs; 14 varints, sizes and counts; 15 checksums, magics and cut-off batches; 16 nesting; 17 control
batches; 25 the cap is for decoding alone.
"""

import gzip
import struct
import subprocess
import sys

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.records import Batch, Codec, Limits, count_records, read_batches
from kproxy.protocol.records.arrow import to_arrow
from kproxy.protocol.records.compression import compress, decompress
from kproxy.protocol.records.control import read_control_record
from kproxy.protocol.records.editing import read_records, write_batches
from tests.fuzz.records_target import check_records
from tests.support.corpus import golden_bytes, golden_lines
from tests.support.frames import batch, message, record, sized, varint

FOUR_GIB = b"\xff\xff\xff\xff\x0f"  # a snappy preamble
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
MIB = 1 << 20


# Under an address space that a claim of 4 GiB (or of 64 MiB) does not fit into; a library that allocates it dies by SIGABRT.
IN_LITTLE_MEMORY = """
import resource, sys
from kproxy.protocol.records import read_batches
from kproxy.protocol.records.arrow import to_arrow
from kproxy.protocol.records.editing import read_records
import pyarrow
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 48 * 1024 * 1024
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for line in sys.stdin:
    batch = read_records(bytes.fromhex(line))[0]
    print(batch.error or batch.skipped)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
def test_1_snappy_preambles_do_not_allocate() -> None:
    inner = [
        FOUR_GIB,
        FOUR_GIB + bytes(100),
        XERIAL + struct.pack(">i", 5) + FOUR_GIB,
        XERIAL + (struct.pack(">i", 10) + FOUR_GIB + bytes(5)) * 2,
        b"\x80\x80\x80\x20" + bytes(4 * MIB),  # 64 MiB, which 4 MiB could become
    ]
    fields = [batch(packed, 1, attributes=Codec.SNAPPY) for packed in inner]
    fields += [message(packed, attributes=Codec.SNAPPY) for packed in inner]
    text = "\n".join(data.hex() for data in fields)
    run = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY], input=text, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2_000:]
    answers = run.stdout.splitlines()
    assert len(answers) == 10
    for answer in answers[:4] + answers[5:9]:
        assert "cannot become what it claims" in answer
    assert all("no memory to decompress 4,194,308 bytes" in answers[i] for i in (4, 9))


@pytest.mark.parametrize("claim", [1 << 20, 64 * MIB, 64 * MIB + 1, (1 << 32) - 1])
def test_1_a_claim_is_measured_by_the_bytes_behind_it(claim: int) -> None:
    preamble = bytearray()
    while claim > 0x7F:
        preamble.append(claim & 0x7F | 0x80)
        claim >>= 7
    unpacked = decompress(Codec.SNAPPY, bytes([*preamble, claim]) + b"\x00a")
    assert unpacked.data == b"" and unpacked.error is not None


def bombs() -> dict[str, tuple[int, bytes]]:
    zeroes = bytes(80 * MIB)
    member = gzip.compress(bytes(MIB))
    wide = zstandard.ZstdCompressionParameters(window_log=31, compression_level=1, enable_ldm=False)
    return {
        "gzip": (Codec.GZIP, gzip.compress(zeroes, 1)),
        "gzip members": (Codec.GZIP, member * 80),
        "gzip empty members": (Codec.GZIP, gzip.compress(b"") * 100_000),
        "snappy": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(zeroes))),
        "snappy blocks": (Codec.SNAPPY, XERIAL + block(bytes(cramjam.snappy.compress_raw(bytes(MIB)))) * 80),
        "snappy empty blocks": (Codec.SNAPPY, XERIAL + block(b"\x00") * 100_000),
        "lz4": (Codec.LZ4, lz4.frame.compress(zeroes, block_linked=False)),
        "zstd": (Codec.ZSTD, zstandard.compress(zeroes)),
        "zstd frames": (Codec.ZSTD, zstandard.compress(bytes(MIB)) * 80),
        "zstd window of 2 GiB": (Codec.ZSTD, zstandard.ZstdCompressor(compression_params=wide).compressobj().flush()),
    }


def block(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


def test_5_bombs_are_skipped_and_the_rest_goes_on() -> None:
    for name, (codec, packed) in bombs().items():
        bomb = batch(packed, 1, attributes=codec)
        if name == "zstd window of 2 GiB":
            frame = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([21 << 3]) + packed[6:]  # exponent 21: 2 GiB
            bomb = batch(frame, 1, attributes=codec)
        data = bomb + golden_bytes("magic2-none-large")
        first, second = read_records(data)
        assert first.records == [] and first.skipped is not None and first.error is None, (name, first.error)
        assert len(second.records) == 24 and second.skipped is None
        assert to_arrow(data).num_rows == 24


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_5_bombs_in_wrappers_are_skipped(codec: Codec, magic: int) -> None:
    packed = compress(codec, bytes(65 * MIB), magic)
    data = message(packed, magic=magic, attributes=codec) + message(b"v", magic=magic)
    first, second = read_records(data)
    assert first.skipped is not None and first.records == []
    assert [r.value for r in second.records] == [b"v"]
    assert count_records(data) == 1


def test_14_malformed_records_are_reported() -> None:
    for body in [
        b"\xff" * 5 + b"\x0f",  # the size: a varint of six bytes
        b"\x80" * 10 + b"\x00",
        varint(-1),
        varint(-(1 << 31)),
        varint((1 << 31) - 1),
        varint(20) + b"\x00" + b"\xff" * 11,  # the timestamp: a varlong of eleven bytes
        varint(20) + b"\x00\x00" + b"\xff" * 6,  # the offset
        varint(20) + b"\x00\x00\x00" + b"\xff" * 6,  # the key's size
        varint(20) + b"\x00\x00\x00" + varint((1 << 31) - 1),
        record(None, None, headers=varint((1 << 31) - 1)),
        record(None, None, headers=varint(-(1 << 31))),
        record(None, None, headers=varint(1) + varint(-2)),
        record(None, None, headers=varint(1) + sized(b"") + varint(1 << 30)),
        record(None, None, headers=varint(3) + sized(b"") + sized(b"")),
    ]:
        for codec in sorted(Codec):
            data = batch(compress(codec, body), 1, attributes=codec)
            assert read_batches(data)[0].crc_valid, (body, codec)
            one = read_records(data)[0]
            assert one.records == [] and one.error is not None and one.error.startswith("record 0: "), (body, codec)
            check_records(data)


def test_14_overlong_and_extreme_varints_are_read_as_kafka_reads_them() -> None:
    # ByteUtils: needless bytes are allowed, bits past the last are dropped; zig-zag of all ones is the least integer.
    least = b"\xff" * 9 + b"\x01"
    body = b"\x00" + least + b"\xff\xff\xff\xff\x0f" + b"\x81\x80\x80\x80\x00" + b"\x82\x00k" + b"\x80\x00"
    data = batch(varint(len(body)) + body, 1, base_offset=1 << 31)
    one = read_records(data)[0]
    assert one.error is None
    (read,) = one.records
    assert (read.key, read.value, read.headers, read.offset) == (None, b"k", [], 0)
    assert read.timestamp == 1_000 - (1 << 63)


@pytest.mark.parametrize("count", [-1, -(1 << 31), (1 << 31) - 1, 1_000_001])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_14_record_counts_are_not_believed(count: int, codec: Codec) -> None:
    data = batch(compress(codec, record(b"k", b"v")), count, attributes=codec, last_delta=0)
    one = read_records(data)[0]
    assert one.error is not None or one.skipped is not None
    check_records(data)


@pytest.mark.parametrize("size", [-1, -(1 << 31), 0, 13, (1 << 31) - 1])
def test_14_batch_sizes_are_not_believed(size: int) -> None:
    whole = batch(record(b"k", b"v"), 1)
    data = whole + whole[:8] + struct.pack(">i", size) + whole[12:]
    batches = read_batches(data)
    assert len(batches) == 1 and batches.tail is not None and batches.tail.position == len(whole)
    check_records(data)


@pytest.mark.parametrize("size", [-2, (1 << 31) - 1, -(1 << 31)])
@pytest.mark.parametrize("magic", [0, 1])
def test_14_sizes_in_messages_are_not_believed(size: int, magic: int) -> None:
    data = bytearray(message(b"value", magic=magic))
    data[-9:-5] = struct.pack(">i", size)
    one = read_records(bytes(data))[0]
    assert [r.value for r in one.records] == ([None] if size < 0 else [])
    assert (one.error is None) == (size < 0)
    check_records(bytes(data))


@pytest.mark.parametrize("magic", [3, 9, 0x7F, 0x80, 0xFF])
def test_15_unknown_magics_end_the_walk(magic: int) -> None:
    data = bytearray(batch(record(b"k", b"v"), 1) * 2)
    data[len(data) // 2 + 16] = magic
    batches = read_batches(bytes(data))
    assert len(batches) == 1
    assert batches.error is not None and batches.error.startswith("a batch of magic")
    check_records(bytes(data))


def test_15_a_batch_cut_anywhere_is_no_error() -> None:
    for kind in ("magic0-gzip-large", "magic1-none-one-record", "magic2-lz4-create"):
        data = golden_bytes(kind)
        for cut in range(1, len(data)):
            batches = read_batches(data[:cut])
            assert batches.error is None and batches.tail is not None
            assert batches.tail.kind == "partial"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_16_nesting_ends_at_one(magic: int, codec: Codec) -> None:
    inner = message(b"innermost", magic=magic)
    for depth in range(50):
        inner = message(compress(codec, inner, magic), magic=magic, attributes=codec, offset=depth)
    one = read_records(inner)[0]
    assert one.records == []
    assert one.error is not None and f"an inner message that is compressed (codec {codec.value})" in one.error
    check_records(inner)


def test_16_messages_before_a_nested_one_are_seen() -> None:
    inner = message(b"seen", offset=0) + message(b"x", attributes=1, offset=1)
    one = read_records(message(gzip.compress(inner), attributes=1, offset=1))[0]
    assert [r.value for r in one.records] == [b"seen"] and one.error is not None


@pytest.mark.parametrize(
    ("wrapper", "error"),
    [
        (message(None, attributes=1), "without a value"),
        (message(gzip.compress(b""), attributes=1), "without messages in it"),
        (message(gzip.compress(message(b"v")[:-1]), attributes=1), "without messages in it"),
        (message(gzip.compress(message(b"v", offset=9)), attributes=1, offset=8), "below that of its last message, 9"),
        (message(gzip.compress(bytes(12)), attributes=1), "an inner message of 0 bytes"),
        (message(compress(Codec.ZSTD, message(b"v")), attributes=4), "zstd in a batch of magic 1"),
        (message(gzip.compress(message(b"v").replace(b"\x01\x00", b"\x02\x00", 1)), attributes=1), "magic 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # gzip's bytes have the time in them
)
def test_16_wrappers_that_kafka_refuses(wrapper: bytes, error: str) -> None:
    one = read_records(wrapper)[0]
    assert one.records == [] and one.error is not None and error in one.error
    check_records(wrapper)


def test_17_a_control_batch_with_two_markers() -> None:
    abort = record(b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x07")
    data = batch(abort + record(b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x08", 1), 2, attributes=0x30)
    one = read_records(data)[0]
    markers = [read_control_record(r.key, r.value) for r in one.records]
    assert [(m.type, m.value and m.value.coordinator_epoch) for m in markers] == [("ABORT", 7), ("ABORT", 8)]
    check_records(data)


@given(st.none() | st.binary(max_size=6), st.none() | st.binary(max_size=30), st.integers(0, 6))
def test_17_any_control_record(key: bytes | None, value: bytes | None, type_id: int) -> None:
    for each in (key, struct.pack(">hh", 0, type_id)):
        found = read_control_record(each, value)
        assert found.json is None or found.error is None
        check_records(batch(record(each, value), 1, attributes=0x20))


def test_25_what_is_skipped_is_still_forwarded() -> None:
    data = batch(compress(Codec.ZSTD, bytes(65 * MIB)), 1, attributes=Codec.ZSTD)
    one = read_records(data)[0]
    assert one.skipped is not None
    assert write_batches([one]) == data
    assert Batch(data, 0).raw == data and Batch(data, 0).crc_valid


def test_25_a_field_of_many_bombs_has_a_cap_of_its_own() -> None:
    packed = compress(Codec.SNAPPY, bytes(4 * MIB))
    data = batch(packed, 1, attributes=Codec.SNAPPY) * 10
    skipped = [one.skipped for one in read_records(data, limits=Limits(total=9 * MIB, records=1))]
    assert [reason is None for reason in skipped] == [True, True] + [False] * 8


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    check_records(data)


@given(st.integers(0, len(golden_lines("records")) - 1), st.data())
def test_any_damage_to_kafkas_own_bytes(index: int, draw: st.DataObject) -> None:
    data = bytearray.fromhex(golden_lines("records")[index]["hex"])
    for _ in range(draw.draw(st.integers(1, 3))):
        if data:
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    check_records(bytes(data))


@given(st.integers(0, len(golden_lines("records")) - 1), st.data())
def test_any_damage_under_a_right_checksum(index: int, draw: st.DataObject) -> None:
    data = bytes.fromhex(golden_lines("records")[index]["hex"])
    for one in read_batches(data):
        if one.magic == 2 and one.size > 61:
            body = bytearray(one.raw[61:] if one.codec == 0 else one.open().content)
            if body:
                body[draw.draw(st.integers(0, len(body) - 1))] = draw.draw(st.integers(0, 255))
            codec = Codec(min(one.codec, 4))
            check_records(
                batch(compress(codec, bytes(body)), one.count or 0, attributes=codec, last_delta=one.last_offset_delta)
            )
