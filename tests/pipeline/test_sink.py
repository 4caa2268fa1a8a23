"""Where output goes: in blocks or at once, never over an input."""

from pathlib import Path

import pytest

from kproxy.errors import UsageError
from kproxy.pipeline.sink import BLOCK, Sink, check_output


def test_lines_are_written_in_blocks_and_all_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with Sink(path, live=False) as sink:
        sink.write(b"one\n")
        assert path.read_bytes() == b""
        sink.write(b"x" * BLOCK)
        assert path.stat().st_size == BLOCK + 4
        sink.write(b"end\n")
    assert path.read_bytes() == b"one\n" + b"x" * BLOCK + b"end\n"


def test_a_live_sink_writes_at_once(tmp_path: Path) -> None:
    with Sink(tmp_path / "out", live=True) as sink:
        sink.write(b"one\n")
        assert (tmp_path / "out").read_bytes() == b"one\n"


def test_what_was_written_before_an_error_stays(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Sink(tmp_path / "out", live=False) as sink:
        sink.write(b"one\n")
        raise ZeroDivisionError
    assert (tmp_path / "out").read_bytes() == b"one\n"


def test_standard_output_stays_open(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with Sink(None, live=False) as sink:
        sink.write(b"one\n")
    print("two")
    assert capsysbinary.readouterr().out == b"one\ntwo\n"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(given)
    for path, said in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "out", "folder does not exist"),
        (given, "is also an input"),
        (tmp_path / "link", "is also an input"),
    ):
        with pytest.raises(UsageError, match=said):
            check_output(path, [given])
    check_output(None, [given])
    check_output(tmp_path / "out", [given, Path("-")])
    assert given.read_bytes() == b"precious"
