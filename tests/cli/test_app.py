"""The command as a process: pipes that close, exit codes, help that fits."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy import __version__
from kproxy.cli import app
from tests.support.traffic import CAPTURES, ROOT

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()"]
LARGE = CAPTURES / "05-admin.pcap"


def run(*words: str, given: bytes = b"", columns: int = 80) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(ROOT)}
    return subprocess.run([*KPROXY, *words], input=given, capture_output=True, check=False, env=environment)


def test_version() -> None:
    assert run("--version").stdout.decode() == f"kproxy {__version__}\n"


@pytest.mark.parametrize("words", [("--help",), *((command, "--help") for command in app.COMMANDS)])
def test_help_fits_into_80_columns(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 0
    assert max(map(len, done.stdout.decode().splitlines())) <= 80


@pytest.mark.parametrize("command", app.COMMANDS)
def test_the_list_of_commands_says_what_each_command_says(command: str) -> None:
    first = next(line for line in run(command, "--help").stdout.decode().splitlines()[1:] if line)
    assert first.strip() == app.COMMANDS[command]


@pytest.mark.parametrize("command", app.COMMANDS)
def test_the_help_of_every_command_shows_how_it_is_used(command: str) -> None:
    assert f"  kproxy {command}" in run(command, "--help").stdout.decode()


def test_a_shell_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    """As bash does it: Click's protocol, by the name of the program on PATH."""
    program = tmp_path / "kproxy"
    program.write_text(f"#!{sys.executable}\nfrom kproxy.cli import main\nmain()\n", encoding="utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_KPROXY_COMPLETE": "bash_complete"}
    for words, index, expected in (
        ("kproxy de", 1, {"decode", "demo"}),
        ("kproxy decode --form", 2, {"--format"}),
        ("kproxy decode --format ", 3, {"text", "jsonl", "pcapng", "parquet"}),
    ):
        asked = {**environment, "COMP_WORDS": words, "COMP_CWORD": str(index)}
        done = subprocess.run([program], capture_output=True, encoding="utf-8", check=True, env=asked)
        assert {line.removeprefix("plain,") for line in done.stdout.splitlines()} >= expected


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


def test_the_exit_codes_are_in_the_help() -> None:
    text = run("decode", "--help").stdout.decode()
    assert "0  decoded" in text
    assert "3  a capture is damaged" in text


def test_standard_input_is_a_capture_too() -> None:
    done = run("decode", "-q", "--format", "jsonl", "-", given=LARGE.read_bytes())
    assert done.returncode == 0
    assert done.stdout == run("decode", "-q", "--format", "jsonl", str(LARGE)).stdout


def test_a_closed_pipe_is_no_error() -> None:
    command = " ".join([f"'{word}'" for word in [*KPROXY, "decode", "-v", str(LARGE)]])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stderr == b""
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 1


def test_unknown_commands_are_one_sentence() -> None:
    done = run("decoed")
    assert done.returncode == 2
    assert done.stderr.decode().startswith("kproxy: no such command 'decoed' (did you mean decode")
    assert done.stderr.count(b"\n") == 1


def test_without_a_command_the_help_is_shown_as_it_is() -> None:
    done = run()
    assert done.returncode == 2
    assert done.stderr.decode().rstrip() == run("--help").stdout.decode().rstrip()


@pytest.mark.parametrize("words", [("decode", "--bogus"), ("decode", "--format")])
def test_a_command_refers_to_its_own_help(words: tuple[str, ...]) -> None:
    assert run(*words).stderr.decode().rstrip().endswith("; see kproxy decode --help")


def test_a_full_disk_is_one_sentence() -> None:
    done = run("decode", "-q", "-o", "/dev/full", str(LARGE))
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert "No space left on device" in done.stderr.decode()


def test_too_little_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def exhausted(**_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(app, "kproxy", exhausted)
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
