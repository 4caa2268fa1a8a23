"""SpillFiles: pieces come back, files go with their last piece, and nothing has a name."""

from pathlib import Path

import pytest

from kproxy.page.spilling import SEGMENT, SpillFiles


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
