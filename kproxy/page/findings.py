"""Run the analyses of ``kproxy report`` over all open exchanges or a span of time.

Each span has a schema of its own in DuckDB, in which its tables are views of the others, so that the SQL of the analyses stays as
it is. A few spans are kept.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis
from kproxy.analyses.report.pages import plain
from kproxy.analyses.report.verdicts import answer
from kproxy.errors import ConfigError, UsageError
from kproxy.output.tables import TABLES
from kproxy.page.store import Store
from kproxy.page.work import Work

if TYPE_CHECKING:
    import duckdb
    import pyarrow

    from kproxy.analyses.duck import Database

MOST_SECONDS = 60.0  # for one analysis: some read every exchange, and the traffic comes first
EXAMPLE = ("connection_id", "exchange")  # columns of findings
MOST_SPANS = 3  # that are kept
MOST_ROWS = 2_000  # of an answer
MINUTE_US = 60_000_000
BEHIND = "What speaks against it may be in bytes of frames that are not analyzed (analysis.snaplen)."
UNITS = {"_ms": "ms", "_micros": "µs since 1970", "bytes": "bytes", "_size": "bytes", "seconds": "s", "_bytes": "bytes"}


class _Span(Struct):
    database: "Database"
    connection: "duckdb.DuckDBPyConnection"
    schema: str


class Findings:
    """Runs analyses on a store, one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._analyses = library.load()
        self._views = library.load_views()
        self._lock = threading.Lock()
        self._spans: OrderedDict[tuple[int, int | None, int | None], _Span] = OrderedDict()

    def list(self) -> list[dict[str, Any]]:
        """Return the answer of /page/api/analyses."""
        return [_described(one) | {"parameters": one.parameters} for one in self._analyses.values() if self._has(one)]

    def run(self, work: Work, name: str, start: int | None = None, end: int | None = None) -> dict[str, Any] | None:
        """Return the answer of /page/api/analyses/NAME; None if there is no such analysis. *start*, *end* in nanoseconds.

        Raises ConfigError, Cancelled.
        """
        analysis = self._analyses.get(name)
        if analysis is None or not self._has(analysis):
            return None
        work.wait_for(self._lock, "other analyses are run; ask again when they are done")
        try:
            with self._store.held(work):
                span = self._span(start, end)
                with work.ended_by(span.connection.interrupt):
                    result = answer(span.database, analysis, {})
        except ConfigError as error:  # where a table is damaged, DuckDB blames SQL that is right
            damages = self._store.look_for_damages()
            if damages:
                raise UsageError("; ".join(damages)) from error
            raise
        finally:
            self._lock.release()
        rows = result.rows.slice(0, MOST_ROWS)
        left_out, sampled = self._store.gaps(start, end), analysis.header.sampled
        uncertain: str | None = None  # why rows may be wrong, as the analysis draws conclusions from what is absent
        if left_out is not None and sampled:
            uncertain = sampled if left_out["sampled"] else BEHIND if left_out["cut"] else None
        return _described(analysis) | {
            "severity": result.severity,
            "verdict": result.verdict,
            "columns": _columns(analysis, rows.schema),
            "rows": [[plain(value) for value in row.values()] for row in rows.to_pylist()],
            "more": result.rows.num_rows - rows.num_rows,
            "numbers": self._numbers(work, rows),
            "leftOut": left_out,
            "uncertain": uncertain,
        }

    def _numbers(self, work: Work, rows: "pyarrow.Table") -> Sequence[int | None] | None:
        """Return the number of the exchange that each row names as its example; None if rows name none."""
        if not set(EXAMPLE) <= set(rows.column_names):
            return None
        keys = list(zip(*(rows.column(name).to_pylist() for name in EXAMPLE), strict=True))
        known = self._store.numbers_of(work, [key for key in keys if None not in key])
        return [known.get(key) for key in keys]

    def _has(self, analysis: Analysis) -> bool:
        """Return whether the tables that an analysis needs are filled: all but those of records."""
        return not library.reads_records(analysis, self._views)

    def _span(self, start: int | None, end: int | None) -> _Span:
        key = self._store.generation, start, end
        known = self._spans.get(key)
        if known is None:
            known = self._spans[key] = self._made(start, end)
        self._spans.move_to_end(key)
        while len(self._spans) > MOST_SPANS:
            _, oldest = self._spans.popitem(last=False)
            oldest.connection.execute(f"DROP SCHEMA {oldest.schema} CASCADE")
            oldest.connection.close()
        return known

    def _made(self, start: int | None, end: int | None) -> _Span:
        database = self._store.database
        connection = database.connection.cursor()
        schema = f"page_span_{token_hex(8)}"
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET search_path = '{schema},main'")
        if start is not None or end is not None:
            low, high = (0 if start is None else start) // 1000, (1 << 62 if end is None else end) // 1000
            for name in TABLES:
                connection.execute(
                    f"CREATE VIEW {schema}.{name} AS SELECT * FROM main.{name}{_within(name, low, high)}"
                )
        return _Span(database.over(connection), connection, schema)


def _within(table: str, low: int, high: int) -> str:
    """Return a WHERE that limits the rows of a table to a span in microseconds."""
    latest = 253_402_300_799_000_000  # the end of the year 9999
    first, last = f"make_timestamptz({min(low, latest)})", f"make_timestamptz({min(high, latest)})"
    columns = {column.name for column in TABLES[table].columns}
    if table == "connections":
        return f" WHERE coalesce(last_seen_at >= {first} AND first_seen_at <= {last}, true)"
    if table == "exchanges":
        return f" WHERE coalesce(request_at, response_at) BETWEEN {first} AND {last}"
    if table == "topic_activity":
        return f" WHERE minute BETWEEN make_timestamptz({max(min(low, latest) - MINUTE_US, 0)}) AND {last}"
    return f" WHERE seen_at BETWEEN {first} AND {last}" if "seen_at" in columns else ""


def _described(analysis: Analysis) -> dict[str, Any]:
    header = analysis.header
    return {
        "id": analysis.id,
        "title": header.title,
        "severity": header.severity,
        "meaning": header.meaning,
        "action": header.action,
        "reference": header.reference,
        "finding": analysis.is_finding,
    }


def _columns(analysis: Analysis, schema: "pyarrow.Schema") -> list[dict[str, str]]:
    return [
        {
            "name": field.name,
            "type": _type_of(field.type),
            "unit": next((unit for ending, unit in UNITS.items() if field.name.endswith(ending)), ""),
            "meaning": analysis.columns.get(field.name, ""),
        }
        for field in schema
    ]


def _type_of(kind: "pyarrow.DataType") -> str:
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    for name, test in (
        ("truth", pa.types.is_boolean),
        ("integer", pa.types.is_integer),
        ("number", pa.types.is_floating),
        ("number", pa.types.is_decimal),
        ("time", pa.types.is_temporal),
        ("texts", pa.types.is_list),
    ):
        if test(kind):
            return name
    return "text"
