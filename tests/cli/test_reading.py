"""Sources read for a report: the bar, Ctrl-C, and the first answer."""

import gzip
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kproxy.capture import open_capture
from kproxy.cli import progress as progress_module
from kproxy.cli import reading as module
from kproxy.cli.progress import progress
from kproxy.cli.reading import FirstAnswer
from kproxy.pipeline.inputs import Files
from tests.bench.traffic import SHAPES
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled

SIZE = 6_000_000
AT = 2_500_000  # bytes
# A person's Ctrl-C, or the moment of the first answer, comes at that byte instead of at that second.
RUN = """
import os, signal, sys
from kproxy.cli import main, reading, report

def is_due(self, read, total):
    if self.was_asked or read < int(sys.argv[1]):
        return False
    if sys.argv[2] == "interrupt":
        self.was_asked = True
        os.kill(os.getpid(), signal.SIGINT)
        return False
    return sys.argv[2] == "answer"

fork = reading.FirstAnswer.fork

def fork_and_wait(self):
    # The whole answer may be ready before the first one, which is not shown then: wait for the first
    fork(self)
    if not self.is_here:
        os.set_blocking(self._pipe, True)

reading.FirstAnswer.is_due = is_due
reading.FirstAnswer.fork = fork_and_wait
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


@pytest.mark.slow
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
    of_all = {verdict["id"]: verdict["verdict"] for verdict in json.loads(done.stdout)["verdicts"]}
    of_part = {verdict["id"]: verdict["verdict"] for verdict in whole["verdicts"]}
    assert of_part["latency"] != of_all["latency"]  # it counts the requests


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
        f"from kproxy.analyses import loading\nloading.MOST_HELD = 0  # few rows would stay in memory\n{RUN}",
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


def is_gone(process: int | None) -> bool:
    """Whether a child of this process has ended, and has been waited for."""
    assert process is not None
    try:
        os.waitpid(process, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


@pytest.mark.parametrize("text", ["one line\n", "w\u00f6rds \udcff\n" * 3_000])
def test_what_is_sent_is_received_once(text: str) -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            first.send(text)
        process = first._process
        received = ""
        while not received:
            select.select([first._pipe], [], [], 60)
            received = first.received()
        assert received == text.encode("utf-8", "backslashreplace").decode()
        assert first.received() == ""
    assert is_gone(process)


def test_of_a_process_that_fails_there_is_no_answer() -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            raise RuntimeError("not seen by anyone")
        select.select([first._pipe], [], [], 60)
        assert first.received() == ""
        assert first._process is None


def test_a_process_that_takes_long_is_ended() -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            time.sleep(600)
        process = first._process
        assert first.received() == ""
    assert is_gone(process)


def test_a_cancelled_one_is_not_shown() -> None:
    first = FirstAnswer()
    with first.contained():
        first.fork()
        if first.is_here:
            first.send("too late")
        first.cancel()
        select.select([first._pipe], [], [], 60)
        assert first.received() == ""


@pytest.mark.parametrize(
    ("read", "total", "due"),
    [
        (10, 1_000_000, True),
        (10, None, True),  # of a pipe nobody knows
        (999_999, 1_000_000, False),  # the whole answer comes as soon
    ],
)
def test_it_is_due_once_and_where_much_is_left(
    read: int, total: int | None, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FirstAnswer()
    assert not first.is_due(read, total)  # too early
    monkeypatch.setattr(module, "AFTER_S", 0.0)
    monkeypatch.setattr(module, "LEAST_LEFT_S", 0.001)
    first._began = first._began[0] - 1.0, first._began[1]
    assert first.is_due(read, total) is due
    assert not first.is_due(read, total)


FIRST = CAPTURES / "01-java-produce-consume-group.pcap"


@pytest.mark.parametrize("wanted", [True, False])
def test_there_is_none_without_a_terminal(wanted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with open_capture(FIRST) as capture, progress(Files([FIRST]), capture, wanted=wanted) as advance:
        assert advance is None
    assert capsys.readouterr().err == ""


def test_on_a_terminal_it_tells_the_file_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal then
    monkeypatch.setenv("TERM", "xterm")  # on a dumb one it shows nothing
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress_module, "UPDATE_S", 0.0)
    with open_capture(FIRST) as capture, progress(Files([FIRST]), capture, wanted=True) as advance:
        assert advance is not None
        for _ in range(1000):
            advance()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert FIRST.name[:20] in captured.err


def test_the_size_is_known_of_plain_files_only(tmp_path: Path) -> None:
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(FIRST.read_bytes()))
    assert Files([FIRST]).plain_size == FIRST.stat().st_size
    assert Files([FIRST, packed]).plain_size is None
    assert Files([Path("-")]).plain_size is None
