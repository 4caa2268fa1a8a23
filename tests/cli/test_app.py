"""The command as a process: pipes that close, exit codes, help that fits."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy import __version__
from kproxy.cli import app
from tests.cli.conftest import Kproxy
from tests.support.corpus import CAPTURES, ROOT

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()"]
LARGE = CAPTURES / "05-admin.pcap"


def run(*words: str, given: bytes = b"", columns: int = 80) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(ROOT)}
    return subprocess.run([*KPROXY, *words], input=given, capture_output=True, check=False, env=environment)


def test_version(kproxy: Kproxy) -> None:
    assert kproxy("--version") == (0, f"kproxy {__version__}\n", "")


@pytest.mark.parametrize("command", app.COMMANDS)
def test_the_help_of_a_command_fits_into_80_columns_and_shows_how_it_is_used(kproxy: Kproxy, command: str) -> None:
    code, out, _ = kproxy(command, "--help")
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines)) <= 80
    assert next(line for line in lines[1:] if line).strip() == app.COMMANDS[command]
    assert f"  kproxy {command}" in out


def test_without_a_command_the_help_is_shown_as_it_is(kproxy: Kproxy) -> None:
    code, out, _ = kproxy("--help")
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert kproxy() == (2, "", out)


def imported_by(*words: str) -> set[str]:
    """Names of the modules that a run of the command imports, and their packages."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kproxy", *words],
        capture_output=True,
        check=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    lines = done.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_version_imports_nothing() -> None:
    imported = imported_by("--version")
    assert {name for name in imported if name.startswith("kproxy.")} == {"kproxy.cli"}
    assert not imported & {"asyncio", "click", "cryptography", "dataclasses", "msgspec", "rich", "typing", "uvloop"}


def test_help_imports_no_command() -> None:
    imported = imported_by("--help")
    assert {name for name in imported if name.startswith("kproxy.")} <= {
        "kproxy.cli",
        "kproxy.cli.app",
        "kproxy.errors",
    }


def test_decode_imports_only_what_it_uses() -> None:
    imported = imported_by("decode", str(CAPTURES / "01-java-produce-consume-group.pcap"))
    assert not imported & {
        "asyncio",
        "cel",
        "cryptography",
        "pyarrow",
        "rich.console",
        "starlette",
        "uvicorn",
        "uvloop",
    }
    assert not imported & {"crc32c", "email", "importlib.metadata", "importlib.resources"}
    assert not imported & {"kproxy.capture.tls.connection", "kproxy.output.tables", "kproxy.output.where"}
    assert not [name for name in imported if name.startswith(("kproxy.config", "kproxy.proxy"))]
    assert not imported & {f"kproxy.cli.{command}" for command in app.COMMANDS} - {"kproxy.cli.decode"}


def test_standard_input_is_a_capture_too() -> None:
    done = run("decode", "-q", "--format", "jsonl", "-", given=LARGE.read_bytes())
    assert done.returncode == 0
    assert done.stdout == run("decode", "-q", "--format", "jsonl", str(LARGE)).stdout


KAFKA = ["--listen", "127.0.0.1:19092", "--bootstrap", "127.0.0.1:1"]
WRITING = [  # every command that writes to standard output, and what Click writes itself
    ["--version"],
    ["--help"],
    ["decode", "--help"],
    ["decode", "-v", str(LARGE)],
    ["decode", "--format", "jsonl", str(LARGE)],
    ["report", "--list"],
    ["report", "-q", "--only", "map", str(LARGE)],
    ["sql", "-q", str(LARGE), "SELECT * FROM exchanges"],
    ["sql", "-q", str(LARGE), "SELECT * FROM exchanges", "--format", "csv"],
    ["api"],
    ["api", "Fetch"],
    ["check", "--schema"],
    ["doctor", *KAFKA, "--timeout", "1", "--admin", "off"],
    ["filters"],
]


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_a_closed_pipe_is_no_error(
    words: list[str], kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``kproxy ... | head``, when head has ended."""
    reading, writing = os.pipe()
    os.close(reading)
    with monkeypatch.context() as piped, open(writing, "w", encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor
        piped.setattr(sys, "stdout", pipe)
        code, _, errors = kproxy(*words)
    assert (code, [line for line in errors.splitlines() if line.startswith("kproxy") or "Error" in line]) == (0, [])


@pytest.mark.parametrize("words", [words for words in WRITING if not words[-1].startswith("--")], ids=" ".join)
def test_standard_output_that_is_closed_is_one_sentence(
    words: list[str], kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``kproxy ... >&-``"""
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        code, _, errors = kproxy(*words)
    assert (code, errors) == ((4, "") if words[0] == "doctor" else (2, "kproxy: standard output is closed\n"))


def test_unknown_commands_are_one_sentence(kproxy: Kproxy) -> None:
    code, _, errors = kproxy("decoed")
    assert code == 2
    assert errors.startswith("kproxy: no such command 'decoed': did you mean decode")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("words", [("decode", "--bogus"), ("decode", "--format")])
def test_a_command_refers_to_its_own_help(kproxy: Kproxy, words: tuple[str, ...]) -> None:
    assert kproxy(*words)[2].rstrip().endswith("; see kproxy decode --help")


def test_a_full_disk_is_one_sentence(kproxy: Kproxy) -> None:
    code, _, errors = kproxy("decode", "-q", "-o", "/dev/full", LARGE)
    assert (code, errors.count("\n")) == (1, 1)
    assert "No space left on device" in errors


def test_too_little_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(app, "_run", exhausted)
    with pytest.raises(SystemExit) as exit_:
        app.main([])
    assert exit_.value.code == 1
    assert capsys.readouterr().err.startswith("kproxy: there is not enough memory")


def test_after_an_interrupt_what_was_decoded_is_kept_and_summed_up() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*KPROXY, "decode", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - ignored below nohup and &
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(LARGE.read_bytes()[:-100])
        process.stdin.flush()
        first = process.stdout.readline()  # it is at work, and waits for more of the capture
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()
    assert process.returncode == 130
    assert errors.count(b" exchanges on ") == 1
    assert b"Traceback" not in errors
    assert b"ApiVersions" in first
    assert rest.endswith(b"\n")


@pytest.mark.parametrize(
    ("words", "told"), [(("decode", "-q", "no-such-file"), ""), (("api", "ApiVersions"), "taken apart\n")]
)
def test_a_decode_ends_without_taking_its_objects_apart(words: tuple[str, ...], told: str) -> None:
    program = "import atexit; atexit.register(print, 'taken apart'); from kproxy.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.stdout.endswith(told) if told else done.stdout == ""
    assert done.returncode == (0 if told else app.USAGE)


@pytest.mark.parametrize("command", ["decode", "report", "sql", "open", "replay"])
def test_every_command_refuses_a_source_that_is_empty_in_the_same_way(kproxy: Kproxy, command: str) -> None:
    more = {"sql": ["SELECT 1"], "open": ["--no-browser"], "replay": ["--to", "127.0.0.1:1"]}.get(command, [])
    assert kproxy(command, "/dev/null", *more) == (2, "", "kproxy: /dev/null: byte 0: the file is empty\n")
