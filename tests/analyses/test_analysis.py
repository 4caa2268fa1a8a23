"""Files of analyses: what a header holds, and that each mistake in one is told with its file and line."""

from pathlib import Path

import pytest

from kproxy.analyses.analysis import read_analysis, read_view
from kproxy.errors import ConfigError

GOOD = """\
/*
id: tiny
title: Tiny things
severity: notice
meaning: They are small.
parameters:
  most: {default: 3, meaning: How many.}
*/
SELECT 1 AS one LIMIT :most;
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "tiny.sql"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_header_is_read_and_the_sql_keeps_its_lines(tmp_path: Path) -> None:
    analysis = read_analysis(written(tmp_path, GOOD))
    assert (analysis.id, analysis.title, analysis.severity, analysis.parameters) == (
        "tiny", "Tiny things", "notice", {"most": 3},
    )  # fmt: skip
    assert analysis.sql.splitlines()[8] == GOOD.splitlines()[8].removesuffix(";")
    assert analysis.sql.strip() == "SELECT 1 AS one LIMIT :most"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("severity: notice", "severity: bad", 4, "is not one of critical, info, notice, warning"),
        ("title: ", "titel: ", 3, "unknown name: did you mean title?"),
        ("meaning: They", "meaning: [They", 6, "invalid YAML"),
        ("default: 3", "default: [3]", 7, "a text, a number, true, false or null"),
        ("default: 3", "default: 3, most: 2", 7, "between least and most"),
        ("default: 3", "default: true, most: x", 7, "parameters.most"),
        ("severity: notice", 'severity: notice\nverdict: "{median x}"', 5, "is not a column, rows, or count"),
        ("id: tiny", "id: Tiny-1", 2, "does not match"),
        ("SELECT 1 AS one LIMIT :most;", "", 10, "no SELECT"),
        ("/*", "--", 1, "begins with a block comment"),
    ],
)
def test_a_mistake_has_its_file_and_line(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        read_analysis(path)
    assert any(text.startswith(f"{path}:{line}:") and words in text for text in caught.value.lines()), caught.value


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.sql"
    path.write_bytes(b"/*\xff*/")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_analysis(path)
    with pytest.raises(ConfigError, match=r"there\.sql:1:1: it cannot be read: No such file"):
        read_analysis(tmp_path / "there.sql")


def test_a_view_has_its_files_name(tmp_path: Path) -> None:
    view = read_view(written(tmp_path, "/*\nmeaning: One.\nstored: true\n*/\nSELECT 1 AS one\n"))
    assert (view.name, view.meaning, view.stored, view.sql.strip()) == ("tiny", "One.", True, "SELECT 1 AS one")
