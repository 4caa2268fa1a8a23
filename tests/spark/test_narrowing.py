"""Rows of one cluster and of some days; what a day holds is counted by DuckDB in the tables of the whole capture."""

import struct
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.errors import UsageError
from kproxy.spark.file_rows import Options
from kproxy.spark.ingest import ingest
from kproxy.spark.narrowing import Narrowed
from kproxy.spark.report import SparkTables, summarize
from tests.support.corpus import CAPTURES
from tests.support.split_captures import packets_of
from tests.support.tables import decode, query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
NAME = "03-classic-rebalance-range.pcap"
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
ON = {"record_batches": "at", "offsets": "at", "group_events": "request_at", "exchanges": "request_at"}


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
        tables = SparkTables(spark, [str(source)], only=only, options=Options(records=True))
        for name in ON:
            expected = of_day(decoded, name, day)
            assert spark.table(name).count() == expected, name
        assert of_day(decoded, "exchanges", day) > 50
        lost = spark.sql("SELECT count(*) FROM exchanges LEFT ANTI JOIN connections USING (connection_id)").collect()
        assert lost[0][0] == 0
        open_then = f"select count(distinct connection_id) from exchanges where {_is_on(day)}"
        assert spark.table("connections").count() == query(decoded, open_then)[0][0]
        records = f"select count(*) from records join exchanges using (connection_id, exchange) where {_is_on(day)}"
        if kind != "ingested":  # which has them by the day of the batch
            assert spark.table("records").count() == query(decoded, records)[0][0]
        assert summarize(tables).requests == of_day(decoded, "exchanges", day)
        tables.close()


def _is_on(day: date, time: str = "request_at") -> str:
    return f"""cast("{time}" at time zone 'UTC' as date) = date '{day}'"""


@pytest.mark.slow
def test_both_days_together_are_everything(spark: "SparkSession", over_midnight: Path) -> None:
    """What is counted by exchanges is what is counted by connections."""
    source = str(over_midnight / "decoded")
    every = SparkTables(spark, [source])
    by_connections = summarize(every)
    one = SparkTables(spark, [source], only=Narrowed(first=date(2026, 3, 1), last=date(2026, 3, 2)))
    found = summarize(one)
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
        SparkTables(spark, [str(tmp_path / "out")], only=Narrowed(name))
        found[name] = spark.table("exchanges").count()
    assert (found["007"], found["7"]) == (23, 41)  # as their manifests count them
    assert found["Zürich / 1"] > 100
    with pytest.raises(UsageError, match="there is no cluster 'prod' in these tables; there are 007, 7, "):
        SparkTables(spark, [str(tmp_path / "out")], only=Narrowed("prod"))


@pytest.mark.parametrize("name", ["night.pcap", "decoded"])
def test_what_has_no_clusters_says_so(spark: "SparkSession", over_midnight: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--cluster is for tables of kproxy-spark ingest"):
        SparkTables(spark, [str(over_midnight / name)], only=Narrowed("x"))
