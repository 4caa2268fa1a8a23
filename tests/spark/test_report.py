"""Every analysis gives the same rows, in the same order, on DuckDB and on Spark: on all captures, with all thresholds at
0."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.analysis import Value
from kproxy.analyses.duck import Database
from kproxy.errors import ConfigError
from kproxy.output.tables import TABLES
from kproxy.spark.file_rows import Options
from kproxy.spark.ingest import ingest
from kproxy.spark.narrowing import Narrowed
from kproxy.spark.report import SparkTables, make_report, with_values
from tests.analyses.test_parameters import largest
from tests.bench.traffic import SHAPES
from tests.support.corpus import CAPTURES
from tests.support.spark_tables import cached_tables
from tests.support.tables import decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
ANALYSES = library.load()
CAPTURED = sorted(CAPTURES.glob("*.pcap*"))
IN_README_COMMAND = {  # the others are slow: each takes Spark seconds
    "map",
    "latency",
    "tiny_batches",  # evidence that is summed up
    "slow_broker",  # its example is not the first
    "open_transaction",  # no groups
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All captures, and two generated ones, as one directory of tables."""
    folder = tmp_path_factory.mktemp("analyses")
    for shape in ("tiny", "mixed"):
        SHAPES[shape](folder / f"{shape}.pcap", 100_000)
    made = [folder / "tiny.pcap", folder / "mixed.pcap"]
    assert decode("--records", "-o", folder / "tables", *CAPTURED, *made) == 0
    return folder / "tables"


@pytest.fixture(scope="module")
def on_spark(spark: "SparkSession", tables: Path) -> Iterator[SparkTables]:
    with cached_tables(spark, tables) as opened:
        yield opened


@pytest.fixture(scope="module")
def on_duckdb(tables: Path) -> Iterator[Database]:
    with Database([tables], wanted=TABLES) as database:
        yield database


def plain(value: Any) -> Any:
    """A value as both engines can have it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


def rows(found: Any) -> list[Any]:
    return [plain(row) for row in found.to_pylist()]


def loosened(name: str) -> dict[str, Value]:
    """Every threshold that is a number at 0, so that as many rows as possible are compared."""
    numbers = {key: value for key, value in ANALYSES[name].parameters.items() if type(value) in (int, float)}
    return {key: type(value)(0) for key, value in numbers.items() if value is not None}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_README_COMMAND else pytest.mark.slow) for name in ANALYSES]
)
def test_an_analysis_is_the_same_on_both(on_spark: SparkTables, on_duckdb: Database, name: str) -> None:
    expected = on_duckdb.run(ANALYSES[name], **loosened(name))
    found = on_spark.run(ANALYSES[name], **loosened(name))
    assert found.column_names == expected.column_names
    assert rows(found) == rows(expected)


def test_whole_numbers_have_64_bits(on_spark: SparkTables, on_duckdb: Database) -> None:
    """An hour in microseconds is more than 32 bits hold; transactions of captures are shorter."""
    given: dict[str, Value] = {"min_connections": 1, "min_idle_seconds": 3600}
    ours, theirs = (each.run(ANALYSES["idle_connections"], **given) for each in (on_spark, on_duckdb))
    assert rows(ours) == rows(theirs)
    assert dict(on_spark.frame(ANALYSES["near_max_message"]).dtypes)["max_message_bytes"] == "bigint"


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, analysis in ANALYSES.items() if largest(analysis)])
def test_they_are_the_same_with_the_largest_parameters(on_spark: SparkTables, on_duckdb: Database, name: str) -> None:
    most = largest(ANALYSES[name])
    for given in (most, {key: min(value, 10**7) for key, value in most.items()}):
        assert rows(on_spark.run(ANALYSES[name], **given)) == rows(on_duckdb.run(ANALYSES[name], **given))


def test_most_of_them_had_rows_to_compare(on_duckdb: Database) -> None:
    found = [name for name in ANALYSES if on_duckdb.run(ANALYSES[name], **loosened(name)).num_rows]
    assert len(found) >= len(ANALYSES) * 0.5, sorted(set(ANALYSES) - set(found))


@pytest.mark.long
@pytest.mark.parametrize("capture", CAPTURED, ids=lambda path: path.name)
def test_they_are_the_same_on_each_capture(spark: "SparkSession", tmp_path: Path, capture: Path) -> None:
    assert decode("--records", "-o", tmp_path / "tables", capture) == 0
    ours = SparkTables(spark, [str(tmp_path / "tables")])
    with Database([tmp_path / "tables"], wanted=TABLES) as database:
        for analysis in ANALYSES.values():
            assert rows(ours.run(analysis)) == rows(database.run(analysis)), analysis.id
    ours.close()


def test_a_report_of_what_ingest_wrote_is_that_of_the_captures(spark: "SparkSession", tmp_path: Path) -> None:
    """Clusters and days are partitions, which the analyses do not see."""
    chosen = [ANALYSES["latency"]]
    out = str(tmp_path / "out")
    ingest(spark.sparkContext, [str(CAPTURED[0])], out, cluster="one", options=Options())
    ingest(spark.sparkContext, [str(CAPTURED[2])], out, cluster="two", options=Options())
    november = Narrowed("two", date(2026, 11, 1), date(2026, 11, 30))
    alone = make_report(SparkTables(spark, [out], only=november), chosen, {})
    nothing = make_report(SparkTables(spark, [out], only=Narrowed(first=date(2026, 12, 1))), chosen, {})
    direct = make_report(SparkTables(spark, [str(CAPTURED[2])]), chosen, {})
    assert (alone.summary.requests, nothing.summary.requests) == (126, 0)
    assert [rows(answer.rows) for answer in alone.answers] == [rows(answer.rows) for answer in direct.answers]
    assert [answer.verdict for answer in alone.answers] == [answer.verdict for answer in direct.answers]
    assert [answer.analysis.id for answer in alone.answers] == ["latency"]


@pytest.mark.long
def test_a_diff_of_two_sources_and_of_two_ranges_is_that_of_duckdb(spark: "SparkSession", tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, capture in ((before, CAPTURED[0]), (after, CAPTURED[2])):
        assert decode("-o", folder, capture) == 0
    diff = ANALYSES["diff"]
    ours = SparkTables(spark, [str(before), str(after)], compare=True)
    with Database([before, after], compare=True) as database:
        expected = rows(database.run(diff))
    assert rows(ours.run(diff)) == expected
    assert len(expected) == 5  # clients lost and new
    with Database([after]) as database:
        sql = "SELECT epoch_us(min(request_at)), epoch_us(max(request_at)) FROM exchanges"
        [(first, last)] = database.connection.execute(sql).fetchall()
    spans = ((first, first + (last - first) // 3), (first + (last - first) // 2, last + 1))
    parts = SparkTables(spark, [str(after)], spans=spans)
    with Database([after], spans=spans) as database:
        assert rows(parts.run(diff)) == rows(database.run(diff))
    ours.close()
    parts.close()


def test_a_mistake_in_a_users_file_has_its_place(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "mine.sql"
    path.write_text(
        "/*\nid: mine\ntitle: Mine\nseverity: info\nmeaning: None.\n*/\nSELECT api_name,\n  no_such FROM exchanges\n"
    )
    [mine] = [one for one in library.load([tmp_path]).values() if one.id == "mine"]
    tables = SparkTables(spark, [str(CAPTURED[0])])
    with pytest.raises(ConfigError) as refused:
        tables.run(mine)
    [mistake] = refused.value.mistakes
    assert (mistake.line, mistake.column) == (8, 3)
    assert "no_such" in mistake.message


def test_parameters_as_literals(spark: "SparkSession") -> None:
    """What Spark computes is what was given, and texts, names and comments stay as they are."""
    given = {"a": "it's \\ here", "b": 3_000_000_000, "c": 0.1, "d": True, "e": None}
    sql = "SELECT :a, :b, :c, :d, :e, ':a', 1 AS `:b`, \":a\" /* :a */ -- :a\n"
    [row] = spark.sql(with_values(sql, given)).collect()
    assert list(row) == [*given.values(), ":a", 1, ":a"]
    assert row.asDict()[":b"] == 1
