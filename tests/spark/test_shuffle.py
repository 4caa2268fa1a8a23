"""Blocks through files: all come out once, by partition, connection and packet; an attempt more changes nothing."""

import random
from pathlib import Path

import pytest

from kproxy.spark import shuffle
from kproxy.spark.shuffle import Block, BlockFiles, Key

KEYS = [bytes([number]) * (12 if number % 2 else 36) for number in range(1, 20)]


def partition_of(key: Key) -> int:
    return key[0][0] % 3


def parts_of(chance: random.Random) -> list[list[Block]]:
    """Five parts, the packets of each behind those of the one before."""
    parts = []
    for part in range(5):
        firsts = chance.sample(range(part * 1_000, part * 1_000 + 1_000), 60)
        parts.append([(chance.choice(KEYS), first, chance.randbytes(first % 50)) for first in firsts])
    return parts


@pytest.mark.parametrize("most_open", [1, 256])
def test_blocks_come_by_connection_and_packet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_open: int) -> None:
    monkeypatch.setattr(shuffle, "MOST_OPEN", most_open)
    files, parts = BlockFiles(str(tmp_path / "blocks"), 5, 3), parts_of(random.Random(3))
    for number, blocks in enumerate(parts):
        for attempt in ("a", "b"):
            files.write(number, blocks, partition_of, attempt)
    expected = sorted(block for blocks in parts for block in blocks)
    found = [[(key, first, block) for (key, first), block in files.read(partition)] for partition in range(3)]
    assert sorted(block for blocks in found for block in blocks) == expected
    for partition, blocks in enumerate(found):
        assert blocks == sorted(blocks)
        assert {partition_of((key, first)) for key, first, _ in blocks} == {partition}
    assert sorted(path.suffix for path in (tmp_path / "blocks").iterdir()) == [".blocks"] * 5 + [".index"] * 5


def test_an_empty_part_is_no_mistake(tmp_path: Path) -> None:
    files = BlockFiles(str(tmp_path), 1, 2)
    files.write(0, [], partition_of, "a")
    assert list(files.read(1)) == []
