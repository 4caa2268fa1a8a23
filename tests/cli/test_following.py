"""A file that grows, is rotated or is cut: every byte is read once, until Ctrl-C."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kproxy.cli import following
from kproxy.cli.following import GrowingFile
from tests.cli.conftest import Kproxy
from tests.support.corpus import CAPTURES

SECTION = b"\x0a\x0d\x0d\x0a"
CAPTURE = CAPTURES / "04-transactions.pcap"


def read(path: Path, *steps: Callable[[], object]) -> bytes:
    """All bytes; each time that there are no more, the next step is done."""
    left = iter(steps)

    def wait() -> None:
        next(left)()

    file, found, buffer = GrowingFile(path, wait), b"", memoryview(bytearray(3))
    try:
        while count := file.readinto(buffer):
            found += buffer[:count]
    except StopIteration:
        pass
    finally:
        file.close()
    return found


def add(path: Path, more: bytes) -> None:
    with path.open("ab") as file:
        file.write(more)


@pytest.mark.parametrize(("first", "second"), [(b"{1}\n{2}\n", b"{3}\n"), (SECTION + b"1", SECTION + b"2")])
def test_what_is_added_and_what_follows_a_rotation_is_read(tmp_path: Path, first: bytes, second: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(first)

    def rotate() -> None:
        add(path, b"last")
        path.rename(tmp_path / "log.1")
        path.write_bytes(second)

    assert read(path, lambda: add(path, b"more"), rotate) == first + b"more" + b"last" + second


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"{123456}\n")
    assert read(path, lambda: path.write_bytes(b"{7}\n")) == b"{123456}\n{7}\n"


def test_a_pcap_file_ends_where_another_takes_its_name(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"\xd4\xc3\xb2\xa1")

    def rotate() -> None:
        path.rename(tmp_path / "trace.1")
        path.write_bytes(b"\xd4\xc3\xb2\xa1")

    assert read(path, rotate) == b"\xd4\xc3\xb2\xa1"


def test_a_growing_capture_is_decoded_until_ctrl_c(
    kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole, path = CAPTURE.read_bytes(), tmp_path / "trace.pcap"
    path.write_bytes(whole[:20_000])

    def steps() -> Iterator[None]:
        add(path, whole[20_000:])
        yield
        raise KeyboardInterrupt

    waits = steps()
    monkeypatch.setattr(following.time, "sleep", lambda seconds: next(waits))
    code, out, errors = kproxy("decode", "--follow", path)
    expected = kproxy("decode", "-q", CAPTURE)[1]
    assert code == 0 and sorted(out.splitlines()) == sorted(expected.splitlines())
    assert "248 frames in 124 exchanges on 12 connections" in errors
