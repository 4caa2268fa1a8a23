"""Blocks of segments: taken in again they give what the packets give; and what a survey counts."""

import random
from itertools import groupby
from pathlib import Path

import pytest

from kproxy.capture import Data, FlowItem, Flows, PacketBatch, open_capture, splitting
from kproxy.capture.segments import SEGMENT_HEADER, BlockWriter, Survey, fill
from kproxy.capture.splitting import PartReader, begin
from tests.support.built_captures import kafka_like, streams
from tests.support.traffic import CAPTURES

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


@pytest.mark.parametrize("block_size", [1, 5_000, 1 << 20])
@pytest.mark.parametrize("name", ["11-lossy-network.pcap", "07-tls13-dsb.pcapng"])
def test_blocks_left_in_the_file_are_filled_with_what_they_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block_size: int
) -> None:
    """Also where the file is longer than what is read of it at once."""
    monkeypatch.setattr(splitting, "READ", 10_000)
    left = blocks_in_place(CAPTURES / name, block_size)
    with (CAPTURES / name).open("rb") as file:
        filled = [(key, first, fill(block, file.fileno())) for key, first, block in left]
    assert filled == blocks_of(block_size, CAPTURES / name)
    assert sum(len(block) for _, _, block in left) < (CAPTURES / name).stat().st_size / 2
    with (CAPTURES / name).open("rb") as file:
        assert [fill(block, file.fileno()) for _, _, block in filled] == [block for _, _, block in filled]


def test_blocks_that_are_not_filled_are_refused() -> None:
    key, _, block = blocks_in_place(CAPTURE, 1 << 20)[0]
    with pytest.raises(ValueError, match="without its payloads"):
        Flows().receive_block(key, block, 0, [], [])


def test_what_cannot_be_filled_is_refused(tmp_path: Path) -> None:
    """Any bytes of a block may be wrong, and the file may have become shorter: nothing beyond either is read."""
    _, _, block = max(blocks_in_place(CAPTURE, 1 << 20), key=lambda each: len(each[2]))
    (short := tmp_path / "short").write_bytes(CAPTURE.read_bytes()[:100_000])
    chance, refused = random.Random(2), 0
    with short.open("rb") as file, pytest.raises(EOFError):
        fill(block, file.fileno())
    with CAPTURE.open("rb") as file:
        whole = fill(block, file.fileno())
        for size in range(1, 400):
            try:
                assert whole.startswith(fill(block[:size], file.fileno()))  # the cut is between two segments
            except ValueError as error:
                assert str(error) == "a block ends within a segment"
                refused += 1
        assert refused > 300
        for _ in range(2_000):
            at = chance.randrange(len(block) - 8)
            try:
                fill(block[:at] + chance.randbytes(8) + block[at + 8 :], file.fileno())
            except (ValueError, OSError, EOFError):
                refused += 1
    assert refused > 400
