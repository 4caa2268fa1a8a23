"""kproxy-spark report has the rows of kproxy report, in the same order; of clusters and days only theirs."""

import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlglot
from msgspec.structs import replace
from pyspark.sql.pandas.types import from_arrow_schema

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Value, View, known_to
from kproxy.analyses.duck import Database
from kproxy.analyses.facts import FACTS_TABLES, arrow_table
from kproxy.analyses.queries import Queries
from kproxy.analyses.report.verdicts import make_report, summarize
from kproxy.errors import ConfigError, Unanswerable, UsageError
from kproxy.output.tables import TABLES
from kproxy.spark import report
from kproxy.spark.ingest import ingest
from kproxy.spark.local import LocalContext
from kproxy.spark.report import Narrowed, SparkTables
from kproxy.spark.rows import Options
from kproxy.spark.sources import narrow, open_tables
from tests.bench.traffic import SHAPES
from tests.support.corpus import CAPTURES
from tests.support.split_captures import packets_of
from tests.support.tables import decode, query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # Spark takes seconds for each
ANALYSES = library.load()
CAPTURED = sorted(CAPTURES.glob("*.pcap*"))
NAME = "03-classic-rebalance-range.pcap"
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
ON = {"record_batches": "seen_at", "offsets": "seen_at", "group_events": "request_at", "exchanges": "request_at"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All captures, and two generated ones, as one directory of tables."""
    folder = tmp_path_factory.mktemp("analyses")
    for shape in ("tiny", "mixed"):
        SHAPES[shape](folder / f"{shape}.pcap", 100_000)
    made = [folder / "tiny.pcap", folder / "mixed.pcap"]
    assert (
        decode("--records", "--separate", "-o", folder / "tables", *CAPTURED, *made) == 0
    )  # tiny and mixed share endpoints
    return folder / "tables"


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


def loosened(*analyses: Analysis) -> dict[str, Value]:
    """Every threshold that is a number at 0, or the least that it may be, so that as many rows as possible are compared."""
    least: dict[str, float] = {}
    for name, one in (each for analysis in analyses for each in analysis.header.parameters.items()):
        if type(one.default) in (int, float):
            least[name] = max(type(one.default)(max(0, one.range[0])), least.get(name, 0))
    return {**least}


def test_executors_answer_as_duckdb_does(
    spark: "SparkSession", tables: Path, on_duckdb: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With every threshold at 0, in one job; the driver makes the views that many analyses need."""
    monkeypatch.setattr(report, "SMALL", 0)
    chosen = [one for one in ANALYSES.values() if "least" not in one.parameters]
    given = loosened(*chosen)
    ours = opened(spark.sparkContext, [str(tables)], options=Options(records=True), scratch=str(tmp_path))
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    ours.prepare(chosen, given)
    assert len(tracker.getJobIdsForGroup(None)) == before + 1
    assert {"clients", "group_lives"} <= {path.stem for path in tmp_path.rglob("*.parquet")}
    for one in chosen:
        expected = on_duckdb.run(one, **known_to(one, given))
        assert rows(ours.run(one)) == rows(expected), one.id
    ours.close()


@pytest.mark.parametrize("small", [0, report.SMALL])
def test_without_spark_captures_are_one_as_duckdb_has_them(
    small: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Captures of other hours and brokers, many and few: processes of this machine, or this one, answer."""
    monkeypatch.setattr(report, "SMALL", small)
    sources = [str(path) for path in CAPTURED if path.name.startswith(("03-", "10-"))]
    chosen = [ANALYSES[name] for name in ("map", "topics", "latency")]
    header = replace(ANALYSES["topics"].header, id="large")
    large = Analysis(header, f"SELECT {2**63 - 1} * count(*) AS topics FROM exchanges", "large.sql")
    ours = opened(LocalContext(2), sources, scratch=made(tmp_path / "scratch"))
    ours.prepare([large, *chosen], {})
    with pytest.raises(Unanswerable, match="a value is out of range in large"):
        ours.run(large)
    with Database(sources) as database:
        for one in chosen:
            assert rows(ours.run(one)) == rows(database.run(one)), one.id
    assert bool(list((tmp_path / "scratch").glob("*/connections"))) is (small == 0)


def test_the_plans_of_what_spark_copies_are_short(spark: "SparkSession", tables: Path) -> None:
    """Spark's own work in a report: to take the rows of some days."""
    only = Narrowed(first=date(2026, 11, 1), last=date(2026, 11, 30))
    narrowed = narrow("tables", open_tables(spark, str(tables)), only)
    plans = {name: len(frame._jdf.queryExecution().toString()) for name, frame in narrowed.items()}
    assert len(plans) == len(TABLES)
    assert max(plans.values()) < 20_000, plans


def test_the_examples_of_sql_have_their_rows_on_spark_too(
    spark: "SparkSession", tables: Path, on_duckdb: Database
) -> None:
    """All but two without a change; those are translated to Spark SQL."""
    given = open_tables(spark, str(tables))
    for name, frame in given.items():
        frame.createOrReplaceTempView(name)
    for name in FACTS_TABLES:
        fact = arrow_table(name)
        spark.createDataFrame(fact.to_pylist(), from_arrow_schema(fact.schema)).createOrReplaceTempView(name)
    examples = resources.files("kproxy.analyses").joinpath("examples.sql").read_text(encoding="utf-8").split(";")[:-1]
    assert len(examples) >= 20
    queries = Queries(on_duckdb)
    for example in examples:
        expected = queries.run(example).read_all().num_rows
        is_duckdbs = "unnest(" in example or "->>" in example
        sql = sqlglot.transpile(example, read="duckdb", write="spark")[0] if is_duckdbs else example
        assert spark.sql(sql).count() == expected, sql
    described = {row["col_name"]: row["comment"] for row in spark.sql("DESCRIBE offsets").collect()}
    assert described["partition_offset"].startswith("see kind")
    assert {column.name for table in TABLES.values() for column in table.columns} >= {*described} - {"cluster", "day"}


def test_many_of_them_had_rows_to_compare(on_duckdb: Database) -> None:
    found = [name for name, one in ANALYSES.items() if on_duckdb.run(one, **loosened(one)).num_rows]
    assert len(found) >= 35, sorted(set(ANALYSES) - set(found))


def test_a_report_of_what_ingest_wrote_is_that_of_the_captures(spark: "SparkSession", tmp_path: Path) -> None:
    """Clusters and days are partitions, which the analyses do not see."""
    chosen = [ANALYSES["latency"]]
    out = str(tmp_path / "out")
    ingest(spark.sparkContext, [str(CAPTURED[0])], out, cluster="one", options=Options())
    ingest(spark.sparkContext, [str(CAPTURED[2])], out, cluster="two", options=Options())
    november = Narrowed("two", date(2026, 11, 1), date(2026, 11, 30))
    alone = make_report(opened(spark.sparkContext, [out], only=november, scratch=made(tmp_path / "a")), chosen, {})
    nothing = make_report(
        opened(spark.sparkContext, [out], only=Narrowed(first=date(2026, 12, 1)), scratch=made(tmp_path / "b")),
        chosen,
        {},
    )
    direct = make_report(opened(spark.sparkContext, [str(CAPTURED[2])], scratch=made(tmp_path / "scratch")), chosen, {})
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
    ours = opened(spark.sparkContext, [str(before), str(after)], compare=True)
    with Database([before, after], compare=True) as database:
        expected = rows(database.run(diff))
    assert rows(ours.run(diff)) == expected
    assert len(expected) == 5  # clients lost and new
    with Database([after]) as database:
        sql = "SELECT epoch_us(min(request_at)), epoch_us(max(request_at)) FROM exchanges"
        [(first, last)] = database.connection.execute(sql).fetchall()
    spans = ((first, first + (last - first) // 3), (first + (last - first) // 2, last + 1))
    parts = opened(spark.sparkContext, [str(after)], spans=spans)
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
    tables = opened(spark.sparkContext, [str(CAPTURED[0])], scratch=made(tmp_path / "scratch"))
    with pytest.raises(ConfigError) as refused:
        tables.run(mine)
    [mistake] = refused.value.mistakes
    assert (mistake.line, mistake.column) == (8, 3)
    assert "no_such" in mistake.message


@pytest.fixture(scope="module")
def over_midnight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a capture in the middle of which a day ends (with connections that go on), as file and as tables."""
    folder = tmp_path_factory.mktemp("midnight")
    header, records = packets_of(NAME)
    [middle] = struct.unpack_from("<I", records[len(records) // 2])
    moved = int(MIDNIGHT.timestamp()) - middle
    shifted = [struct.pack("<I", struct.unpack_from("<I", record)[0] + moved) + record[4:] for record in records]
    (folder / "night.pcap").write_bytes(header + b"".join(shifted))
    assert decode("--records", "-o", folder / "decoded", folder / "night.pcap") == 0
    return folder


OPEN: list[SparkTables] = []


def opened(*given: Any, **options: Any) -> SparkTables:
    """SparkTables that are closed after the test."""
    OPEN.append(SparkTables(*given, **options))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def made(folder: Path) -> str:
    """A new folder."""
    folder.mkdir()
    return str(folder)


def count(tables: SparkTables, what: str) -> int:
    """How many rows there are of a table, or of tables that are joined."""
    [row] = tables.select(View("n", "", f"SELECT count(*) AS n FROM {what}", "")).to_pylist()
    return int(row["n"])


def of_day(tables: Path, table: str, day: date) -> int:
    """How many rows the undivided tables have."""
    [(count,)] = query(tables, f"select count(*) from {table} where {_is_on(day, ON[table])}")
    return int(count)


@pytest.mark.parametrize(
    "kind", ["ingested", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("decoded", "night.pcap"))]
)
def test_the_exchanges_of_a_day_have_their_connections(spark: "SparkSession", over_midnight: Path, kind: str) -> None:
    """Also those that began the day before: with ingest, they are in a folder of that day."""
    source = over_midnight / kind
    if kind == "ingested":
        ingest(spark.sparkContext, [str(over_midnight / "night.pcap")], str(source), options=Options(records=True))
    decoded = over_midnight / "decoded"
    for first, last in ((MIDNIGHT, None), (None, MIDNIGHT - timedelta(days=1))):
        day = (first or last or MIDNIGHT).date()
        only = Narrowed(first=first and first.date(), last=last and last.date())
        scratch = made(over_midnight / f"scratch-{kind}-{day}")
        tables = opened(spark.sparkContext, [str(source)], only=only, options=Options(records=True), scratch=scratch)
        for name in ON:
            expected = of_day(decoded, name, day)
            assert count(tables, name) == expected, name
        assert of_day(decoded, "exchanges", day) > 50
        assert count(tables, "exchanges ANTI JOIN connections USING (connection_id)") == 0
        open_then = f"select count(distinct connection_id) from exchanges where {_is_on(day)}"
        assert count(tables, "connections") == query(decoded, open_then)[0][0]
        records = f"select count(*) from records join exchanges using (connection_id, exchange) where {_is_on(day)}"
        if kind != "ingested":  # which has them by the day of the batch
            assert count(tables, "records") == query(decoded, records)[0][0]
        assert summarize(tables, [], by_exchanges=True).requests == of_day(decoded, "exchanges", day)


def _is_on(day: date, time: str = "request_at") -> str:
    return f"""cast("{time}" at time zone 'UTC' as date) = date '{day}'"""


@pytest.mark.slow
def test_both_days_together_are_everything(spark: "SparkSession", over_midnight: Path, tmp_path: Path) -> None:
    """What is counted by exchanges is what is counted by connections."""
    source = str(over_midnight / "decoded")
    every = opened(spark.sparkContext, [source])
    by_connections = summarize(every, [])
    one = opened(
        spark.sparkContext,
        [source],
        only=Narrowed(first=date(2026, 3, 1), last=date(2026, 3, 2)),
        scratch=str(tmp_path),
    )
    found = summarize(one, [], by_exchanges=True)
    assert (found.requests, found.errors, found.bytes) == (
        by_connections.requests,
        by_connections.errors,
        by_connections.bytes,
    )
    assert found.kafka_connections == by_connections.kafka_connections


@pytest.mark.slow
def test_clusters_are_told_apart_by_name(spark: "SparkSession", tmp_path: Path) -> None:
    """007 is not 7; one with letters that no folder has; one that is not there."""
    names = ["007", "7", "Zürich / 1"]
    for name, capture in zip(names, ("01-java-produce-consume-group.pcap", "06-sasl-scram.pcap", NAME), strict=True):
        ingest(spark.sparkContext, [str(CAPTURES / capture)], str(tmp_path / "out"), cluster=name)
    found = {}
    for name in names:
        scratch = tmp_path / f"scratch-{len(found)}"
        scratch.mkdir()
        tables = opened(spark.sparkContext, [str(tmp_path / "out")], only=Narrowed(name), scratch=str(scratch))
        found[name] = count(tables, "exchanges")
    assert (found["007"], found["7"]) == (23, 41)  # as their manifests count them
    assert found["Zürich / 1"] > 100
    with pytest.raises(UsageError, match="there is no cluster 'prod' in these tables; there are 007, 7, "):
        opened(spark.sparkContext, [str(tmp_path / "out")], only=Narrowed("prod"))


@pytest.mark.parametrize("name", ["night.pcap", "decoded"])
def test_what_has_no_clusters_says_so(spark: "SparkSession", over_midnight: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--cluster is for tables of kproxy-spark ingest"):
        opened(spark.sparkContext, [str(over_midnight / name)], only=Narrowed("x"), scratch=str(tmp_path))
