"""Error codes as Java prints them. That the real ones come out is test_facts_data's and test_jars's to say."""

import sys
from pathlib import Path

import pytest

from kproxy.errors import UsageError
from kproxy.extract import error_codes
from kproxy.extract.error_codes import ErrorCode, parse_line, read_error_codes


def java(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a `java` on the path that runs *script* (Python) with its arguments."""
    program = folder / "java"
    program.write_text(f"#!{sys.executable}\nimport sys\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


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
    java(tmp_path, monkeypatch, 'print("6 NEW retriable" if "new.jar" in sys.argv[2] else "6 OLD\\n2 GONE")')
    codes = read_error_codes([Path("new.jar"), Path("old.jar")], Path("slf4j.jar"))
    assert [(error.code, error.name) for error in codes] == [(2, "GONE"), (6, "NEW")]


def test_java_is_given_both_jars_and_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, monkeypatch, 'print("1", ":".join(sys.argv[1:]))')
    (only,) = read_error_codes([Path("/k.jar")], Path("/s.jar"))
    source = Path(error_codes.__file__).with_name("ErrorCodes.java")
    assert only.name == f"-cp:/k.jar:/s.jar:{source}"


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="JDK"):
        read_error_codes([Path("k.jar")], Path("s.jar"))


def test_what_java_complains_of_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, monkeypatch, 'sys.exit("no such class")')
    with pytest.raises(UsageError, match="no such class"):
        read_error_codes([Path("k.jar")], Path("s.jar"))
