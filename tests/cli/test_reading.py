"""kproxy report while it reads: the first answer and the answer after Ctrl-C are those of a capture cut at that byte."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.capture import open_capture
from tests.bench.traffic import SHAPES
from tests.support.sampled import sampled

SIZE = 6_000_000
AT = 2_500_000  # bytes
# A person's Ctrl-C, or the moment of the first answer, comes at that byte instead of at that second.
RUN = """
import os, signal, sys
from kproxy.cli import first_answer, main, reading, report

def is_due(self, read, total):
    if self.was_asked or read < int(sys.argv[1]):
        return False
    if sys.argv[2] == "interrupt":
        self.was_asked = True
        os.kill(os.getpid(), signal.SIGINT)
        return False
    return sys.argv[2] == "answer"

first_answer.FirstAnswer.is_due = is_due
report.FIRST_ANALYSES_S = 1000
if sys.argv[2] == "sql":
    read = reading.SourceReader.read

    def interrupted(self, path, source, steps):
        def ended():
            for _ in steps:
                if source.position >= int(sys.argv[1]) and not self.interrupted:
                    os.kill(os.getpid(), signal.SIGINT)
                yield

        read(self, path, source, ended())

    reading.SourceReader.read = interrupted
    main(["sql", *sys.argv[3:]])
main(["report", *sys.argv[3:]])
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A capture, and how many exchanges were written to it."""
    path = tmp_path_factory.mktemp("reading") / "busy.pcap"
    return path, SHAPES["mixed"](path, SIZE)


@pytest.fixture(scope="module")
def beginning(capture: tuple[Path, int]) -> Path:
    """What is read of it up to AT: whole packets."""
    path, _ = capture
    with open_capture(path) as opened:
        for _ in opened.batches():
            if opened.position >= AT:
                break
        cut = opened.position
    (path.parent / "cut").mkdir()
    short = path.parent / "cut" / path.name
    short.write_bytes(path.read_bytes()[:cut])
    return short


def report(what: str, *words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, str(AT), what, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)


def of_file(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report("nothing", "-q", "--format", "json", path).stdout)
    return found


def joined(text: str) -> str:
    return " ".join(text.split())


def test_the_first_answer_is_that_of_the_beginning(capture: tuple[Path, int], beginning: Path) -> None:
    path, exchanges = capture
    done = report("answer", "--format", "json", path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["summary"]["requests"] == exchanges  # one document, of the whole
    whole, first = of_file(beginning), joined(done.stderr)
    percent = beginning.stat().st_size * 100 // path.stat().st_size
    assert first.startswith("First answer, from the first ")
    assert f" of 6.0 MB ({percent}%) {whole['summary']['requests']:,} requests, " in first
    assert whole["summary"]["requests"] < exchanges
    assert f"{whole['summary']['connections']:,} connections, " in first
    assert " analyses ran so far, over that part only: " in first
    for verdict in whole["verdicts"][:2]:
        shown = f"{verdict['severity']} {verdict['id']}: {verdict['verdict']}"
        assert joined(shown)[:80] in first
    assert whole["verdicts"][0]["verdict"] != json.loads(done.stdout)["verdicts"][0]["verdict"]


@pytest.mark.slow
def test_an_interrupt_ends_the_reading_and_the_answer_says_so(capture: tuple[Path, int], beginning: Path) -> None:
    path, _ = capture
    done = report("interrupt", "--format", "json", path)
    assert done.returncode == 130
    page, expected = json.loads(done.stdout), of_file(beginning)
    size = beginning.stat().st_size
    assert page.pop("part") == f"the first {size / 1e6:.1f} MB of 6.0 MB ({size * 100 // path.stat().st_size}%)"
    assert page["verdicts"] == expected["verdicts"]
    assert {**page["summary"], "sources": []} == {**expected["summary"], "sources": []}
    assert done.stderr == "\nkproxy: interrupted; Ctrl-C again to leave without an answer\n"


@pytest.mark.slow
def test_a_query_after_an_interrupt_is_of_what_was_read(capture: tuple[Path, int], beginning: Path) -> None:
    done = report(
        "sql", capture[0], "SELECT count(*) AS n FROM exchanges WHERE request_at IS NOT NULL", "--format", "csv"
    )
    assert done.returncode == 130
    assert done.stdout == f"n\n{of_file(beginning)['summary']['requests']}\n"
    assert f"kproxy: the tables have only the first {beginning.stat().st_size / 1e6:.1f} MB of 6.0 MB (" in done.stderr


@pytest.mark.parametrize("words", sampled([[], ["--only", "map"], ["--format", "markdown"]], [["--only", "map"]]))
def test_an_interrupted_answer_says_so_in_every_form(capture: tuple[Path, int], words: list[str]) -> None:
    assert "Interrupted: this is from the first " in joined(
        report("interrupt", *words, capture[0]).stdout.replace("\\", "")
    )


@pytest.mark.slow
def test_a_small_source_has_one_answer_and_a_quiet_report_too(capture: tuple[Path, int]) -> None:
    for words in (["answer", "-q"], ["nothing"]):
        assert report(*words, capture[0]).stderr == ""


@pytest.mark.slow
def test_a_pipe_has_no_size(capture: tuple[Path, int]) -> None:
    with capture[0].open("rb") as stream:
        done = report("answer", "-", stdin=stream)
    assert f"{capture[1]:,} requests" in joined(done.stdout)
    assert ", after decompression " in joined(done.stderr)


def test_without_room_for_the_tables_it_says_where(capture: tuple[Path, int], tmp_path: Path) -> None:
    command = [
        "bash",
        "-c",
        'ulimit -f 40; exec "$@"',
        "-",
        sys.executable,
        "-c",
        RUN,
        str(AT),
        "nothing",
        str(capture[0]),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"kproxy: {tmp_path}: file too large: the tables of the sources are kept there meanwhile; "
        "set TMPDIR to a directory with more room\n"
    )
    assert not list(tmp_path.iterdir())
