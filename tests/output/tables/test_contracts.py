"""The contracts: what they say, said well, and kept by the files."""

import json

import duckdb
import pyarrow.parquet as pq
import pytest
from packaging.version import Version

import kproxy
from kproxy.output.tables import TABLES, schema_of
from kproxy.output.tables.contracts import BODIES, EXCHANGES
from tests.support.tables import query, tables_of

CAPTURE = "01-java-produce-consume-group.pcap"
# SELECT keyword FROM sql_keywords() WHERE reserved, in Spark 4.1 with spark.sql.ansi.enforceReservedKeywords
RESERVED_BY_SPARK = """
    all and any as authorization both call case cast check collate collation collations column constraint create
    cross current_date current_path current_schema current_time current_timestamp current_user distinct else end
    escape except execute false fetch filter for foreign from full grant group having in inner intersect into is
    join lateral leading left localtime natural not null offset on only or order outer overlaps primary recursive
    references right select session_user some sql table then time to trailing union unique unknown user using when
    where with within
"""
COLUMNS = [(table, column) for table in TABLES.values() for column in table.columns]


def test_columns_are_named_in_snake_case_and_explained_and_say_their_units_and_since_when() -> None:
    for table, column in COLUMNS:
        where = table.name, column.name
        assert column.name.isidentifier() and column.name == column.name.lower(), where
        assert column.meaning, where
        assert [other.name for other in table.columns].count(column.name) == 1, where
        measured = column.name.endswith(("_ms", "_bytes", "size")) or column.name == "bytes"
        assert (column.unit != "") is measured, where
        for since in (table.since, column.since):
            assert Version(since) <= Version(kproxy.__version__), where


def test_no_name_needs_quotes_in_duckdb_or_spark() -> None:
    keywords = duckdb.sql(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    )
    reserved = {name for (name,) in keywords.fetchall()} | {*RESERVED_BY_SPARK.split()}
    assert not reserved & {*TABLES, *(column.name for _, column in COLUMNS)}


@pytest.mark.parametrize("name", TABLES)
def test_files_have_the_columns_of_the_contract(name: str) -> None:
    columns = TABLES[name].columns + (BODIES if TABLES[name] is EXCHANGES else ())
    directory = tables_of(CAPTURE)
    described = query(
        directory, f"select name from parquet_schema('{directory}/{name}/*.parquet') where name != 'schema'"
    )
    top = [field.name for field in pq.read_schema(directory / name / "part-00000.parquet")]
    assert top == [column.name for column in columns]
    assert set(top) <= {each for (each,) in described}


@pytest.mark.parametrize("name", TABLES)
def test_files_carry_the_contract_in_their_metadata(name: str) -> None:
    schema = pq.read_schema(tables_of(CAPTURE) / name / "part-00000.parquet")
    assert schema.metadata[b"kproxy.table"] == name.encode()
    assert schema.metadata[b"kproxy.contract"] == str(TABLES[name].version).encode()
    for column in TABLES[name].columns:
        field = schema.field(column.name)
        assert str(field.type).replace("element: ", "").replace(" not null", "") == column.type
        assert field.nullable is column.nullable
        assert field.metadata[b"comment"] == column.meaning.encode()
        assert field.metadata[b"since"] == column.since.encode()


def test_the_marker_says_versions_and_rows() -> None:
    directory = tables_of(CAPTURE)
    said = json.loads((directory / "_kproxy.json").read_text(encoding="utf-8"))["tables"]
    assert said.keys() == TABLES.keys()
    for name, about in said.items():
        assert about == {
            "contract": TABLES[name].version,
            "rows": query(directory, f"select count(*) from {name}")[0][0],
        }


def test_no_column_is_for_secrets() -> None:
    words = ("password", "secret", "token", "salt", "hmac", "auth_bytes", "config_value")
    assert not [c.name for _, c in COLUMNS if any(word in c.name for word in words)]


def test_times_are_what_sql_engines_have() -> None:
    for table in TABLES.values():
        for field in schema_of(table):
            assert not str(field.type).startswith("timestamp[ns"), "Spark refuses them"
