"""Which files an input names, and that they open."""

from pathlib import Path

import pytest

from kproxy.capture import Capture
from kproxy.errors import CaptureError, UsageError
from kproxy.spark.files import find_files, open_file, open_raw
from tests.support.traffic import CAPTURES

CAPTURE = CAPTURES / "01-java-produce-consume-group.pcap"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.pcap", "a.pcapng", "c.jsonl", ".hidden", "_SUCCESS"):
        (tmp_path / name).write_bytes(CAPTURE.read_bytes())
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.pcap").write_bytes(b"")
    return tmp_path


def names(*inputs: object) -> list[str]:
    return [file.name for file in find_files(map(str, inputs))]


def test_folders_files_and_patterns(folder: Path) -> None:
    assert names(folder) == ["a.pcapng", "b.pcap", "c.jsonl"]
    assert names(folder / "*.pcap*") == ["a.pcapng", "b.pcap"]
    assert names(folder / "**" / "*.pcap") == ["b.pcap", "d.pcap"]
    assert names(folder / "b.pcap", folder / "b.*") == ["b.pcap"]
    assert names(f"file://{folder}/b.pcap") == ["b.pcap"]


def test_a_name_with_brackets_is_a_file_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "trace[1].pcap").touch()
    assert names(tmp_path / "trace[1].pcap") == ["trace[1].pcap"]


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"/nowhere/\*\.pcap: no such file"):
        find_files(["/nowhere/*.pcap"])
    with pytest.raises(CaptureError, match=r"/nowhere/a\.pcap: cannot be opened: No such file"):
        open_file("/nowhere/a.pcap")


def test_identity_changes_with_the_content_and_the_key_does_not(folder: Path) -> None:
    [before] = find_files([str(folder / "b.pcap")])
    (folder / "b.pcap").write_bytes(b"more")
    [after] = find_files([str(folder / "b.pcap")])
    assert (before.key, before.size) == (after.key, CAPTURE.stat().st_size)
    assert before.identity != after.identity


def test_a_file_opens_as_what_it_is() -> None:
    with open_file(str(CAPTURE)) as capture:
        assert isinstance(capture, Capture)
        assert capture.name == str(CAPTURE)


def test_other_file_systems_are_read_through_pyarrow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local file system stands in for an object store: the same calls of pyarrow.fs."""
    from pyarrow import fs  # noqa: PLC0415

    def file_system(name: str) -> tuple[fs.FileSystem, str]:
        return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), name.removeprefix("store://")

    monkeypatch.setattr("kproxy.spark.files._file_system", file_system)
    [file] = find_files(["store://b.pcap"])
    assert (file.path, file.size) == ("store://b.pcap", CAPTURE.stat().st_size)
    raw = open_raw(file.path)
    raw.seek(4)
    assert raw.readinto(buffer := memoryview(bytearray(4))) == 4
    assert bytes(buffer) == CAPTURE.read_bytes()[4:8]
    raw.close()
    with open_file(file.path) as capture:
        assert isinstance(capture, Capture)
