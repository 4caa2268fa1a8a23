"""Jars, fetched and read; and the checked-in facts against what the real ones give."""

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kproxy.errors import UsageError
from kproxy.extract import jars
from kproxy.extract.__main__ import FACTS, compare, facts_of
from kproxy.extract.facts_text import written_enums
from kproxy.extract.jars import (
    BROKERS,
    CLIENTS,
    LOGGING,
    RELEASES,
    SPOKEN,
    VERSIONS_ONLY,
    ErrorCode,
    Jar,
    fetch,
    parse_line,
    read_definitions,
    read_error_codes,
    read_spoken,
)
from kproxy.protocol.facts import Facts

POM = "{http://maven.apache.org/POM/4.0.0}"
JARS = (*CLIENTS, *BROKERS)


def definition(jar: Jar, kind: str) -> str:
    name = f"{jar.module}{kind}".title().replace("-", "")
    return f'{{"type": "{kind}", "name": "{name}", "validVersions": "0"}}'


def write_jars(folder: Path) -> None:
    """Jars with one request and one record each, and something that is no definition."""
    for jar in JARS:
        with zipfile.ZipFile(folder / jar.file, "w") as archive:
            archive.writestr("common/message/A.json", definition(jar, "request"))
            archive.writestr("message/B.json", definition(jar, "data"))
            archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0")


def put_on_path(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make *name* a program that runs *script* (Python) with its arguments, the only one on the path."""
    program = folder / name
    program.write_text(f"#!{sys.executable}\nimport sys, json, pathlib\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_records_are_read_from_two_releases_and_requests_from_all(tmp_path: Path) -> None:
    write_jars(tmp_path)
    found = read_definitions(tmp_path)
    assert {message.release for message in found if message.is_api} == set(RELEASES)
    assert {message.release for message in found if not message.is_api} == {"4.3.1", "3.9.2"}
    assert {(message.module, message.release) for message in found} == {(jar.module, jar.release) for jar in JARS}


def test_the_versions_of_more_releases_are_read(tmp_path: Path) -> None:
    write_jars(tmp_path)
    for jar in VERSIONS_ONLY:
        with zipfile.ZipFile(tmp_path / jar.file, "w") as archive:
            archive.writestr("common/message/A.json", definition(jar, "request"))
    found = read_spoken(tmp_path)
    assert list(found) == list(SPOKEN)
    assert {message.release for messages in found.values() for message in messages} == set(SPOKEN)


def test_a_jar_that_is_missing_is_named(tmp_path: Path) -> None:
    write_jars(tmp_path)
    (tmp_path / JARS[3].file).unlink()
    with pytest.raises(UsageError, match=JARS[3].file):
        read_definitions(tmp_path)


def test_a_jar_that_is_no_archive_is_named(tmp_path: Path) -> None:
    write_jars(tmp_path)
    (tmp_path / JARS[0].file).write_bytes(b"<html>")
    with pytest.raises(UsageError, match=JARS[0].file):
        read_definitions(tmp_path)


def test_a_jar_without_definitions_is_refused(tmp_path: Path) -> None:
    write_jars(tmp_path)
    with zipfile.ZipFile(tmp_path / JARS[1].file, "w") as archive:
        archive.writestr("A.class", b"")
    with pytest.raises(UsageError, match="holds no message definitions"):
        read_definitions(tmp_path)


def test_a_definition_that_cannot_be_read_is_named_with_its_jar(tmp_path: Path) -> None:
    write_jars(tmp_path)
    with zipfile.ZipFile(tmp_path / JARS[0].file, "w") as archive:
        archive.writestr("common/message/Broken.json", "{")
    with pytest.raises(UsageError, match=r"4\.3\.1\.jar: common/message/Broken\.json"):
        read_definitions(tmp_path)


def test_maven_is_asked_for_every_jar_and_no_host_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(
        "mvn", tmp_path, monkeypatch, "pathlib.Path(sys.argv[0] + '.json').write_text(json.dumps(sys.argv[1:]))"
    )
    fetch(tmp_path, offline=True)
    project = ElementTree.parse(tmp_path / "pom.xml").getroot()
    items = [tuple(part.text for part in item) for item in project.iter(f"{POM}artifactItem")]
    every = (LOGGING, *CLIENTS, *VERSIONS_ONLY, *BROKERS)
    assert items == [(jar.group, jar.module, jar.release) for jar in every]
    assert [part.text for part in project.iter(f"{POM}outputDirectory")] == [str(tmp_path)]
    assert not list(project.iter(f"{POM}repository"))
    assert '"-o"' in (tmp_path / "mvn.json").read_text(encoding="utf-8")


def test_without_maven_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="--jars"):
        fetch(tmp_path)


def test_what_maven_complains_of_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path("mvn", tmp_path, monkeypatch, "sys.exit('no such artifact')")
    with pytest.raises(UsageError, match="no such artifact"):
        fetch(tmp_path)


@pytest.mark.slow
def test_the_facts_are_what_the_jars_give(require: Callable[[str, object, str], None]) -> None:
    demanded = "extract" in os.environ.get("KPROXY_REQUIRE", "")  # then Maven may go and get them
    try:
        text = facts_of(None, offline=not demanded)
    except UsageError as error:
        require("extract", False, f"no jars: {str(error)[:200]}")
    else:
        for path, content in {FACTS: text, **written_enums(Facts(text))}.items():
            assert compare(path.name, path.read_text(encoding="utf-8"), content) == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 NONE", ErrorCode(0, "NONE", retriable=False, refresh=False)),
        ("7 REQUEST_TIMED_OUT retriable", ErrorCode(7, "REQUEST_TIMED_OUT", retriable=True, refresh=False)),
        ("6 NOT_LEADER retriable refresh", ErrorCode(6, "NOT_LEADER", retriable=True, refresh=True)),
        ("-1 UNKNOWN_SERVER_ERROR", ErrorCode(-1, "UNKNOWN_SERVER_ERROR", retriable=False, refresh=False)),
    ],
)
def test_a_line_is_a_code(line: str, expected: ErrorCode) -> None:
    assert parse_line(line) == expected


def test_the_newest_jar_says_what_a_code_means_and_older_ones_add_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(
        "java", tmp_path, monkeypatch, 'print("6 NEW retriable" if "new.jar" in sys.argv[2] else "6 OLD\\n2 GONE")'
    )
    codes = read_error_codes([Path("new.jar"), Path("old.jar")], Path("slf4j.jar"))
    assert [(error.code, error.name) for error in codes] == [(2, "GONE"), (6, "NEW")]


def test_java_is_given_both_jars_and_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path("java", tmp_path, monkeypatch, 'print("1", ":".join(sys.argv[1:]))')
    (only,) = read_error_codes([Path("/k.jar")], Path("/s.jar"))
    source = Path(jars.__file__).with_name("ErrorCodes.java")
    assert only.name == f"-cp:/k.jar:/s.jar:{source}"


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="JDK"):
        read_error_codes([Path("k.jar")], Path("s.jar"))


def test_what_java_complains_of_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path("java", tmp_path, monkeypatch, 'sys.exit("no such class")')
    with pytest.raises(UsageError, match="no such class"):
        read_error_codes([Path("k.jar")], Path("s.jar"))
