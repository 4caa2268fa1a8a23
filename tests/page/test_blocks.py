"""Blocks: what goes in comes out by its number; memory is bounded, the oldest leave or spill."""

import random
from pathlib import Path

import pytest

from kproxy.page.blocks import BLOCK, SEGMENT, Blocks, Item, Side, SpillFiles


def items(count: int, size: int) -> list[Item]:
    source = random.Random(5)
    return [
        Item(b"line %d\n" % n, Side(source.randbytes(size), size), None if n % 3 else Side(b"", 7, cut="no bytes"))
        for n in range(1, count + 1)
    ]


def test_items_come_back_by_their_numbers() -> None:
    blocks, made = Blocks(1 << 30), items(500, 2_000)
    assert [blocks.append(item) for item in made] == list(range(1, 501))
    assert [blocks.get(number) for number in (1, 2, 131, 499, 500)] == [made[n - 1] for n in (1, 2, 131, 499, 500)]
    assert blocks.get(0) is None and blocks.get(501) is None
    assert list(blocks.some(range(120, 301))) == made[119:300]
    assert list(blocks.some(range(490, 503))) == [*made[489:], None, None]


def test_the_oldest_leave_and_are_counted() -> None:
    most = 4 * BLOCK
    blocks, made = Blocks(most), items(3_000, 2_000)  # random bytes: they do not become smaller
    for item in made:
        blocks.append(item)
        assert blocks.size <= most + BLOCK
    assert blocks.first > 2_000
    assert blocks.get(blocks.first - 1) is None
    assert list(blocks.some(range(blocks.first, 3_001))) == made[blocks.first - 1 :]


def test_where_a_directory_is_given_they_spill(tmp_path: Path) -> None:
    blocks, made = Blocks(BLOCK, SpillFiles(tmp_path)), items(2_000, 2_000)
    for item in made:
        blocks.append(item)
    assert (blocks.first, blocks.size <= 2 * BLOCK) == (1, True)
    assert list(blocks.some(range(1, 2_001))) == made
    blocks.close()
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_the_oldest_leave(tmp_path: Path) -> None:
    spill = SpillFiles(tmp_path / "nowhere")
    blocks, made = Blocks(BLOCK, spill), items(1_000, 2_000)
    for item in made:
        blocks.append(item)
    assert blocks.first > 1 and blocks.size <= 2 * BLOCK
    assert list(blocks.some(range(1, 1_001))) == [None] * (blocks.first - 1) + made[blocks.first - 1 :]


def test_files_are_given_back_with_what_has_left(tmp_path: Path) -> None:
    spill = SpillFiles(tmp_path)
    blocks, made = Blocks(1 << 60, spill), items(2_000, 20_000)
    for item in made:
        blocks.append(item)
    blocks.spill_before(1_900)
    assert blocks.size < 2_000 * 20_000 / 10 and spill.size > 1.5 * SEGMENT
    assert list(blocks.some([1, 3, 900, 1_950])) == [made[n - 1] for n in (1, 3, 900, 1_950)]
    blocks.drop_before(1_500)
    assert spill.size < 1.5 * SEGMENT
    assert list(blocks.some([1, 1_499, 1_500, 2_000, 2_001])) == [None, None, made[1_499], made[1_999], None]
    blocks.close()


@pytest.mark.parametrize("size", [BLOCK, 5 * BLOCK])
def test_a_large_item_is_a_block_of_its_own(size: int) -> None:
    blocks = Blocks(BLOCK)
    large, small = Item(b"x", Side(random.Random(1).randbytes(size), size)), Item(b"y")
    for item in (small, large, small):
        blocks.append(item)
    assert blocks.get(2) == large
    assert blocks.get(3) == small


def test_pieces_come_back_and_files_go_with_their_last_one(tmp_path: Path) -> None:
    files = SpillFiles(tmp_path)
    pieces = [bytes([n]) * (SEGMENT // 4) for n in range(10)]
    places = [files.write(piece) for piece in pieces]
    assert [files.read(place) for place in places] == pieces
    assert (files.size, list(tmp_path.iterdir())) == (10 * SEGMENT // 4, [])
    for place in places[:3]:
        files.release(place)
    assert files.size == 10 * SEGMENT // 4, "a piece of the first file is needed still"
    files.release(places[3])
    assert files.size == 6 * SEGMENT // 4
    assert [files.read(place) for place in places[4:]] == pieces[4:]
    for place in places[4:]:
        files.release(place)
    assert files.size == 2 * SEGMENT // 4, "the last one, which more is written to"
    files.close()
    assert files.size == 0


def test_of_few_bytes_that_may_be_there_a_file_is_a_small_part(tmp_path: Path) -> None:
    files = SpillFiles(tmp_path, 80)
    places = [files.write(bytes(5)) for _ in range(16)]
    for place in places[:3]:
        files.release(place)
    assert files.size == 70
    files.close()


def test_without_room_nothing_is_counted(tmp_path: Path) -> None:
    files = SpillFiles(tmp_path / "nowhere")
    with pytest.raises(OSError, match="No such file"):
        files.write(b"x")
    assert files.size == 0
