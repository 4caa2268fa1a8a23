"""The command, over jars made by hand and a `java` that is not one."""

import json
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.extract import __main__ as command
from kproxy.extract import enums
from kproxy.extract.jars import BROKERS, CLIENTS, SPOKEN, VERSIONS_ONLY

FIELD = {"name": "A", "type": "int32", "versions": "0+"}
DEFINITION = {"apiKey": 1, "type": "request", "name": "HeartbeatRequest", "listeners": ["broker"], "validVersions": "0"}


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jars that all hold the same request; facts.txt stands beside it."""
    folder = tmp_path / "jars"
    folder.mkdir()
    for jar in (*CLIENTS, *VERSIONS_ONLY, *BROKERS):
        with zipfile.ZipFile(folder / jar.file, "w") as archive:
            archive.writestr("A.json", json.dumps({**DEFINITION, "fields": [FIELD]}))
    program = folder / "java"
    program.write_text(f"#!{sys.executable}\nprint('0 NONE')\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(command, "FACTS", tmp_path / "facts.txt")
    for name in ("API_KEYS", "ERROR_CODES"):
        module = tmp_path / f"{name.lower()}.py"
        module.write_text("class Numbers(IntEnum):\n    OTHER = 7\n", encoding="utf-8")
        monkeypatch.setattr(enums, name, module)
    return folder


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command.main, arguments)
    return result.exit_code, result.output


def test_it_writes_what_the_jars_say(jars: Path) -> None:
    assert run("--jars", str(jars))[0] == 0
    count = 4 + len(SPOKEN)
    assert command.FACTS.read_text(encoding="utf-8").splitlines()[-count:] == [
        "error 0 NONE -",
        "api 1 Heartbeat listeners=broker versions=0",
        *(f"speaks {release} 1=0" for release in SPOKEN),
        "message HeartbeatRequest type=request api=1 module=kafka-clients release=4.3.1 versions=0 flexible=none",
        "  A int32 0+",
    ]
    assert enums.API_KEYS.read_text(encoding="utf-8") == "class Numbers(IntEnum):\n    HEARTBEAT = 1\n"
    assert enums.ERROR_CODES.read_text(encoding="utf-8") == "class Numbers(IntEnum):\n    NONE = 0\n"


def test_a_check_is_silent_when_nothing_differs(jars: Path) -> None:
    run("--jars", str(jars))
    assert run("--jars", str(jars), "--check") == (0, "")


def test_a_check_shows_the_difference_and_changes_nothing(jars: Path) -> None:
    run("--jars", str(jars))
    tampered = command.FACTS.read_text(encoding="utf-8").replace("  A int32", "  A int64")
    command.FACTS.write_text(tampered, encoding="utf-8")
    code, output = run("--jars", str(jars), "--check")
    assert code == 1
    assert "\n-  A int64 0+\n+  A int32 0+\n" in output
    assert command.FACTS.read_text(encoding="utf-8") == tampered


def test_a_check_shows_the_difference_of_an_enum(jars: Path) -> None:
    run("--jars", str(jars))
    enums.API_KEYS.write_text("class Numbers(IntEnum):\n    HEARTBEAT = 2\n", encoding="utf-8")
    code, output = run("--jars", str(jars), "--check")
    assert code == 1
    assert "--- api_keys.py" in output and "\n-    HEARTBEAT = 2\n+    HEARTBEAT = 1\n" in output


def test_an_api_that_is_not_judged_is_one_sentence_and_exit_code_2(jars: Path) -> None:
    for jar in (*CLIENTS, *VERSIONS_ONLY, *BROKERS):
        with zipfile.ZipFile(jars / jar.file, "w") as archive:
            definition = {**DEFINITION, "name": "FireworksRequest", "fields": [FIELD]}
            archive.writestr("A.json", json.dumps(definition))
    code, output = run("--jars", str(jars))
    assert (code, output.count("\n")) == (2, 1)
    assert "api_judgements.txt" in output and "Fireworks" in output
    assert not command.FACTS.exists()


def test_a_long_difference_is_cut() -> None:
    old, new = ("\n".join(f"{word} {number}" for number in range(500)) for word in ("a", "b"))
    assert len(command.compare("facts.txt", old, new).splitlines()) == 60


def test_a_missing_jar_is_one_sentence_and_exit_code_2(jars: Path) -> None:
    missing = jars / CLIENTS[0].file
    missing.unlink()
    code, output = run("--jars", str(jars))
    assert (code, output.count("\n")) == (2, 1)
    assert output.startswith("error: cannot read ")
    assert not command.FACTS.exists()
