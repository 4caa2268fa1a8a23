"""The progress bar: only on a terminal, a total only if it is known."""

import gzip
import sys
from pathlib import Path

import pytest

from kproxy.capture import open_capture
from kproxy.cli import progress as module
from kproxy.cli.progress import progress
from tests.support.corpus import CAPTURES

FIRST = CAPTURES / "01-java-produce-consume-group.pcap"


@pytest.mark.parametrize("wanted", [True, False])
def test_there_is_none_without_a_terminal(wanted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with open_capture(FIRST) as capture, progress(FIRST, capture, wanted=wanted) as advance:
        assert advance is None
    assert capsys.readouterr().err == ""


def test_on_a_terminal_it_tells_the_file_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal then
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(module, "UPDATE_S", 0.0)
    with open_capture(FIRST) as capture, progress(FIRST, capture, wanted=True) as advance:
        assert advance is not None
        for _ in range(1000):
            advance()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert FIRST.name[:20] in captured.err


def test_the_size_is_known_of_plain_files_only(tmp_path: Path) -> None:
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(FIRST.read_bytes()))
    assert module.plain_size(FIRST) == FIRST.stat().st_size
    assert module.plain_size(packed) is None
    assert module.plain_size(Path("-")) is None
