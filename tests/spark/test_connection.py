"""Connections decoded one by one, from parts of a capture: the tables are those of `kproxy decode`. No Spark is needed."""

from pathlib import Path

import pytest

from tests.support.relinked import CONTAINERS, RECORDED
from tests.support.split_captures import PLAIN, altered, decoded, differences, in_parts
from tests.support.traffic import CAPTURES

LITTLE = [name for name in PLAIN if name.endswith(".pcap")]
ALTERATIONS = ("shuffled", "out of order", "started late", "lossy", "repeated", "snaplen", "cut", "damaged")


@pytest.mark.parametrize("name", PLAIN)
def test_parts_of_a_capture_give_the_tables_of_kproxy_decode(tmp_path: Path, name: str) -> None:
    expected = decoded(CAPTURES / name, tmp_path, "--records")
    assert len(expected["exchanges"]) > 20
    for parts, block in ((1, 1 << 16), (2, 1_000), (7, 100), (64, 1 << 16)):
        assert differences(expected, in_parts(CAPTURES / name, parts, block=block)) == {}


@pytest.mark.parametrize("how", ALTERATIONS)
def test_so_do_those_of_a_bad_capture(tmp_path: Path, how: str) -> None:
    for seed, name in enumerate(LITTLE[:3] + LITTLE[-2:]):
        (capture := tmp_path / f"{seed}.pcap").write_bytes(altered(name, how, seed))
        (folder := tmp_path / str(seed)).mkdir()
        expected = decoded(capture, folder, "--records")
        assert differences(expected, in_parts(capture, (2, 7, 64)[seed % 3], block=2_000)) == {}, (name, how, seed)


@pytest.mark.parametrize("name", CONTAINERS)
def test_so_do_those_of_other_links_and_containers(tmp_path: Path, name: str) -> None:
    (capture := tmp_path / name).write_bytes(CONTAINERS[name]())
    expected = decoded(capture, tmp_path, "--records")
    if "cut" in name or "damaged" in name:
        assert 0 < len(expected["exchanges"]) < 23
    else:
        (folder := tmp_path / "recorded").mkdir()
        recorded = decoded(CAPTURES / RECORDED, folder, "--records")
        assert {table: len(rows) for table, rows in expected.items()} == {t: len(rows) for t, rows in recorded.items()}
        assert len(expected["exchanges"]) == 23  # as the manifest counts them
    for parts, block in ((1, 1 << 16), (2, 1_000), (7, 100), (64, 1 << 16)):
        assert differences(expected, in_parts(capture, parts, block=block)) == {}
