"""The line that says which analysis is run; the pages are in test_report.py."""

import io
import sys

import pytest

from kproxy.cli.report_pages import Meter, tell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Meter(wanted=True) as meter:
        meter.show("Spark is started")
    assert shown.getvalue() == "\r\x1b[2KSpark is started\r\x1b[2K"


def test_nothing_is_shown_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Meter(wanted=True) as meter:  # standard error is no terminal
        meter.show("x")
    assert capsys.readouterr().err == ""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Meter(wanted=False) as meter:
        meter.show("x")
    assert shown.getvalue() == ""


def test_what_damages_say_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    tell(["a\x1b[31m"], "kproxy-spark")
    assert capsys.readouterr().err == "kproxy-spark: a\\x1b[31m\n"
