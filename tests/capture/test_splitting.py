"""Where packets begin in any part of a file, also where payload looks like packets, and what is done about a wrong guess."""

import io
import random
import struct
from pathlib import Path

import pytest

from kproxy.capture import open_capture
from kproxy.capture.splitting import (
    Part,
    PartSurvey,
    begin,
    divide,
    first_disorder,
    guess_boundary,
    settle,
    survey_part,
)
from tests.support.built_captures import block, enhanced, interface, section
from tests.support.split_captures import PLAIN, packets_of
from tests.support.traffic import CAPTURES

PARTS = (1, 2, 7, 64)


class Raw(io.BytesIO):
    """Bytes as an unbuffered file."""


def surveyed(data: bytes, parts: int) -> tuple[list[PartSurvey], list[Part]]:
    """The parts of a file as they are settled; and those that were surveyed again."""
    raw, again = Raw(data), []
    start = begin(raw)
    assert start is not None

    def resurvey(part: Part) -> PartSurvey:
        again.append(part)
        return survey_part(raw, part, start)

    given = [survey_part(raw, part, start) for part in divide(start, len(data), parts)]
    return settle(given, resurvey), again


def count(path: Path) -> int:
    with open_capture(path) as capture:
        return sum(batch.count for batch in capture.batches())


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("name", PLAIN)
def test_parts_have_all_packets_once(name: str, parts: int) -> None:
    settled, again = surveyed((CAPTURES / name).read_bytes(), parts)
    assert sum(part.packets for part in settled) == count(CAPTURES / name)
    assert [part.first_number for part in settled] == [
        1 + sum(before.packets for before in settled[:at]) for at in range(len(settled))
    ]
    assert len(again) <= (name.endswith("pcapng"))  # the first part may end before its interface is described
    assert settled[-1].end == (CAPTURES / name).stat().st_size


def pcap_of(payloads: list[bytes], seconds: int = 1_763_000_000) -> bytes:
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    return header + b"".join(
        struct.pack("<IIII", seconds + at, at, len(data), len(data)) + data for at, data in enumerate(payloads)
    )


@pytest.mark.parametrize("parts", PARTS)
def test_a_capture_inside_of_payload_is_no_boundary(parts: int) -> None:
    """Kafka records that hold a capture: chains of headers in them are as plausible as those around them."""
    inside = pcap_of([bytes(60)] * 300)[24:]
    data = pcap_of([b"\0" * 14 + inside[:20_000], bytes(80)] * 30)
    settled, again = surveyed(data, parts)
    assert sum(part.packets for part in settled) == 60
    assert settled[-1].end == len(data)
    assert parts < 3 or again  # guesses were wrong, and found out


def test_random_payload_is_no_chain() -> None:
    chance = random.Random(7)
    start = begin(Raw(pcap_of([bytes(60)])))
    assert start is not None
    assert guess_boundary(chance.randbytes(200_000), start, whole=False) is None


def sections(chance: random.Random) -> tuple[bytes, int]:
    """A pcapng with three sections, in both byte orders, their interfaces described before and between packets."""
    data, packets = b"", 0
    for order in ("<", ">", "<"):
        data += section(order) + interface(order=order)
        for number in range(60):
            if number == 30:
                data += interface(order=order) + block(5, struct.pack(f"{order}III", 0, 0, 0), order)
            data += enhanced(chance.randbytes(chance.randrange(40, 900)), packets, interface=number // 30, order=order)
            packets += 1
    return data, packets


@pytest.mark.parametrize("parts", PARTS)
def test_sections_and_interfaces_of_a_pcapng_reach_the_parts_behind_them(parts: int) -> None:
    data, packets = sections(random.Random(parts))
    settled, again = surveyed(data, parts)
    assert sum(part.packets for part in settled) == packets
    assert settled[-1].problem is None
    assert parts < 2 or again  # read with the first section's interfaces at first


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("name", ["03-classic-rebalance-range.pcap", "07-tls13-dsb.pcapng"])
def test_a_cut_file_ends_where_it_is_cut(tmp_path: Path, name: str, parts: int) -> None:
    data = (CAPTURES / name).read_bytes()
    chance = random.Random(parts)
    for _ in range(5):
        size = chance.randrange(200, len(data))
        (path := tmp_path / "cut").write_bytes(data[:size])
        settled, _ = surveyed(data[:size], parts)
        with open_capture(path) as capture:
            packets = sum(batch.count for batch in capture.batches())
            problem = capture.damage
        assert sum(part.packets for part in settled) == packets
        found = settled[-1].problem
        assert (found is None) == (problem is None)
        assert problem is None or str(problem).endswith(f"byte {settled[-1].end}: {found}")


@pytest.mark.parametrize("parts", PARTS)
def test_nothing_behind_damage_is_read(tmp_path: Path, parts: int) -> None:
    header, records = packets_of("03-classic-rebalance-range.pcap")
    broken = records[200][:8] + struct.pack("<I", 0x7FFFFFFF) + records[200][12:]
    data = header + b"".join([*records[:200], broken, *records[201:]])
    settled, _ = surveyed(data, parts)
    assert sum(part.packets for part in settled) == 200
    assert settled[-1].problem == "a packet of 2147483647 bytes; no capture holds one of more than 262144"


def test_what_cannot_be_split_says_so() -> None:
    assert begin(Raw(b"\x1f\x8b" + bytes(100))) is None
    assert begin(Raw(b"no capture at all, but long enough")) is None
    simple = section() + interface() + block(3, struct.pack("<I", 4) + b"abcd")
    settled, _ = surveyed(simple, 1)
    assert settled[0].unsplittable == "packets without a time"


def test_times_that_go_back_are_found_wherever_the_parts_meet() -> None:
    header, records = packets_of("01-java-produce-consume-group.pcap")
    data = header + b"".join([*records[:70], records[3], *records[70:]])
    for parts in PARTS:
        assert first_disorder(surveyed(data, parts)[0]) == 71
        assert first_disorder(surveyed(header + b"".join(records), parts)[0]) == 0
