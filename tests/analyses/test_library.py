"""The library: built-in analyses are whole, users' folders add and replace, and mistakes in them are told."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from kproxy.analyses import library
from kproxy.analyses.translate import parameters_in
from kproxy.errors import ConfigError, UsageError

HEADER = "/*\nid: {id}\ntitle: T\nseverity: info\nmeaning: M\n*/\n{sql}\n"


def folder_with(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, sql in files.items():
        (path / f"{name}.sql").write_text(HEADER.format(id=name, sql=sql), encoding="utf-8")
    return path


@pytest.mark.parametrize("analysis", library.load().values(), ids=lambda one: one.id)
def test_a_built_in_analysis_says_what_it_needs(analysis: library.Analysis) -> None:
    assert Path(analysis.path).stem == analysis.id
    assert set(analysis.needs) <= {*library.tables_of(analysis)}, "needs names what the SQL does not"
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
    assert str(caught.value) == (
        f"{folder / 'mine.sql'}:8:1: there is no table or view 'exchange'; did you mean exchanges?"
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
