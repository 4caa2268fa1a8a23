"""The command line, run in the process of the test."""

import pytest

from kproxy.cli import main

Output = tuple[int, str, str]


class Kproxy:
    """Runs a command; gives its exit status, its output, and what went to standard error."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def __call__(self, *words: object) -> Output:
        with pytest.raises(SystemExit) as exit_:
            main([str(word) for word in words])
        out, err = self._capture.readouterr()
        return int(exit_.value.code or 0), out.decode(), err.decode()


@pytest.fixture
def kproxy(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Kproxy:
    """80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")
    return Kproxy(capsysbinary)
