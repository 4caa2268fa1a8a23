"""The extraction gives the facts that are checked in, from Kafka's own jars; its command, and what it says of mistakes.

How a definition is read and which layouts are kept apart is in those jars: what would change a line of facts.txt fails here.
"""

import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.errors import UsageError
from kproxy.extract import __main__ as command
from kproxy.extract import facts_text
from kproxy.extract.definitions import merge, parse_json, parse_message
from kproxy.extract.jars import BROKERS, CLIENTS, SPOKEN, VERSIONS_ONLY, fetch, read_error_codes
from kproxy.protocol import facts
from kproxy.protocol.facts import Facts

REQUEST = {
    "apiKey": 1, "type": "request", "name": "HeartbeatRequest", "listeners": ["broker"], "validVersions": "0",
    "fields": [{"name": "A", "type": "int32", "versions": "0+"}],
}  # fmt: skip


@pytest.mark.slow
def test_the_facts_are_what_the_jars_give(require: Callable[[str, object, str], None]) -> None:
    demanded = "extract" in os.environ.get("KPROXY_REQUIRE", "")  # then Maven may go and get them
    try:
        text = command.facts_of(None, offline=not demanded)
    except UsageError as error:
        require("extract", False, f"no jars: {str(error)[:200]}")
    else:
        for path, content in {command.FACTS: text, **facts_text.written_enums(Facts(text))}.items():
            assert command.compare(path.name, path.read_text(encoding="utf-8"), content) == ""


def test_the_modules_are_what_the_facts_give() -> None:
    for path, text in facts_text.written_enums(facts()).items():
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["", "[]", '"name"', "{", "// nothing"])
def test_what_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_a_default_no_generator_accepts_is_refused() -> None:
    fields = [{"name": "A", "type": "uuid", "versions": "0+", "default": "x"}]
    with pytest.raises(ValueError, match="a default of"):
        parse_message(json.dumps({**REQUEST, "fields": fields}), module="kafka-clients", release="4.3.1")


A = {"name": "A", "type": "int32", "versions": "0+"}
TAG = {**A, "name": "T", "tag": 0, "taggedVersions": "0+"}


@pytest.mark.parametrize(
    ("newer", "older", "kind", "blocks"),
    [
        ({**A, "type": "[]X", "fields": [A]}, {**A, "type": "[]Y", "fields": [A]}, "data", 1),
        ({**A, "nullableVersions": "1+"}, A, "data", 1),  # compared at version 0
        (A, {**A, "type": "[]int32"}, "data", 2),
        ({**A, "type": "string", "nullableVersions": "0+"}, {**A, "type": "string"}, "data", 2),
        ({**A, "type": "string", "flexibleVersions": "none"}, {**A, "type": "string"}, "data", 2),
        ({**A, "type": "X", "fields": [A]}, {**A, "type": "X", "fields": [A, A]}, "data", 2),
        ({**TAG, "default": "1"}, {**TAG, "default": "2"}, "request", 2),
        (TAG, {**TAG, "tag": 1}, "request", 2),
        (TAG, {**TAG, "versions": "1+"}, "request", 1),  # a later release has one more
        ({**TAG, "versions": "1+"}, TAG, "request", 2),
        (TAG, {**TAG, "versions": "1+"}, "data", 2),  # a stored record may hold any tag
    ],
)
def test_what_gives_other_bytes_is_a_block_of_its_own(
    newer: dict[str, object], older: dict[str, object], kind: str, blocks: int
) -> None:
    history = [
        parse_message(
            json.dumps({**REQUEST, "type": kind, "flexibleVersions": "0+", "fields": [field]}),
            module="kafka-clients", release=release,
        )
        for field, release in ((newer, "4.3.1"), (older, "3.9.2"))
    ]  # fmt: skip
    assert [block.message.release for block in merge(history)] == ["4.3.1", "3.9.2"][:blocks]


def write_program(name: str, folder: Path, script: str) -> None:
    """Make *name* a program that runs *script* (Python)."""
    program = folder / name
    program.write_text(f"#!{sys.executable}\nimport sys\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def write_jars(folder: Path, definition: str) -> None:
    for jar in (*CLIENTS, *VERSIONS_ONLY, *BROKERS):
        with zipfile.ZipFile(folder / jar.file, "w") as archive:
            archive.writestr("A.json", definition)


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jars that all hold the same request; facts.txt and the enums stand beside it."""
    folder = tmp_path / "jars"
    folder.mkdir()
    write_jars(folder, json.dumps(REQUEST))
    write_program("java", folder, "print('0 NONE')")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(command, "FACTS", tmp_path / "facts.txt")
    for name in ("API_KEYS", "ERROR_CODES"):
        module = tmp_path / f"{name.lower()}.py"
        module.write_text("class Numbers(IntEnum):\n    OTHER = 7\n", encoding="utf-8")
        monkeypatch.setattr(facts_text, name, module)
    return folder


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command.main, list(map(str, arguments)))
    return result.exit_code, result.output


def test_it_writes_what_the_jars_say_and_a_check_shows_the_difference(jars: Path) -> None:
    assert run("--jars", jars)[0] == 0
    written = command.FACTS.read_text(encoding="utf-8")
    assert written.splitlines()[-4 - len(SPOKEN) :] == [
        "error 0 NONE -",
        "api 1 Heartbeat listeners=broker versions=0",
        *(f"speaks {release} 1=0" for release in SPOKEN),
        "message HeartbeatRequest type=request api=1 module=kafka-clients release=4.3.1 versions=0 flexible=none",
        "  A int32 0+",
    ]
    assert facts_text.API_KEYS.read_text(encoding="utf-8") == "class Numbers(IntEnum):\n    HEARTBEAT = 1\n"
    assert run("--jars", jars, "--check") == (0, "")
    tampered = written.replace("  A int32", "  A int64")
    command.FACTS.write_text(tampered, encoding="utf-8")
    facts_text.API_KEYS.write_text("class Numbers(IntEnum):\n    HEARTBEAT = 2\n", encoding="utf-8")
    code, output = run("--jars", jars, "--check")
    assert code == 1
    assert "\n-  A int64 0+\n+  A int32 0+\n" in output and "\n-    HEARTBEAT = 2\n+    HEARTBEAT = 1\n" in output
    assert command.FACTS.read_text(encoding="utf-8") == tampered


MISTAKES: dict[str, Callable[[Path], object]] = {
    "cannot read .*": lambda jars: (jars / CLIENTS[0].file).unlink(),
    f".*{CLIENTS[0].file}": lambda jars: (jars / CLIENTS[0].file).write_bytes(b"<html>"),
    r".*4\.3\.1\.jar: A\.json": lambda jars: write_jars(jars, "{"),
    r".*api_judgements\.txt": lambda jars: write_jars(jars, json.dumps({**REQUEST, "name": "FireworksRequest"})),
    ".*JDK": lambda jars: (jars / "java").unlink(),
    ".*no such class": lambda jars: write_program("java", jars, "sys.stderr.write('no such class'); sys.exit(1)"),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(jars: Path, sentence: str) -> None:
    MISTAKES[sentence](jars)
    code, output = run("--jars", jars)
    assert (code, output.count("\n")) == (2, 1)
    assert re.match(f"error: {sentence}", output), output
    assert not command.FACTS.exists()


def test_the_newest_jar_says_what_a_code_means_and_older_ones_add_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write_program("java", tmp_path, 'print("6 NEW retriable" if "new.jar" in sys.argv[2] else "6 OLD\\n2 GONE")')
    codes = read_error_codes([Path("new.jar"), Path("old.jar")], Path("slf4j.jar"))
    assert [(error.code, error.name) for error in codes] == [(2, "GONE"), (6, "NEW")]


def test_maven_is_asked_for_the_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="--jars"):
        fetch(tmp_path)
    write_program("mvn", tmp_path, "sys.exit('no such artifact')")
    with pytest.raises(UsageError, match="no such artifact"):
        fetch(tmp_path)
