"""Spark SQL to DuckDB's, by sqlglot; here is what sqlglot leaves different between the two.

Same rows on both engines also asks something of who writes the SQL:

* ``ORDER BY`` names enough columns that no two rows tie. NULL is the least, as in Spark.
* Whole numbers are summed, not doubles, whose sum depends on the order: microseconds rather than milliseconds.
* A double in a result is rounded: ``round(x, 3)``. ``a / b`` is a double; ``a DIV b`` is a whole number. Write ``nullif(b, 0)``.
* ``percentile(x, 0.95)`` interpolates on both; not percentile_approx, whose algorithms differ.
* ``sort_array(collect_set(x))``: a set has no order.
* Times as numbers: ``unix_micros(at)``, ``timestamp_micros(n)``.
* Arrays of a table: ``LATERAL VIEW explode(topics) AS topic``, without OUTER, which DuckDB would lose.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from kproxy.analyses.analysis import mistake
from kproxy.analyses.translation_cache import Cache, Translation, users_cache

# What DuckDB lacks, or does otherwise, as macros; ``create_macros`` of kproxy.analyses.duck
MACROS = (
    # Spark rounds the decimal text of a double half up; DuckDB multiplies first, so that 2.675 becomes 2.67
    "CREATE OR REPLACE MACRO spark_round(x, digits) AS "
    "coalesce(TRY_CAST(round(TRY_CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 12)), digits) AS DOUBLE), round(x, digits))",
    "CREATE OR REPLACE MACRO timestamp_micros(n) AS make_timestamptz(CAST(n AS BIGINT))",
    "CREATE OR REPLACE MACRO timestamp_millis(n) AS make_timestamptz(CAST(n AS BIGINT) * 1000)",
    "CREATE OR REPLACE MACRO timestamp_seconds(n) AS make_timestamptz(CAST(n AS BIGINT) * 1000000)",
)


def parse(sql: str, path: str = "") -> exp.Query:
    """Parse one SELECT of Spark SQL. Raises ConfigError with its line and column in the file."""
    try:
        found = sqlglot.parse(sql, read="spark")
    except ParseError as error:
        first: dict[str, Any] = error.errors[0] if error.errors else {}
        words = f"{first.get('description', 'it is no SQL')}, near {str(first.get('highlight', ''))[:40]!r}"
        raise mistake(path, first.get("line") or 1, first.get("col") or 1, words) from None
    except TokenError as error:
        raise mistake(path, 1, 1, f"it is no SQL: {str(error).splitlines()[0][:200]}") from None
    statements = [statement for statement in found if statement is not None]
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise mistake(path, 1, 1, "write one SELECT (WITH ... SELECT): nothing else is run")
    return statements[0]


def tables_in(sql: str, path: str = "") -> tuple[str, ...]:
    """The names of the tables that a query reads, sorted, without those that WITH defines. Raises ConfigError."""
    return tuple(_translate(sql, path).tables)


def to_duckdb(sql: str, path: str = "") -> str:
    """The query as DuckDB runs it, with ``$name`` for parameters. Raises ConfigError."""
    return _translate(sql, path).duckdb


def parameters_in(sql: str, path: str = "") -> frozenset[str]:
    """The names of the parameters that a query uses. Raises ConfigError."""
    return frozenset(_translate(sql, path).parameters)


def tables_in_duckdb(query: str) -> set[str]:
    """The names of the tables that a query in DuckDB's SQL may read; none where sqlglot does not know all of it."""
    try:
        found = sqlglot.parse(query, read="duckdb")
    except (ParseError, TokenError):
        return set()
    return {
        table.name.lower() for statement in found if statement is not None for table in statement.find_all(exp.Table)
    }


def save_translations() -> None:
    """Keep for the next run what was translated in this one."""
    _cache().save()


@functools.cache
def _cache() -> Cache:
    return users_cache(Path(__file__))


@functools.lru_cache(maxsize=1024)
def _translate(sql: str, path: str) -> Translation:
    found = _cache().get(sql)
    if found is None:
        found = _translate_anew(sql, path)
        _cache().put(sql, found)
    return found


def _translate_anew(sql: str, path: str) -> Translation:
    query = parse(sql, path)
    defined = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    used = {table.name.lower() for table in query.find_all(exp.Table) if table.name}
    parameters = sorted({str(found.this) for found in query.find_all(exp.Placeholder) if found.this})
    for node in reversed(list(query.find_all(*_REWRITTEN))):  # what is inside first
        node.replace(_REWRITTEN[type(node)](node))
    text = query.sql(dialect="duckdb", identify=True)  # "at" and "offset" are words of DuckDB
    return Translation(sorted(used - defined), parameters, text)


def _round(node: exp.Expression) -> exp.Expression:
    return exp.Anonymous(
        this="spark_round", expressions=[node.this, node.args.get("decimals") or exp.Literal.number(0)]
    )


def _percentile(node: exp.Expression) -> exp.Expression:
    """Spark's percentile interpolates; DuckDB's quantile does not."""
    return exp.Anonymous(this="quantile_cont", expressions=[node.this, node.args["quantile"]])


def _collect(node: exp.Expression) -> exp.Expression:
    """Of no rows: empty, not NULL. As a window function it stays as it is, since OVER has to follow."""
    if isinstance(node.parent, exp.Window):
        return node
    return exp.Coalesce(this=node.copy(), expressions=[exp.Array(expressions=[])])


_REWRITTEN: dict[type[exp.Expression], Callable[[exp.Expression], exp.Expression]] = {
    exp.Round: _round,
    exp.Quantile: _percentile,
    exp.ArrayUniqueAgg: _collect,
    exp.ArrayAgg: _collect,
}
