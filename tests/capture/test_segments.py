"""Blocks of segments: taken in again they give what the packets give; and what a survey counts."""

import io
import random
import struct
from itertools import groupby
from pathlib import Path

import pytest

from kproxy.capture import Data, FlowItem, Flows, PacketBatch, open_capture, splitting
from kproxy.capture.segments import SEGMENT_HEADER, BlockWriter, Payloads, Survey
from kproxy.capture.splitting import (
    Part,
    PartReader,
    PartSurvey,
    begin,
    divide,
    first_disorder,
    guess_boundary,
    settle,
    survey_part,
)
from kproxy.errors import CaptureError
from tests.support.built_captures import block as pcapng_block
from tests.support.built_captures import enhanced, interface, kafka_like, section, streams
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled
from tests.support.split_captures import PLAIN, packets_of

CAPTURE = CAPTURES / "11-lossy-network.pcap"


def blocks_of(block_size: int, path: Path = CAPTURE) -> list[tuple[bytes, int, bytes]]:
    writer, number, blocks = BlockWriter(block_size), 1, []
    with open_capture(path) as capture:
        for batch in capture.batches():
            blocks += writer.receive(batch, number)
            number += batch.count
    return sorted([*blocks, *writer.flush()])


def blocks_in_place(path: Path, block_size: int) -> list[tuple[bytes, int, bytes]]:
    """The blocks of a file whose payloads were left in it."""
    writer, number, blocks = BlockWriter(block_size), 1, []
    with path.open("rb", buffering=0) as raw:
        start = begin(raw)
        assert start is not None
        reader = PartReader(raw, start.first, path.stat().st_size, start.preamble)
        for batch in reader.batches():
            blocks += writer.receive(batch, number, reader.buffer_position)
            number += batch.count
    return sorted([*blocks, *writer.flush()])


def bytes_of(items: list[FlowItem | Data]) -> set[tuple[bytes, bytes]]:
    return set(streams(items))


@pytest.mark.parametrize("block_size", [1, 5_000, 1 << 20])
def test_blocks_give_the_streams_of_the_capture(block_size: int) -> None:
    with open_capture(CAPTURE) as capture:
        flows = Flows()
        expected = [item for batch in capture.batches() for item in flows.receive(batch)] + flows.close()
    found: list[FlowItem | Data] = []
    for key, blocks in groupby(blocks_of(block_size), key=lambda block: block[0]):
        flows = Flows()
        for _, _, block in blocks:
            at = 0
            while at < len(block):
                at = flows.receive_block(key, block, at, found_now := [])
                found += found_now
        found += flows.close()
    assert bytes_of(found) == bytes_of(expected)
    assert len(bytes_of(found)) == 5


def test_packets_have_their_numbers() -> None:
    key, first, block = blocks_of(1 << 20)[0]
    flows = Flows()
    at = flows.receive_block(key, block, 0, [])
    assert flows.packets == first
    while at < len(block):
        before = flows.packets
        at = flows.receive_block(key, block, at, [])
        assert flows.packets > before
    assert flows.packets <= 1_416  # packets of the capture, as tshark counts them


def test_a_flow_has_the_number_of_its_first_packet() -> None:
    items: list[FlowItem | Data] = []
    key, first, block = blocks_of(1 << 20)[-1]
    Flows().receive_block(key, block, 0, items)
    assert items[0].flow.number == first


def test_a_block_that_is_cut_is_refused_and_nothing_beyond_it_is_read() -> None:
    key, _, block = blocks_of(1 << 20)[0]
    for size in (*range(1, 200), *random.Random(1).sample(range(200, len(block)), 50)):
        flows, at = Flows(), 0
        with pytest.raises(ValueError, match="ends within a segment"):
            while True:
                at = flows.receive_block(key, block[:size], at, [])
                if at == size:  # the cut is between two segments
                    raise ValueError("a block ends within a segment")
    with pytest.raises(ValueError, match="no block"):
        Flows().receive_block(bytes(200), block, 0, [])


def test_what_is_pending_is_bounded() -> None:
    writer, number, most = BlockWriter(1 << 20, 50_000), 1, 0
    with open_capture(CAPTURE) as capture:
        for packet in capture:
            batch = PacketBatch(1)
            batch.lend(packet.data)
            batch.add_packet(packet)
            most = max([most, *(len(block) for _, _, block in writer.receive(batch, number))])
            number += 1
    assert 40_000 < most <= 50_000 + 1_500 + SEGMENT_HEADER


def test_a_survey_names_connections_servers_and_times() -> None:
    conversation = kafka_like()
    survey = Survey()
    packets = list(conversation.packets)
    for number, packet in enumerate(packets, 1):
        batch = PacketBatch(1)
        batch.lend(packet.data)
        batch.add_packet(packet)
        survey.receive(batch, number)
    assert survey.segments == len(packets)
    [[key, (first, is_syn, size)]] = survey.connections.items()
    assert (first, is_syn) == (1, True)
    assert size > 0
    [(server, accepted)] = survey.servers.items()
    assert server in (key[:6], key[6:])
    assert accepted == 1
    assert survey.latest_ns == max(packet.time_ns for packet in packets)
    assert survey.disorder_at == 0


def test_items_of_a_whole_block_have_the_numbers_that_they_have_one_by_one() -> None:
    for key, _, block in blocks_of(1 << 20):
        flows, at, one_by_one = Flows(), 0, list[tuple[bytes | None, int]]()
        while at < len(block):
            at = flows.receive_block(key, block, at, some := [])
            one_by_one += [(getattr(item, "data", None), flows.packets) for item in some]
        numbers: list[int] = []
        items: list[FlowItem | Data] = []
        assert Flows().receive_block(key, block, 0, items, numbers) == len(block)
        assert [
            (getattr(item, "data", None), number) for item, number in zip(items, numbers, strict=True)
        ] == one_by_one


def read_block(
    key: bytes, block: bytes, payloads: Payloads | None = None, before: int = 0
) -> tuple[list[tuple[int, bytes | None]], list[int]]:
    """The items of a block, and the numbers of their packets."""
    items: list[FlowItem | Data] = []
    numbers: list[int] = []
    Flows().receive_block(key, block, 0, items, numbers, payloads, before)
    return [(getattr(item, "side", -1), getattr(item, "data", None)) for item in items], numbers


@pytest.mark.parametrize("block_size", [1, 5_000, 1 << 20])
@pytest.mark.parametrize("name", ["11-lossy-network.pcap", "07-tls13-dsb.pcapng"])
def test_blocks_left_in_the_file_give_what_they_would_have(
    monkeypatch: pytest.MonkeyPatch, name: str, block_size: int
) -> None:
    """Also where the file is longer than what is read of it at once."""
    monkeypatch.setattr(splitting, "READ", 10_000)
    left, whole = blocks_in_place(CAPTURES / name, block_size), blocks_of(block_size, CAPTURES / name)
    assert [block[:2] for block in left] == [block[:2] for block in whole]
    with (CAPTURES / name).open("rb", buffering=0) as file:
        payloads = Payloads(file, name)
        for (key, _, block), (_, _, expected) in zip(left, whole, strict=True):
            items, numbers = read_block(key, expected)
            assert read_block(key, block, payloads) == (items, numbers)
            assert read_block(key, block, payloads, 1_000) == (items, [number + 1_000 for number in numbers])
    assert sum(len(block) for _, _, block in left) < (CAPTURES / name).stat().st_size / 2


def test_blocks_without_their_payloads_are_refused(tmp_path: Path) -> None:
    """Any bytes of a block may be wrong, and the file may have become shorter: nothing beyond either is read."""
    key, _, block = max(blocks_in_place(CAPTURE, 1 << 20), key=lambda each: len(each[2]))
    with pytest.raises(ValueError, match="without its payloads"):
        read_block(key, block)
    (short := tmp_path / "short").write_bytes(CAPTURE.read_bytes()[:100_000])
    with short.open("rb", buffering=0) as file, pytest.raises(CaptureError, match="short: it changed while"):
        read_block(key, block, Payloads(file, "short"))
    chance, refused = random.Random(2), 0
    with CAPTURE.open("rb", buffering=0) as file:
        payloads = Payloads(file, "whole")
        for size in range(1, 400):
            try:
                read_block(key, block[:size], payloads)
            except ValueError as error:
                assert str(error) == "a block ends within a segment"
                refused += 1
        assert refused > 300
        for _ in range(2_000):
            at = chance.randrange(len(block) - 8)
            try:
                read_block(key, block[:at] + chance.randbytes(8) + block[at + 8 :], payloads)
            except (ValueError, CaptureError):
                refused += 1
    assert refused > 400


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


@pytest.mark.slow
def test_parts_have_all_packets_once() -> None:
    for parts in PARTS:
        for name in PLAIN:
            settled, again = surveyed((CAPTURES / name).read_bytes(), parts)
            assert sum(part.packets for part in settled) == count(CAPTURES / name), (parts, name)
            assert [part.first_number for part in settled] == [
                1 + sum(before.packets for before in settled[:at]) for at in range(len(settled))
            ], (parts, name)
            # the first part of a pcapng may end before its interface is described
            assert len(again) <= name.endswith("pcapng"), (parts, name)
            assert settled[-1].end == (CAPTURES / name).stat().st_size, (parts, name)


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
                data += interface(order=order) + pcapng_block(5, struct.pack(f"{order}III", 0, 0, 0), order)
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


@pytest.mark.parametrize("parts", sampled(PARTS, PARTS[1:2]))
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
    simple = section() + interface() + pcapng_block(3, struct.pack("<I", 4) + b"abcd")
    settled, _ = surveyed(simple, 1)
    assert settled[0].unsplittable == "packets without a time"


def test_times_that_go_back_are_found_wherever_the_parts_meet() -> None:
    header, records = packets_of("01-java-produce-consume-group.pcap")
    data = header + b"".join([*records[:70], records[3], *records[70:]])
    for parts in PARTS:
        assert first_disorder(surveyed(data, parts)[0]) == 71
        assert first_disorder(surveyed(header + b"".join(records), parts)[0]) == 0
