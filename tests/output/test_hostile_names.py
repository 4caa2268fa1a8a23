"""Hostile names through every output of captures: one event is one line, pages run nothing, tables are whole.

10⁵ names: `python -m pytest tests/output/test_hostile_names.py -m long`.
"""

import csv
import html.parser
import io
import json
import re
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.captures.test_canaries import run
from tests.support.canaries import capture
from tests.support.command import kproxy
from tests.support.hostile_names import EXCHANGES, NAMES_A_SCENE, hostile_names, scenes_of

SEED = 20_261_122
PARTS = 25
OURS = (
    "#",
    "data:",
    *(f"https://{host}/" for host in ("kafka.apache.org", "cwiki.apache.org", "github.com", "www.rfc-editor.org")),
)


def exchanges(names: int) -> int:
    """How many there are: those of each name, and two of each login."""
    return names * EXCHANGES + 2 * -(-names // NAMES_A_SCENE)


def written(folder: Path, count: int, seed: int = SEED) -> Path:
    file = folder / "a.pcap"
    file.write_bytes(capture(scenes_of(hostile_names(seed, count))))
    return file


def is_safe(line: str) -> bool:
    """Whether a terminal shows the line as one line and obeys nothing in it."""
    return all(char.isprintable() for char in line)


class Elements(html.parser.HTMLParser):
    """Counts elements, and attributes that run something or load something from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.bad: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            is_link = name in ("src", "href", "action", "xlink:href") and not (value or "").startswith(OURS)
            if name.startswith("on") or is_link:
                self.bad.append((tag, name, value))


def elements(page: bytes) -> Elements:
    found = Elements()
    found.feed(page.decode())
    return found


def check_lines(file: Path, folder: Path, count: int) -> None:
    """Text, JSON lines, the log read again, the tree."""
    text = run("decode", "-q", file).decode().split("\n")
    assert len(text) == exchanges(count) + 1 and text[-1] == ""
    assert all(map(is_safe, text))
    log = folder / "log.jsonl"
    run("decode", "-q", "--format", "jsonl", "-o", log, file)
    lines = log.read_bytes().split(b"\n")
    assert [json.loads(line)["event"] for line in lines[:-1]] == ["exchange"] * exchanges(count)
    log.read_bytes().decode()
    again = run("decode", "-q", log).decode().split("\n")
    assert len(again) == len(text) and all(map(is_safe, again))
    assert all(map(is_safe, run("decode", "-q", "-v", file).decode().split("\n")))


def shown(*words: object) -> bytes:
    """What a command writes to standard output; of a report that takes long the first answer goes to standard error."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True)
    with redirect_stdout(said), redirect_stderr(io.StringIO()):
        kproxy(*words)
    return said.buffer.getvalue()  # type: ignore[attr-defined]


def queried(file: Path, query: str, form: str) -> str:
    return shown("sql", file, query, "--format", form).decode()


def check_tables(file: Path, folder: Path, count: int) -> None:
    tables = folder / "tables"
    run("decode", "-q", "--format", "parquet", "--bodies", "-o", tables, file)
    rows = 0
    for part in tables.rglob("*.parquet"):
        table = parquet.read_table(part)
        table.validate(full=True)  # UTF-8 too
        rows += table.num_rows if part.parent.name == "exchanges" else 0
    assert rows == exchanges(count)
    query = "SELECT client_id, api_name FROM exchanges ORDER BY ALL"
    found = [csv.reader(io.StringIO(queried(file, query, "csv"), newline="")), json.loads(queried(file, query, "json"))]
    assert [tuple(row) for row in found[0]][1:] == [(row["client_id"] or "", row["api_name"]) for row in found[1]]
    assert len(found[1]) == exchanges(count)


def check_reports(file: Path, folder: Path) -> None:
    benign = folder / "benign.pcap"
    benign.write_bytes(capture(scenes_of([b"orders"] * 20)))
    ours = elements(shown("report", "--all", "--format", "html", benign))
    found = elements(shown("report", "--all", "--format", "html", file))
    assert found.bad == ours.bad == []
    plain = {"details", "summary", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "p", "code"}
    assert found.tags.keys() - ours.tags.keys() <= plain
    assert found.tags["script"] == ours.tags["script"] and found.tags["img"] == ours.tags["img"]
    json.loads(shown("report", "--all", "--format", "json", file))
    assert all(map(is_safe, shown("report", "--all", file).decode().split("\n")))
    markdown = shown("report", "--all", "--format", "markdown", file).decode()
    bare = re.sub(r"\\.", "", markdown)  # without what is escaped
    assert [bad for bad in ("<script", "<img", "](java", "](http://evil", "<!--") if bad in bare] == []
    check_markdown_tables(markdown)


def check_markdown_tables(markdown: str) -> None:
    """Every row of a table has as many cells as its head."""
    width = 0
    for line in markdown.split("\n"):
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.sub(r"\\.", "", line).split("|"))
        width = width or cells
        assert cells == width, line


def test_lines(tmp_path: Path) -> None:
    check_lines(written(tmp_path, 150), tmp_path, 150)


@pytest.mark.slow
def test_tables(tmp_path: Path) -> None:
    check_tables(written(tmp_path, 300), tmp_path, 300)


@pytest.mark.slow
def test_reports(tmp_path: Path) -> None:
    check_reports(written(tmp_path, 150), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand(part: int, tmp_path: Path) -> None:
    """In parts, as the outputs of all at once would be gigabytes here."""
    count = 100_000 // PARTS
    file = written(tmp_path, count, SEED + part)
    check_lines(file, tmp_path, count)
    check_tables(file, tmp_path, count)
    check_reports(file, tmp_path)
