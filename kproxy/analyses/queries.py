"""Users' queries in DuckDB's own SQL, over the tables of a Database.

A query reads the tables and nothing else: before the first one, DuckDB is cut off from files and the network, and its
configuration is locked. It still reads the Parquet files of the sources, and uses its temporary directory.
Allowed are SELECT and its short forms (FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE), EXPLAIN, and CREATE (in memory).

SHOW TABLES and DESCRIBE answer with what a row and a column mean, in place of DuckDB's columns about keys and defaults.
SHOW TABLES leaves out the views that analyses are built on; SHOW ALL TABLES has them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kproxy.analyses.dialect import PLACE, place_of, tables_in
from kproxy.analyses.duck import Database, check_available, ends_at_interrupt
from kproxy.analyses.facts import FACTS_TABLES, FactsTable
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.tables.contracts import TABLES, Table

if TYPE_CHECKING:
    import pyarrow

BATCH = 2_048  # rows
RUN = {"SELECT", "EXPLAIN", "CREATE"}
SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
DESCRIBE = re.compile(r'\s*(?:DESCRIBE|DESC)\s+(?:TABLE\s+)?"?(\w+)"?\s*;?\s*', re.IGNORECASE)


class Queries:
    """Runs queries, one after the other."""

    def __init__(self, database: Database) -> None:
        self._connection = database.connection
        self._views = database.make_all()
        database.seal()

    def run(self, query: str) -> "pyarrow.RecordBatchReader":
        """The rows of a query, as they come. Raises UsageError with the place of a mistake."""
        import duckdb  # noqa: PLC0415 - heavy, and an extra

        check_query(query)
        if SHOW_TABLES.fullmatch(query):
            return self._tables()
        described = DESCRIBE.fullmatch(query)
        try:
            with ends_at_interrupt():
                rows = self._connection.sql(query)
                if described is not None and rows is not None:
                    return _described(described[1].lower(), rows.to_arrow_table())
                if rows is None:
                    return _nothing()
                if len({name.lower() for name in rows.columns}) < len(rows.columns):
                    rows = rows.project("*")  # which numbers equal names: a, a_1
                return rows.to_arrow_reader(BATCH)
        except duckdb.Error as error:
            raise UsageError(mistake_of(error, query)) from None

    def _tables(self) -> "pyarrow.RecordBatchReader":
        """The tables, those with facts, and what the user created: name, and what a row is."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        tables: list[tuple[str, Table | FactsTable]] = [*TABLES.items(), *FACTS_TABLES.items()]
        known = {name: table.row for name, table in tables if table.row}
        rows = self._connection.execute(
            "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
        ).fetchall()
        ours = {*known, *FACTS_TABLES, *self._views}
        own = [name for (name,) in rows if name not in ours and not name.startswith("_")]
        names = [*known, *own]
        return pa.table({"name": names, "meaning": [known.get(name, "") for name in names]}).to_reader()

    def columns(self) -> dict[str, list[str]]:
        """Table or view -> its columns, for completion."""
        columns: dict[str, list[str]] = {}
        rows = self._connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY table_name, column_index"
        ).fetchall()
        for table, column in rows:
            if not table.startswith("_"):
                columns.setdefault(table, []).append(column)
        return columns

    def functions(self) -> list[str]:
        """Names of functions, for completion."""
        rows = self._connection.execute("SELECT DISTINCT function_name FROM duckdb_functions() ORDER BY 1").fetchall()
        return [name for (name,) in rows if re.fullmatch(r"[a-z][a-z0-9_]+", name)]


def check_query(query: str) -> set[str]:
    """Return the tables that a query reads. Raises UsageError unless it is one valid statement that only reads."""
    check_available(extra="sql")
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise UsageError(mistake_of(error)) from None
    if len(statements) != 1:
        raise UsageError("write one statement" if statements else "the query is empty")
    kind = str(statements[0].type).rpartition(".")[2]
    if kind not in RUN:
        raise UsageError(
            f"{kind} is not run: a query reads the tables (SELECT, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN, CREATE)"
        )
    return set(tables_in(query))


def _described(name: str, rows: "pyarrow.Table") -> "pyarrow.RecordBatchReader":
    """Names and types of columns as DuckDB has them, and what they mean."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    meanings: Mapping[str, str] = FACTS_TABLES[name].meanings if name in FACTS_TABLES else {}
    if name in TABLES:
        meanings = {column.name: column.explained for column in TABLES[name].columns}
    names = rows.column("column_name").to_pylist()
    described = rows.select(["column_name", "column_type"])
    return described.append_column(
        "meaning", pa.array([meanings.get(each, "") for each in names], pa.string())
    ).to_reader()


def _nothing() -> "pyarrow.RecordBatchReader":
    """The rows of a CREATE."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    return pa.RecordBatchReader.from_batches(pa.schema([]), [])


def rows_of(reader: "pyarrow.RecordBatchReader") -> Iterator[dict[str, Any]]:
    """Yield rows as they come. Raises UsageError for a mistake that shows only while the query runs."""
    import duckdb  # noqa: PLC0415 - as above
    import pyarrow as pa  # noqa: PLC0415 - as above

    try:
        with ends_at_interrupt():
            for batch in reader:
                yield from batch.to_pylist()
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise UsageError(mistake_of(error)) from None


def mistake_of(error: BaseException, query: str = "") -> str:
    """DuckDB's message in one line, after the place in the query if it is known."""
    text = str(error).strip()
    place = PLACE.search(text)
    words = printable(" ".join(text[: place.start()].split() if place else text.split()), 500)
    line, column = place_of(text, query)
    return f"line {line}, column {column}: {words}" if line else words
