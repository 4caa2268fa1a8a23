"""The lines of facts.txt, from definitions by hand."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.extract import __main__ as command
from kproxy.extract import facts_text
from kproxy.extract.definitions import Message, parse_message
from kproxy.extract.facts_text import HEADER, render
from kproxy.extract.jars import BROKERS, CLIENTS, SPOKEN, VERSIONS_ONLY, ErrorCode
from kproxy.protocol import facts
from kproxy.protocol.facts import Facts

RELEASES = ("4.3.1", "3.9.2")


def message(release: str, name: str, kind: str, versions: str, *fields: dict[str, Any], **more: Any) -> Message:
    definition = {"type": kind, "name": name, "validVersions": versions, "fields": fields, **more}
    return parse_message(json.dumps(definition), module="kafka-clients", release=release)


def lines(*definitions: Message, errors: tuple[ErrorCode, ...] = ()) -> list[str]:
    return render(definitions, errors, RELEASES).removeprefix(HEADER).splitlines()


def test_the_header_is_comments_and_the_releases_follow() -> None:
    text = render([], [], RELEASES)
    assert all(line.startswith("# ") for line in HEADER.splitlines())
    assert text == HEADER + "releases 4.3.1 3.9.2\n"


def test_error_codes_are_lines() -> None:
    errors = (
        ErrorCode(-1, "UNKNOWN_SERVER_ERROR", retriable=False, refresh=False),
        ErrorCode(3, "UNKNOWN_TOPIC_OR_PARTITION", retriable=True, refresh=True),
        ErrorCode(7, "REQUEST_TIMED_OUT", retriable=True, refresh=False),
    )
    assert lines(errors=errors)[1:] == [
        "error -1 UNKNOWN_SERVER_ERROR -",
        "error 3 UNKNOWN_TOPIC_OR_PARTITION retriable refresh",
        "error 7 REQUEST_TIMED_OUT retriable",
    ]


def test_every_attribute_has_its_place_in_the_line() -> None:
    everything = {
        "name": "A", "type": "string", "versions": "1-4", "nullableVersions": "2+", "tag": 3, "taggedVersions": "3+",
        "default": "null", "ignorable": True, "flexibleVersions": "none", "mapKey": True, "entityType": "groupId",
    }  # fmt: skip
    assert lines(message("4.3.1", "M", "data", "0-4", everything))[-1] == (
        "  A string 1-4 nullable=2+ tag=3 tagged=3+ default=null ignorable flexible=none key entity=groupId"
    )


def test_children_are_indented_under_their_field() -> None:
    leaf = {"name": "C", "type": "[]int32", "versions": "0"}
    middle = {"name": "B", "type": "Inner", "versions": "0+", "fields": [leaf]}
    outer = {"name": "A", "type": "[]Outer", "versions": "0+", "fields": [middle, leaf]}
    assert lines(message("4.3.1", "M", "data", "0", outer, flexibleVersions="0+"))[1:] == [
        "message M type=data module=kafka-clients release=4.3.1 versions=0 flexible=0+",
        "  A []Outer 0+",
        "    B Inner 0+",
        "      C []int32 0",
        "    C []int32 0",
    ]


def test_requests_come_before_responses_in_order_of_api_key_and_others_last() -> None:
    found = lines(
        message("4.3.1", "BetaResponse", "response", "0", apiKey=10),
        message("4.3.1", "Zeta", "data", "0"),
        message("4.3.1", "BetaRequest", "request", "0", apiKey=10),
        message("4.3.1", "Alpha", "coordinator-key", "0", apiKey=6),
        message("4.3.1", "GammaRequest", "request", "0", apiKey=9),
    )
    assert [line.split()[1] for line in found if line.startswith("message")] == [
        "GammaRequest", "BetaRequest", "BetaResponse", "Alpha", "Zeta",
    ]  # fmt: skip
    assert (
        "message Alpha type=coordinator-key id=6 module=kafka-clients release=4.3.1 versions=0 flexible=none" in found
    )
    assert any(line.startswith("message GammaRequest type=request api=9 ") for line in found)


def test_an_api_lists_all_its_request_versions_and_the_unstable_one() -> None:
    found = lines(
        message("3.9.2", "ARequest", "request", "0-1", apiKey=1, listeners=["zkBroker"]),
        message(
            "4.3.1",
            "ARequest",
            "request",
            "3-4",
            apiKey=1,
            listeners=["broker", "controller"],
            latestVersionUnstable=True,
        ),
    )
    assert found[1] == "api 1 A listeners=broker,controller versions=0-1,3-4 unstable=4"


def test_an_api_that_is_withdrawn_is_told_by_its_last_release() -> None:
    found = lines(
        message("4.3.1", "ARequest", "request", "none", apiKey=1),
        message("3.9.2", "ARequest", "request", "0-1", apiKey=1, listeners=["zkBroker"]),
    )
    assert found[1:] == [
        "api 1 A listeners=zkBroker versions=0-1",
        "message ARequest type=request api=1 module=kafka-clients release=3.9.2 versions=0-1 flexible=none",
    ]


def test_a_renamed_api_goes_by_its_newest_name() -> None:
    field = {"name": "A", "type": "int32", "versions": "0+"}
    found = lines(
        message("3.9.2", "OldRequest", "request", "0-1", {**field, "type": "int64"}, apiKey=1, listeners=["broker"]),
        message("4.3.1", "NewRequest", "request", "1-2", field, apiKey=1, listeners=["broker"]),
    )
    assert [line for line in found if line.startswith(("api", "message"))] == [
        "api 1 New listeners=broker versions=0-2",
        "message NewRequest type=request api=1 module=kafka-clients release=4.3.1 versions=1-2 flexible=none",
        "message NewRequest type=request api=1 module=kafka-clients release=3.9.2 versions=0-1 flexible=none",
    ]


def test_a_release_speaks_its_versions_but_not_the_unstable_one() -> None:
    requests = [
        message("4.0.2", "ARequest", "request", "3-13", apiKey=0),
        message("4.0.2", "BRequest", "request", "0-2", apiKey=1, latestVersionUnstable=True),
        message("4.0.2", "CRequest", "request", "0", apiKey=2, latestVersionUnstable=True),
        message("4.0.2", "DRequest", "request", "none", apiKey=4),
    ]
    text = render([], [], RELEASES, {"4.0.2": requests})
    assert text.splitlines()[-1] == "speaks 4.0.2 0=3-13 1=0-1"


SOURCE = '''class Number(IntEnum):
    """Numbers."""

    OLD = 1
    OLDER = -1


LIMIT = 5
'''


def test_the_members_are_replaced_and_nothing_else() -> None:
    assert facts_text.with_members(SOURCE, [("NEW", -2), ("NEWER_2", 3)]) == SOURCE.replace(
        "    OLD = 1\n    OLDER = -1\n", "    NEW = -2\n    NEWER_2 = 3\n"
    )


def test_names_are_kafkas_in_capitals() -> None:
    known = Facts("error 5 FIVE -\nerror -1 MINUS_ONE -\napi 2 ListOffsets listeners=broker versions=0")
    assert facts_text.api_members(known) == [("LIST_OFFSETS", 2)]
    assert facts_text.error_members(known) == [("MINUS_ONE", -1), ("FIVE", 5)]


def test_the_modules_are_what_the_facts_give() -> None:
    for path, text in facts_text.written_enums(facts()).items():
        assert path.read_text(encoding="utf-8") == text


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
        monkeypatch.setattr(facts_text, name, module)
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
    assert facts_text.API_KEYS.read_text(encoding="utf-8") == "class Numbers(IntEnum):\n    HEARTBEAT = 1\n"
    assert facts_text.ERROR_CODES.read_text(encoding="utf-8") == "class Numbers(IntEnum):\n    NONE = 0\n"


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
    facts_text.API_KEYS.write_text("class Numbers(IntEnum):\n    HEARTBEAT = 2\n", encoding="utf-8")
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
