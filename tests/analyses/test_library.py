"""Analyses are complete and their headers checked; users' folders add and replace; mistakes are named with their place."""

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from kproxy.analyses import library
from kproxy.analyses.analysis import read_analysis, read_view
from kproxy.analyses.columns import MEANINGS
from kproxy.analyses.duck import Database
from kproxy.analyses.translate import parameters_in
from kproxy.errors import ConfigError, UsageError
from tests.support.scenes import Rows
from tests.support.scenes.rows import moment

HEADER = "/*\nid: {id}\ntitle: T\nseverity: info\nmeaning: M\n*/\n{sql}\n"


def folder_with(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, sql in files.items():
        (path / f"{name}.sql").write_text(HEADER.format(id=name, sql=sql), encoding="utf-8")
    return path


@pytest.mark.parametrize("analysis", library.load().values(), ids=lambda one: one.id)
def test_a_built_in_analysis_says_what_it_needs(analysis: library.Analysis) -> None:
    assert Path(analysis.path).stem == analysis.id
    assert parameters_in(analysis.sql) == set(analysis.parameters)
    assert analysis.header.verdict, "a verdict is what the summary shows"
    assert re.search(r"ORDER\s+BY", analysis.sql, re.IGNORECASE), "rows without an order differ between engines"


def test_the_tables_that_views_read_are_needed_too() -> None:
    analyses, views = library.load(), library.load_views()
    assert library.tables_needed(analyses["map"], views) >= {"record_batches", "connections"}
    assert "clients" in [view.name for view in library.views_needed(analyses["map"], views)]


def test_a_folder_adds_and_replaces(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path / "mine", map="SELECT 1 AS one ORDER BY one", mine="SELECT 2 AS two FROM my_view ORDER BY two"
    )
    (folder / "views").mkdir()
    (folder / "views" / "my_view.sql").write_text("/* meaning: m */ SELECT 2 AS two", encoding="utf-8")
    analyses = library.load([folder])
    assert set(analyses) == {*library.load(), "mine"}
    assert analyses["map"].path == str(folder / "map.sql")
    assert [view.name for view in library.views_needed(analyses["mine"], library.load_views([folder]))] == ["my_view"]


def test_a_table_that_does_not_exist_is_told_with_its_line(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "mine", mine="SELECT 1 AS one\nFROM exchange")
    with pytest.raises(ConfigError) as caught:
        library.load([folder])
    assert str(caught.value).startswith(
        f"{folder / 'mine.sql'}:8:1: there is no table or view 'exchange'; did you mean exchanges"
    )


def test_sql_that_cannot_be_parsed_is_told_with_its_line(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "mine", mine="SELECT 1 +\nFROM exchanges WHERE (")
    with pytest.raises(ConfigError, match=r"mine\.sql:8:\d+: "):
        library.load([folder])


@pytest.mark.parametrize("sql", ["DELETE FROM exchanges", "SELECT 1; SELECT 2", "DROP TABLE exchanges"])
def test_only_one_select_is_run(tmp_path: Path, sql: str) -> None:
    with pytest.raises(ConfigError, match="write one SELECT"):
        library.load([folder_with(tmp_path / "mine", mine=sql)])


def test_two_files_of_one_folder_cannot_have_one_id(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "mine", one="SELECT 1 AS x")
    (folder / "two.sql").write_text((folder / "one.sql").read_text("utf-8"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"two\.sql:1:1: the id one is also that of .*one\.sql"):
        library.load([folder])


def test_folders_without_analyses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no analysis"):
        library.load([tmp_path])
    with pytest.raises(UsageError, match="is not there"):
        library.load([tmp_path / "gone"])
    with pytest.raises(UsageError, match="is not a directory"):
        library.load([Path(__file__)])


def test_views_that_need_each_other_are_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "mine", mine="SELECT * FROM a")
    (folder / "views").mkdir()
    for name, other in (("a", "b"), ("b", "a")):
        (folder / "views" / f"{name}.sql").write_text(f"/* meaning: m */ SELECT * FROM {other}", encoding="utf-8")
    with pytest.raises(ConfigError, match="the views a, b need each other"):
        library.views_needed(library.load([folder])["mine"], library.load_views([folder]))


def test_similar_names_are_offered() -> None:
    with pytest.raises(UsageError, match="there is no analysis 'latncy'; did you mean latency"):
        library.find(library.load(), "latncy")


def test_the_files_are_part_of_what_is_installed() -> None:
    """Patterns of package-data are relative to a package, and the folders of SQL are none."""
    project = tomllib.loads((library.BUILT_IN.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    files = [path for path in library.BUILT_IN.rglob("*") if path.suffix in (".sql", ".css", ".jinja", ".txt")]
    assert len(files) > 10
    for path in files:
        package = next(folder for folder in path.parents if (folder / "__init__.py").is_file())
        relative = path.relative_to(package)
        assert any(fnmatch(str(relative), one) and one.count("/") == len(relative.parts) - 1 for one in patterns), path


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


ANALYSES = library.load()


@pytest.fixture(scope="module")
def nothing() -> Iterator[Database]:
    """Tables without a row."""
    with Database([]) as database:
        yield database


@pytest.mark.parametrize("name", ANALYSES)
def test_the_header_has_the_columns_of_the_result_and_says_what_they_mean(name: str, nothing: Database) -> None:
    analysis = ANALYSES[name]
    assert sorted(analysis.header.columns) == sorted(nothing.run(analysis).schema.names)
    assert [column for column, meaning in analysis.columns.items() if not meaning] == []


@pytest.mark.parametrize("name", ANALYSES)
def test_times_and_sizes_have_their_unit(name: str) -> None:
    units = {"_ms": ("millisecond", "bucket_ms"), "_micros": ("microsecond",), "_bytes": ("byte", "size")}
    for column, meaning in ANALYSES[name].columns.items():
        for suffix, words in units.items():
            if column.endswith(suffix):
                assert any(word in f"{column} {meaning}" for word in words), f"{column}: {meaning}"


def test_no_common_meaning_is_left_over() -> None:
    assert set(MEANINGS) <= {column for analysis in ANALYSES.values() for column in analysis.header.columns}


FRAMED = """/*
id: mine
title: Produce requests of clients
severity: info
meaning: M
columns:
  requests: how many
parameters:
  pause_seconds: {{default: 1, meaning: "After so long without a request, the next one is in another row."}}
  least: {{default: 2, meaning: "Fewer requests are not listed."}}
frame:
{frame}
*/
SELECT * FROM client_exchanges
WHERE api_key = 0 -- Produce
"""
FRAME = """  group_by: [client_id, client_address, "coalesce(api_name, '?') AS api"]
  values: {requests: count(*), errors: count(error_name)}
  having: requests >= :least
  pause: pause_seconds
  order_by: requests DESC
"""


def test_a_users_finding_has_a_frame_as_well(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text(FRAMED.format(frame=FRAME), encoding="utf-8")
    analysis = library.load([tmp_path])["mine"]
    rows = Rows()
    client = rows.client("app")
    for at in (0, 0.5, 10, 10.5, 11, 20):
        client.produce(at, "orders")
    with Database([rows.write(tmp_path / "tables")]) as database:
        found = database.run(analysis).to_pylist()
    assert list(found[0]) == [
        "client_id", "client_address", "software", "requests", "first_at", "last_at", "connection_id", "exchange",
    ]  # fmt: skip
    assert [(row["requests"], row["first_at"], row["exchange"]) for row in found] == [
        (3, moment(10), 3),
        (2, moment(0), 1),
    ]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("requests: count(*)", "all: count(*)", "the column requests is in none of group_by, values and derived"),
        (
            "pause: pause_seconds",
            "pause: seconds",
            "there is no parameter 'seconds'; the pause is a parameter in seconds",
        ),
        (
            "\"coalesce(api_name, '?') AS api\"",
            '"coalesce(api_name, 1)"',
            "is neither a column nor an expression AS column",
        ),
        ("client_id, client_address, \"coalesce(api_name, '?') AS api\"", "", "values and pause need it"),
        ("client_address, ", "", "the column client_address is in none of group_by, values and derived"),
    ],
)
def test_a_mistake_in_a_frame_has_its_place(before: str, after: str, sentence: str, tmp_path: Path) -> None:
    assert before in FRAME
    path = tmp_path / "mine.sql"
    path.write_text(FRAMED.format(frame=FRAME.replace(before, after)), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        library.load([tmp_path])
    assert str(caught.value).startswith(f"{path}:1") and sentence in str(caught.value)
