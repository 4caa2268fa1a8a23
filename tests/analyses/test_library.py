"""Analyses are complete and their headers checked; users' folders add and replace; mistakes are named with their place."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from kproxy.analyses import library
from kproxy.analyses.analysis import (
    MEANINGS,
    WHEN_AND_WHERE,
    WHO,
    Analysis,
    Header,
    Parameter,
    Value,
    bind,
    known_to,
    read_analysis,
    read_view,
)
from kproxy.analyses.dialect import tables_in
from kproxy.analyses.duck import Database
from kproxy.analyses.report.templates import fields_of
from kproxy.errors import ConfigError, UsageError
from kproxy.output.tables import TABLES
from tests.support.scenes import SCENES, Rows
from tests.support.scenes.crowd import crowd
from tests.support.scenes.rows import moment
from tests.support.scenes.scene import OF_CLIENTS

ANALYSES = library.load()
HEADER = "/*\nid: {id}\ntitle: T\nseverity: info\nmeaning: M\n*/\n{sql}\n"
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
FRAMED = """/*
id: mine
title: Produce requests of clients
severity: info
meaning: M
columns:
  made: how many
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
  values: {made: count(*), errors: count(error_name)}
  having: made >= :least
  pause: pause_seconds
  order_by: made DESC
"""
BUILT_IN = library.load()
DEFAULTS: dict[str, Value] = {"whole": 3, "part": 0.5, "on": True, "word": "a", "any": None}
RANGES = {"share": Parameter(default=5, meaning="m", least=1, most=100), "below": Parameter(default=-3, meaning="m")}
ANALYSIS = Analysis(
    header=Header(
        id="a",
        title="A",
        severity="info",
        meaning="m",
        parameters={name: Parameter(default=value, meaning="m") for name, value in DEFAULTS.items()} | RANGES,
    ),
    sql="SELECT 1",
    path="a.sql",
)


def folder_with(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, sql in files.items():
        (path / f"{name}.sql").write_text(HEADER.format(id=name, sql=sql), encoding="utf-8")
    return path


def test_a_built_in_analysis_says_what_it_needs() -> None:
    for name, analysis in ANALYSES.items():
        header = analysis.header
        assert Path(analysis.path).stem == name
        assert set(re.findall(r"\$(\w+)", analysis.sql)) == set(analysis.parameters), name
        assert header.verdict, "a verdict is what the summary shows"
        assert re.search(r"ORDER\s+BY", analysis.sql, re.IGNORECASE), "rows without an order differ between engines"
        if analysis.is_finding:
            assert header.reference.startswith(
                ("https://kafka.apache.org/", "https://cwiki.apache.org/confluence/display/KAFKA/KIP-")
            ), name
            assert header.meaning.strip().endswith((".", ")")), name
            assert header.action.strip().endswith("."), name
            assert header.basis is not None, name
            assert header.parameters, "its thresholds are parameters"
            assert header.verdict.endswith("."), "it ends with what to do"
    assert sum(analysis.is_finding for analysis in ANALYSES.values()) >= 25


def test_the_tables_that_views_read_are_needed_too() -> None:
    analyses, views = library.load(), library.load_views()
    assert library.tables_needed(analyses["map"], views) >= {"record_batches", "connections"}
    assert "clients" in [view.name for view in library.views_needed(analyses["map"], views)]


def test_no_parser_is_needed_to_see_which_tables_the_built_in_files_read() -> None:
    for source in [*ANALYSES.values(), *library.load_views().values()]:
        assert library.tables_of(source) == tables_in(source.sql), source.path


def test_what_was_read_is_kept_and_a_damaged_file_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    read = [library._built_in.__wrapped__() for _ in range(2)]
    [kept] = (tmp_path / "kproxy").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:1000])
    read.append(library._built_in.__wrapped__())
    assert [each.analyses for each in read] == [ANALYSES] * 3
    assert kept.read_bytes() == whole
    monkeypatch.setattr(library, "OURS", "/another/installation/")
    library._built_in.__wrapped__()
    assert len(list(kept.parent.iterdir())) == 2


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


def test_headers_have_the_columns_of_the_results_and_say_what_they_mean() -> None:
    units = {"_ms": ("millisecond", "bucket_ms"), "_micros": ("microsecond",), "_bytes": ("byte", "size")}
    with Database([]) as nothing:
        for name, analysis in ANALYSES.items():
            columns = nothing.run(analysis).schema.names
            assert sorted(analysis.header.columns) == sorted(columns), name
            assert [column for column, meaning in analysis.columns.items() if not meaning] == [], name
            for column, meaning in analysis.columns.items():
                for suffix, words in units.items():
                    if column.endswith(suffix):
                        assert any(word in f"{column} {meaning}" for word in words), (name, column)
            if analysis.is_finding:
                assert [column for column in columns if column in WHO] == list(WHO), name
                assert columns[-4:] == list(WHEN_AND_WHERE), name
                assert fields_of(analysis.header.verdict) <= set(columns), name
                assert ("cluster" in columns) == (name not in OF_CLIENTS), name


def test_no_common_meaning_is_left_over() -> None:
    assert set(MEANINGS) <= {column for analysis in ANALYSES.values() for column in analysis.header.columns}


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
        "client_id", "client_address", "software", "made", "first_at", "last_at", "connection_id", "exchange",
    ]  # fmt: skip
    assert [(row["made"], row["first_at"], row["exchange"]) for row in found] == [(3, moment(10), 3), (2, moment(0), 1)]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("made: count(*)", "all: count(*)", "the column made is in none of group_by, values and derived"),
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


def largest(analysis: Analysis) -> dict[str, int]:
    """The greatest that each parameter that is a whole number may be."""
    whole = {name: each for name, each in analysis.header.parameters.items() if type(each.default) is int}
    return {name: int(each.range[1]) for name, each in whole.items()}


def test_defaults_stand_where_nothing_is_given() -> None:
    assert bind(ANALYSIS, {}) == DEFAULTS | {"share": 5, "below": -3}


def test_texts_become_what_the_defaults_are() -> None:
    given = {"whole": "7", "part": "0.25", "on": "no", "word": "8", "any": "4.1"}
    assert bind(ANALYSIS, given) == {"whole": 7, "part": 0.25, "on": False, "word": "8", "any": "4.1"} | {
        "share": 5,
        "below": -3,
    }


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("whole", "7.5", "the parameter whole is a whole number, not '7.5'"),
        ("part", "x", "the parameter part is a number, not 'x'"),
        ("on", "maybe", "the parameter on is true or false, not 'maybe'"),
        ("whole", "-1", "the parameter whole is from 0 to 1,000,000,000,000, not -1"),
        ("whole", "9" * 30, f"the parameter whole is from 0 to 1,000,000,000,000, not {'9' * 30}"),
        ("part", "nan", "the parameter part is from 0 to 1,000,000,000,000, not nan"),
        ("share", "101", "the parameter share is from 1 to 100, not 101"),
        ("share", "0", "the parameter share is from 1 to 100, not 0"),
        ("below", "-4", "the parameter below is from -3 to 1,000,000,000,000, not -4"),
        ("wole", "1", "a has no parameter 'wole'; did you mean whole?"),
    ],
)
def test_wrong_ones_are_told(name: str, value: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        bind(ANALYSIS, {name: value})
    assert str(caught.value) == words


def test_those_of_other_analyses_are_left_out() -> None:
    assert known_to(ANALYSIS, {"whole": 1, "other": 2}) == {"whole": 1}


@pytest.mark.slow
def test_the_greatest_numbers_break_no_analysis(tmp_path: Path) -> None:
    """In every other row of the crowd and of all scenes, where a column has 32 bits; and in all parameters, of 64 bits.

    Ten million seconds are more microseconds than 32 bits hold.
    """
    rows = crowd()
    for scene in SCENES:
        scene.play(rows, True)
    for name, table in TABLES.items():
        for column in (each.name for each in table.columns if each.type == "int32" and "port" not in each.name):
            for row in rows.tables[name][1::2]:
                row[column] = 2**31 - 1
    with Database([rows.write(tmp_path / "tables")], wanted=TABLES) as database:
        for analysis in BUILT_IN.values():
            database.run(analysis)
            if most := largest(analysis):
                database.run(analysis, **most)
