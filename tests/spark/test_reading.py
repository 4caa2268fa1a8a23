"""One file in one task: the rows of `kproxy decode`, or a sentence that says why not; files as people have them."""

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kproxy.spark.chunks import Chunk
from kproxy.spark.divided import Result
from kproxy.spark.file_rows import Options
from kproxy.spark.files import InputFile, find_files
from kproxy.spark.reading import BUNDLE, bundles, decode_whole
from tests.support.corpus import CAPTURES
from tests.support.split_captures import decoded, differences, packets_of, rowset

NAME = "01-java-produce-consume-group.pcap"
GOOD = (CAPTURES / NAME).read_bytes()
PCAPNG = (CAPTURES / "07-tls13-dsb.pcapng").read_bytes()
ALL_ROWS = Options(records=True)


def repacked(order: str, *, nanoseconds: bool) -> bytes:
    """The capture with other bytes in its headers."""
    header, records = packets_of(NAME)
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    major, minor, zone, figures, snaplen, link = struct.unpack("<HHiIII", header[4:])
    data = struct.pack(f"{order}IHHiIII", magic, major, minor, zone, figures, snaplen, link)
    for record in records:
        seconds, fraction, *sizes = struct.unpack("<IIII", record[:16])
        data += struct.pack(f"{order}IIII", seconds, fraction * (1_000 if nanoseconds else 1), *sizes) + record[16:]
    return data


def tagged() -> bytes:
    """The capture with a VLAN tag in each frame."""
    header, records = packets_of(NAME)
    framed = [
        record[:8]
        + struct.pack("<II", *(size + 4 for size in struct.unpack("<II", record[8:16])))
        + (record[16:28] + b"\x81\x00\x00\x07" + record[28:])
        for record in records
    ]
    return header + b"".join(framed)


def block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


SHAPES: dict[str, tuple[str, Callable[[], bytes], str | None]] = {
    "big endian": ("a.pcap", lambda: repacked(">", nanoseconds=False), None),
    "nanoseconds": ("a.pcap", lambda: repacked("<", nanoseconds=True), None),
    "VLAN": ("a.pcap", tagged, None),
    "sections": ("a.pcapng", lambda: PCAPNG + block(0x0B16B00B, b"odd!") + PCAPNG, None),
    "gzip members": ("a.pcap.gz", lambda: gzip.compress(GOOD[:70_000]) + gzip.compress(GOOD[70_000:]), None),
    "zstd frames": (
        "a.pcap.zst",
        lambda: b"".join(zstandard.compress(part) for part in (GOOD[:70_000], GOOD[70_000:])),
        None,
    ),
    "rubbish behind gzip": ("a.pcap.gz", lambda: gzip.compress(GOOD) + b"rubbish", "a.pcap.gz"),
    "half of gzip": ("a.pcap.gz", lambda: gzip.compress(GOOD)[:8_000], "a.pcap.gz"),
    "odd name": ("a b%20{ü}\n[1].pcap", lambda: GOOD, None),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("as_chunks", [False, True])
def test_rows_are_those_of_kproxy_decode(tmp_path: Path, shape: str, *, as_chunks: bool) -> None:
    name, make, problem = SHAPES[shape]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(make())
    [file] = find_files([str(tmp_path / "in")])
    *chunks, done = decode_whole(ALL_ROWS, None if as_chunks else str(tmp_path / "out"), (file, None))
    assert isinstance(done, tuple)
    found, result = done
    expected = decoded(Path(file.path), tmp_path, "--records")
    assert found == file
    assert [damage for damage in result.damages if problem is None or problem not in damage] == []
    assert bool(result.damages) == (problem is not None)
    assert len(expected["exchanges"]) > 4
    if as_chunks:
        assert {chunk.table for chunk in chunks if isinstance(chunk, Chunk)} == {
            name for name in expected if expected[name]
        }
    else:
        assert differences(expected, rowset(tmp_path / "out")) == {}


def outcome(path: Path, folder: Path) -> Result:
    [file] = find_files([str(path)])
    [done] = decode_whole(ALL_ROWS, str(folder), (file, None))
    assert isinstance(done, tuple)
    return done[1]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (zero := tmp_path / "zero.pcap").touch()
    assert "zero.pcap: " in outcome(zero, tmp_path / "out").damages[0]
    (gone := tmp_path / "gone.pcap").write_bytes(GOOD)
    [file] = find_files([str(gone)])
    gone.unlink()
    [done] = decode_whole(ALL_ROWS, str(tmp_path / "out"), (file, None))
    assert isinstance(done, tuple)
    assert "No such file" in done[1].damages[0]
    if os.geteuid():
        (closed := tmp_path / "closed.pcap").write_bytes(GOOD)
        closed.chmod(0)
        assert "Permission denied" in outcome(closed, tmp_path / "out").damages[0]


def test_links_are_followed_and_folders_named_as_captures_are_folders(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").mkdir()
    (tmp_path / "x.pcap" / "a.pcap").write_bytes(GOOD)
    (tmp_path / "x.pcap" / "b.pcap").symlink_to("a.pcap")
    (tmp_path / "x.pcap" / "dead.pcap").symlink_to("nowhere")
    found = find_files([str(tmp_path / "*.pcap")])
    assert [file.name for file in found] == ["a.pcap", "b.pcap"]
    assert outcome(Path(found[1].path), tmp_path / "out").damages == []


def test_a_task_that_fails_costs_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str, data: bytes | None) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("kproxy.spark.reading.open_file", fail)
    (tmp_path / "a.pcap").write_bytes(GOOD)
    (damage,) = outcome(tmp_path / "a.pcap", tmp_path / "out").damages
    assert "a bug of kproxy: RuntimeError at test_reading.py:" in damage
    assert "odd" not in damage, "what an exception says may be of a record"


def test_small_files_share_a_task_and_large_ones_have_their_own() -> None:
    sizes = [BUNDLE // 2, BUNDLE // 2, 1, 2 * BUNDLE, 1, 1]
    files = [InputFile(f"/{number}", size, 0) for number, size in enumerate(sizes)]
    assert [[file.size for file in bundle] for bundle in bundles(files)] == [
        sizes[:2],
        sizes[2:3],
        sizes[3:4],
        sizes[4:],
    ]
    assert list(bundles([])) == []
