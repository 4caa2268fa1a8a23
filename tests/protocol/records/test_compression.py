"""The codecs: Kafka's own bytes of each, damage, and limits that hold while streaming."""

import gzip
import subprocess
import sys
import zlib
from importlib.machinery import PathFinder

import crc32c as package
import pytest
import zstandard

from kproxy.protocol.records import checksum
from kproxy.protocol.records.compression import CODECS, Codec, compress, decompress
from kproxy.protocol.records.limits import DEFAULT_LIMITS, MIB, Limits
from tests.support.corpus import ROOT, golden_bytes, golden_line

TEXT = b"the quick brown fox " * 100
COMPRESSED = sorted(CODECS - {Codec.NONE})


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
def test_kafkas_bytes_are_opened(codec: Codec) -> None:
    kind = f"magic2-{codec.name.lower()}-large"
    unpacked = decompress(codec, golden_bytes(kind)[61:])
    assert unpacked.error is None and unpacked.skipped is None
    for record in golden_line(kind)["batches"][0]["records"]:
        assert bytes.fromhex(record["valueHex"]) in unpacked.data


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", sorted(CODECS), ids=lambda codec: codec.name)
@pytest.mark.parametrize("data", [b"", TEXT, bytes(3_000_000)], ids=["empty", "text", "zeroes"])
def test_what_is_compressed_comes_back(codec: Codec, magic: int, data: bytes) -> None:
    if codec == Codec.ZSTD and magic < 2:
        assert decompress(codec, compress(codec, data, magic), magic).error == f"zstd in a batch of magic {magic}"
        return
    free = Limits(ratio=100_000)
    assert decompress(codec, compress(codec, data, magic), magic, free).data == data


def test_other_tools_agree() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert zstandard.decompress(compress(Codec.ZSTD, TEXT)) == TEXT


def test_gzip_members_follow_each_other_and_other_bytes_end_them() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Codec.GZIP, members).data == b"one two"
    behind = decompress(Codec.GZIP, members + b"no member of a gzip stream at all")
    assert (behind.data, behind.error) == (b"one two", None)


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
def test_what_is_cut_off_gives_a_beginning(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for cut in range(len(packed)):
        unpacked = decompress(codec, packed[:cut])
        assert TEXT.startswith(unpacked.data) and unpacked.skipped is None
        assert unpacked.error is not None or codec in (Codec.ZSTD, Codec.SNAPPY)


def test_a_wrong_gzip_trailer_is_an_error_behind_the_data() -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-8] ^= 1
    unpacked = decompress(Codec.GZIP, bytes(packed))
    assert unpacked.error is not None and unpacked.error.startswith("not gzip")


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, 2, Limits(decompressed=len(TEXT))).data == TEXT
    over = decompress(codec, packed, 2, Limits(decompressed=len(TEXT) - 1))
    assert (over.data, over.error, over.skipped) == (b"", None, "decompresses to more than 1,999 bytes")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD], ids=lambda codec: codec.name)
def test_the_ratio_counts_once_the_free_bytes_are_spent(codec: Codec) -> None:
    packed = compress(codec, bytes(100_000))
    assert decompress(codec, packed, 2, Limits(ratio=2, free=100_000)).data == bytes(100_000)
    skipped = decompress(codec, packed, 2, Limits(ratio=2, free=10_000)).skipped
    assert skipped is not None and f"over 2 times its {len(packed)}" in skipped


def test_a_zstd_window_over_the_limit_is_skipped() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=20, compression_level=1)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert decompress(Codec.ZSTD, packed).data == TEXT
    assert (
        decompress(Codec.ZSTD, packed, 2, Limits(window=1 << 19)).skipped
        == "a zstd window of 1,048,576 bytes, over 524,288"
    )


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_numbers_without_a_codec(codec: int) -> None:
    assert decompress(codec, b"anything").error == f"unknown codec {codec}"


def test_raw_deflate_is_not_gzip() -> None:
    error = decompress(Codec.GZIP, zlib.compress(TEXT)).error
    assert error is not None and error.startswith("not gzip")


def test_few_bytes_may_become_a_mebibyte_and_many_a_thousand_times_as_many() -> None:
    assert DEFAULT_LIMITS.allowed(1) == MIB
    assert DEFAULT_LIMITS.allowed(2_000) == 2_000_000
    assert DEFAULT_LIMITS.allowed(10 * MIB) == 64 * MIB


def test_the_reason_names_the_limit_that_was_met() -> None:
    assert Limits(decompressed=100).exceeded(7) == "decompresses to more than 100 bytes"
    assert DEFAULT_LIMITS.exceeded(2_000) == "decompresses to more than 2,000,000 bytes, over 1,000 times its 2,000"


def test_batches_share_what_a_field_may_take() -> None:
    limits = Limits(decompressed=10, total=25)
    assert [limits.after(spent).decompressed for spent in (0, 15, 16, 25, 99)] == [10, 10, 9, 0, 0]


CHECK = b"123456789"  # RFC 3720 gives test patterns; this one is the check value of the catalogue of CRCs
CHECK_VALUE = 0xE3069283


def test_it_is_the_checksum_of_the_package() -> None:
    assert checksum.crc32c(CHECK) == package.crc32c(CHECK) == CHECK_VALUE
    assert checksum.crc32c(memoryview(bytes(100_000))[1:]) == package.crc32c(bytes(99_999))


def test_the_package_is_not_imported() -> None:
    code = "import sys; import kproxy.protocol.records.checksum; sys.exit('crc32c' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_without_the_extension_it_is_the_function_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)
    assert checksum._import_crc32c() is package.crc32c
