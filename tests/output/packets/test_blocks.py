"""pcapng as it is written, read by scapy."""

import io

import pytest
from scapy.utils import RawPcapNgReader

from kproxy.output.packets.blocks import MOST_COMMENT, file_header, packet

AT = 1_763_699_999_123_456_789


def read(*blocks: bytes) -> list[tuple[bytes, object]]:
    with RawPcapNgReader(io.BytesIO(file_header("kproxy test") + b"".join(blocks))) as reader:
        return list(reader)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1500])
def test_another_reader_gets_bytes_time_and_comment(size: int) -> None:
    data = bytes(range(256)) * 6
    ((read_data, facts),) = read(packet(AT, data[:size], "ApiVersions v4 → 75 APIs"))
    assert read_data == data[:size]
    assert (facts.tshigh << 32) + facts.tslow == AT
    assert facts.tsresol == 10**9
    assert facts.linktype == 1
    assert facts.wirelen == size
    comments = facts.comments if hasattr(facts, "comments") else [facts.comment]
    assert comments == ["ApiVersions v4 → 75 APIs".encode()]


def test_a_packet_without_a_comment_has_no_options() -> None:
    # type 6, size, interface 0, time, two sizes, four bytes, size: Enhanced Packet Block of 36 bytes
    assert (
        packet(1, b"abcd").hex()
        == "0600000024000000" + "00" * 8 + "01000000" + "04000000" * 2 + "61626364" + "24000000"
    )


def test_a_long_comment_is_cut_between_characters() -> None:
    ((_, facts),) = read(packet(AT, b"", "→" * MOST_COMMENT))
    comments = facts.comments if hasattr(facts, "comments") else [facts.comment]
    assert comments[0].decode() == "→" * (MOST_COMMENT // 3)


def test_a_lone_surrogate_is_written_as_its_escape() -> None:
    ((_, facts),) = read(packet(AT, b"", "a\udcff"))
    comments = facts.comments if hasattr(facts, "comments") else [facts.comment]
    assert comments == [b"a\\udcff"]
