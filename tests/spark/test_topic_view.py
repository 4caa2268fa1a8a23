"""Views of a topic on Spark and in DuckDB: the same rows, with the types of the schema."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import message_factory

from kproxy.encryption.envelope import MARKER
from kproxy.errors import UsageError
from kproxy.schemas.protobuf import ProtobufSchema
from kproxy.schemas.settings import SchemaSources
from kproxy.spark.topic_view import make_topic_view
from tests.cli.test_schemas import capture, produced
from tests.support.command import kproxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Other { string x = 1; }
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string sku = 1; int64 count = 2; Order of = 3; }
  int64 id = 1;
  uint64 most = 2;
  State state = 3;
  repeated Line lines = 4;
  map<string, double> weights = 5;
  oneof contact { string email = 6; fixed32 phone = 7; }
  google.protobuf.Timestamp at = 8;
  google.protobuf.Int64Value total = 9;
  repeated int32 sizes = 10;
  bytes hash = 11;
}
"""
LINES = 'STRUCT(sku VARCHAR, count BIGINT, "of" JSON)[]'
TYPES = {
    "id": ("BIGINT", "bigint"),
    "most": ("UBIGINT", "decimal(20,0)"),
    "state": ("VARCHAR", "string"),
    "lines": (LINES, "array<struct<sku:string,count:bigint,of:string>>"),
    "weights": ("MAP(VARCHAR, DOUBLE)", "map<string,double>"),
    "email": ("VARCHAR", "string"),
    "phone": ("UINTEGER", "bigint"),
    "at": ("TIMESTAMP WITH TIME ZONE", "timestamp"),
    "total": ("BIGINT", "bigint"),
    "sizes": ("INTEGER[]", "array<int>"),
    "hash": ("VARCHAR", "string"),
}
LARGE = 2**63 - 1


def written() -> list[bytes]:
    """Two orders, the second message of the file, as Confluent frames them."""
    order: Any = message_factory.GetMessageClass(ProtobufSchema(PROTO, {}).file.message_types_by_name["Order"])
    full = order(id=-LARGE, most=2**64 - 1, state=1, weights={"a b": 0.5}, phone=7, sizes=[1, -2], hash=b"\xff")
    full.lines.add(sku="s", count=LARGE).of.id = 4
    full.at.FromDatetime(datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC))
    full.total.value = LARGE
    return [b"\0\0\0\0\7" + b"\x02\x02" + one.SerializeToString() for one in (full, order(email="a@b"))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.proto").write_text(PROTO)
    path = capture(tmp_path / "orders.pcap", produced("orders", *written(), b"\0\0\0\0\7\xff"))
    words = ("--records", "--schemas", tmp_path / "schemas", "--format", "parquet", "-o", tmp_path / "tables", path)
    assert kproxy("decode", "-q", *words) == 0
    return tmp_path


EXPECTED = [
    (-LARGE, 2**64 - 1, "PAID", "s", LARGE, 0.5, None, 7, "2026-11-28 01:02:03", LARGE, 2),
    (0, 0, "NEW", None, None, None, "a@b", None, None, None, 0),
]
FIELDS = "id, most, state, {0}.sku, {0}.count, weights['a b'], email, phone, {1}, total, {2}"


def test_in_duckdb(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "sql",
        "-q",
        "--format",
        "json",
        "--schemas",
        folder / "schemas",
        "--view",
        "orders",
        folder / "orders.pcap",
    )
    assert kproxy(*words, "SELECT column_name, column_type FROM (DESCRIBE orders)") == 0
    types = {row["column_name"]: row["column_type"] for row in json.loads(capsys.readouterr().out)}
    assert {name: types.get(name) for name in TYPES} == {name: kind for name, (kind, _) in TYPES.items()}
    query = FIELDS.format("lines[1]", "strftime(\"at\" AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S')", "len(sizes)")
    assert kproxy(*words, f"SELECT {query} FROM orders ORDER BY id") == 0
    rows = [tuple(row.values()) for row in json.loads(capsys.readouterr().out)]
    assert [tuple(map(str, row)) for row in rows] == [tuple(map(str, row)) for row in EXPECTED]


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_on_spark(spark: "SparkSession", folder: Path) -> None:
    from pyspark.sql import functions as F  # noqa: PLC0415

    records, exchanges = (spark.read.parquet(str(folder / "tables" / name)) for name in ("records", "exchanges"))
    sources = SchemaSources.of_options(folders=[folder / "schemas"])
    view = make_topic_view("orders", records, exchanges, sources)
    types = {field.name: field.dataType.simpleString() for field in view.schema.fields}
    assert {name: types.get(name) for name in TYPES} == {name: kind for name, (_, kind) in TYPES.items()}
    query = FIELDS.format("get(lines, 0)", "string(to_utc_timestamp(at, current_timezone()))", "size(sizes)")
    rows = spark.sql(f"SELECT {query} FROM orders ORDER BY id").collect()
    assert [tuple(map(str, row)) for row in rows] == [tuple(map(str, row)) for row in EXPECTED]
    assert list(view.columns) == [*view.columns[:6], *TYPES]
    shut = records.withColumn("topic", F.lit("shut")).withColumn("value_json", F.lit(None).cast("string"))
    shut = shut.withColumn("value", F.lit(MARKER + b"rest")).withColumn("value_problem", F.lit("no key"))
    for topic, why in (
        ("payments", "there is no record of this topic"),
        ("shut", "3 of its 3 values are encrypted, and no other is an object: no key"),
    ):
        with pytest.raises(UsageError, match=f"^{topic}: {why}$"):
            make_topic_view(topic, shut, exchanges, sources)
